# SPDX-License-Identifier: Apache-2.0
"""Static analysis of the contracts, on the compiler's own annotated syntax tree.

Slither reads Vyper up to 0.3 (crytic/slither#2528), so the checks that matter here are made anew:

    unchecked-result   what a call to another contract answers is thrown away
    write-after-call   state is written after a call to another contract in the same function
    call-in-loop       a call to another contract that changes state, within a loop
    no-event           an external function writes state, and nothing is logged on the way
    no-lock            a deployable's function that calls another contract is `@reentrant`
    unsafe-arithmetic  unsafe_* without a comment on the lines above, but for a loop's counter
    multiply-after-divide   a quotient is multiplied
    foreign-payer      `transferFrom` takes from somebody else than the caller
    low-level          raw_call, delegatecall, tx.origin, selfdestruct, send
    weak-randomness    a block's hash or prevrandao is read
    unused             an import, a constant, a variable, a function or an argument is never named

The compiler itself refuses shadowed names, loops without a bound and two writers of one slot.
A finding's name is `check file function subject`, without line numbers. Each is mended, or answered
with a sentence in `.ci/answers.txt`; an answer to nothing is a finding too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from vyper import ast
from vyper.compiler.input_bundle import FilesystemInputBundle
from vyper.compiler.phases import CompilerData
from vyper.semantics.types.function import ContractFunctionT

ROOT = Path(__file__).resolve().parent.parent
ANSWERS = ROOT / ".ci" / "answers.txt"
LOW_LEVEL = {"raw_call", "selfdestruct", "send", "raw_create"}
RANDOM = {"blockhash"}
UNSAFE = re.compile(r"unsafe_(add|sub|mul|div)$")


def compiled(path: Path) -> CompilerData:
    """A contract with its meaning resolved; no code is generated."""
    packages = [Path(p) for p in sys.path if p and (Path(p) / "snekmate").exists()]
    bundle = FilesystemInputBundle([*packages, ROOT])
    with bundle.search_path(path.parent):
        return CompilerData(bundle.load_file(path), bundle)


class Tree:
    """A source file of this repository: its functions and what they call."""

    def __init__(self, module: Any, text: str, name: str) -> None:
        self.module = module
        self.lines = text.splitlines()
        # Without comments and docstrings.
        code = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
        self.code = "\n".join(line.split("#")[0] for line in code.splitlines())
        self.name = name
        self.functions = list(module.get_children(ast.FunctionDef))
        self.imported = {
            alias.alias or alias.name.split(".")[-1]: alias
            for alias in module.get_children((ast.Import, ast.ImportFrom))
        }


def function_of(call: Any) -> Any:
    """The definition of the internal function that a call means, or None."""
    kind = call.func._metadata.get("type")
    if isinstance(kind, ContractFunctionT) and kind.is_internal:
        return kind.decl_node
    return None


def root_name(node: Any) -> str:
    """The name that an attribute or subscript begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return str(node.id) if isinstance(node, ast.Name) else ""


def steps(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function does, in the order of its text: ("call" | "view" | "write" | "log", node).

    An internal function's steps stand where it is called."""
    yield from _steps(function, ())


def _steps(function: Any, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    if id(function) in above:
        return
    module = function.module_node
    stateful = {"self"} | {
        (n.alias or n.name.split(".")[-1])
        for n in module.get_children((ast.Import, ast.ImportFrom))
    }
    for statement in function.body:
        yield from _in(statement, stateful, (*above, id(function)))


def _in(node: Any, stateful: set[str], above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """The steps of a node: what it evaluates first, then what it does itself."""
    if isinstance(node, ast.Assign | ast.AugAssign):
        yield from _in(node.value, stateful, above)
        yield from _in(node.target, stateful, above)
        if not isinstance(node.target, ast.Name) and root_name(node.target) in stateful:
            yield "write", node
        return
    for child in sorted(node.get_children(), key=lambda n: (n.lineno, n.col_offset)):
        yield from _in(child, stateful, above)
    if isinstance(node, ast.ExtCall):
        yield "call", node
    elif isinstance(node, ast.StaticCall):
        yield "view", node
    elif isinstance(node, ast.Log):
        yield "log", node
    elif isinstance(node, ast.Call):
        inner = function_of(node)
        if inner is not None:
            yield from _steps(inner, above)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "pop"):
            if root_name(node.func) in stateful:
                yield "write", node
        elif isinstance(node.func, ast.Name) and node.func.id == "raw_call":
            yield "call", node


def called(node: Any) -> str:
    """The name of the function that an external call means."""
    function = node.value.func if isinstance(node, ast.ExtCall | ast.StaticCall) else node.func
    return str(getattr(function, "attr", getattr(function, "id", "?")))


def written(node: Any) -> str:
    """The variable that a statement writes."""
    target = node.func.value if isinstance(node, ast.Call) else node.target
    while isinstance(target, ast.Subscript):
        target = target.value
    names = []
    while isinstance(target, ast.Attribute | ast.Subscript):
        if isinstance(target, ast.Attribute):
            names.append(target.attr)
        target = target.value
    return str(names[-1]) if names else "?"


def has(function: Any, decorator: str) -> bool:
    return any(getattr(d, "id", "") == decorator for d in function.decorator_list)


def findings(tree: Tree) -> Iterator[str]:
    """The findings of one file."""
    for function in tree.functions:
        for check, subject in in_function(tree, function):
            yield f"{check} {tree.name} {function.name} {subject}"
    for name in tree.imported:
        if len(re.findall(rf"\b{name}\b", tree.code)) < 2:
            yield f"unused {tree.name} - import:{name}"


def in_function(tree: Tree, function: Any) -> Iterator[tuple[str, str]]:
    """The findings of one function, each once."""
    found: dict[tuple[str, str], None] = {}

    def add(check: str, subject: str) -> None:
        found[check, subject] = None

    entry = has(function, "external")
    before: Any = None
    wrote = logged = False
    for kind, node in steps(function):
        if kind == "call":
            before = node
        elif kind == "log":
            logged = True
        elif kind == "write":
            wrote = True
            if entry and before is not None:
                add("write-after-call", f"{written(node)}:{called(before)}")
    if entry and wrote and not logged and not has(function, "view"):
        add("no-event", "-")
    if entry and before is not None and has(function, "reentrant"):
        add("no-lock", called(before))
    for node in function.get_descendants(ast.Expr):
        if isinstance(node.value, ast.ExtCall | ast.StaticCall):
            kind = node.value.value.func._metadata["type"]
            if getattr(kind, "return_type", None) is not None:
                add("unchecked-result", called(node.value))
    for loop in function.get_descendants(ast.For):
        for node in loop.get_descendants(ast.ExtCall):
            add("call-in-loop", called(node))
    for node in function.get_descendants(ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if UNSAFE.match(name) and not is_counter(node) and not has_comment(tree, node.lineno):
            add("unsafe-arithmetic", ast_text(tree, node))
        if name in LOW_LEVEL:
            add("low-level", name)
        if name in RANDOM:
            add("weak-randomness", name)
        if name == "transferFrom" and ast_text(tree, node.args[0]) != "msg.sender":
            add("foreign-payer", ast_text(tree, node.args[0]))
    for node in function.get_descendants(ast.Attribute):
        if ast_text(tree, node) in ("tx.origin",):
            add("low-level", "tx.origin")
        if ast_text(tree, node) in ("block.prevrandao", "block.difficulty"):
            add("weak-randomness", node.attr)
    for node in function.get_descendants(ast.BinOp):
        if isinstance(node.op, ast.Mult) and any(
            isinstance(side, ast.BinOp) and isinstance(side.op, ast.FloorDiv)
            for side in (node.left, node.right)
        ):
            add("multiply-after-divide", ast_text(tree, node))
    names = [d.target.id for d in function.get_descendants(ast.AnnAssign)]
    names += [a.arg for a in function.args.args]
    body = "\n".join(tree.lines[function.lineno - 1 : function.end_lineno])
    body = re.sub(r'""".*?"""', "", body, flags=re.DOTALL)
    for name in names:
        if name != "_" and len(re.findall(rf"\b{name}\b", body)) < 2:
            add("unused", name)
    yield from found


def is_counter(node: Any) -> bool:
    """Whether this adds a literal to a variable and stores it there."""
    parent = node.get_ancestor(ast.Assign)
    return (
        parent is not None
        and parent.value is node
        and isinstance(node.args[1], ast.Int)
        and isinstance(node.args[0], ast.Name)
        and isinstance(parent.target, ast.Name)
        and parent.target.id == node.args[0].id
    )


def has_comment(tree: Tree, line: int) -> bool:
    """Whether a comment explains a line: on it, or among the few lines above."""
    return any("# " in tree.lines[i] for i in range(max(0, line - 4), line))


def ast_text(tree: Tree, node: Any) -> str:
    """A node's source on one line, without blanks."""
    return re.sub(r"\s+", "", str(node.node_source_code or ""))


def unused(parsed: dict[str, Tree]) -> Iterator[str]:
    """Variables and internal functions that no file names again."""
    everything = "\n".join(tree.code for tree in parsed.values())
    for tree in parsed.values():
        for node in tree.module.get_children(ast.VariableDecl):
            # A module's names are used behind a dot by others.
            where = everything if "/modules/" in tree.name else tree.code
            if not node.is_public and len(re.findall(rf"\b{node.target.id}\b", where)) < 2:
                yield f"unused {tree.name} - variable:{node.target.id}"
        for function in tree.functions:
            if has(function, "internal"):
                uses = len(re.findall(rf"\b{function.name}\(", everything))
                if uses <= everything.count(f"def {function.name}("):
                    yield f"unused {tree.name} {function.name} -"


def trees() -> dict[str, Tree]:
    """All source files of the repository's contracts, by path."""
    found: dict[str, Tree] = {}
    for path in sorted((ROOT / "contracts").glob("*.vy")):
        data = compiled(path)
        todo = [data.annotated_vyper_module]
        while todo:
            module = todo.pop()
            name = Path(module.resolved_path).resolve()
            if ROOT / "contracts" not in name.parents:
                continue
            key = str(name.relative_to(ROOT))
            if key not in found:
                found[key] = Tree(module, name.read_text(), key)
            for statement in module.get_children((ast.Import, ast.ImportFrom)):
                inner = statement._metadata["import_info"].parsed
                if isinstance(inner, ast.Module) and inner.path.endswith(".vy"):
                    todo.append(inner)
    return found


def answers() -> dict[str, str]:
    """The sentence for each finding, by its name; `*` stands for any text."""
    kept = {}
    for line in ANSWERS.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, sentence = line.partition(": ")
            kept[name.strip()] = sentence.strip()
    return kept


def main() -> int:
    """Prints what is neither mended nor answered, and answers to nothing; 1 if there is any."""
    parsed = trees()
    found = [finding for tree in parsed.values() for finding in findings(tree)]
    found += unused(parsed)
    given = answers()
    open_ones = [f for f in found if not any(fnmatchcase(f, name) for name in given)]
    idle = [name for name in given if not any(fnmatchcase(f, name) for f in found)]
    bare = [name for name, sentence in given.items() if not sentence.endswith(".")]
    for finding in sorted(open_ones):
        print(f"open: {finding}")
    for name in idle:
        print(f"answer to nothing: {name}")
    for name in bare:
        print(f"no sentence: {name}")
    print(f"{len(found)} findings, {len(found) - len(open_ones)} answered")
    return 1 if open_ones or idle or bare else 0


if __name__ == "__main__":
    raise SystemExit(main())
