# SPDX-License-Identifier: Apache-2.0
"""The project's own rules for Vyper files, beyond what the formatter holds.

Every file: SPDX line, version pragma, a docstring with @title, @license and @notice, lines of at
most 100 characters, no experimental code generation, no `assert` or `raise` without a reason
"word: message". A file gives all its reasons under one word, in at most 40 characters; a module's
word is its name. Internal functions are marked `@internal` first.

Every deployable: `# pragma nonreentrancy on` and `@custom:kill`; constructor arguments that end
with an underscore; pause bits named PAUSE_ and listed by `set_paused`; every external function:
NatSpec whose @param are the arguments in order, and whose "Reverts:" has each reason that the
function gives itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINE_LENGTH = 100
SPDX = "# SPDX-License-Identifier: AGPL-3.0-only"
BARE_RAISE = re.compile(r"^\s*raise\s*(#.*)?$")
EXTERNAL = re.compile(
    r"^@external\n(?:@\w+(?:\(.*\))?\n)*def (\w+)\((?:[^)]|\)(?!:| ->))*\)[^:]*:\n(\s*\"\"\")?",
    re.MULTILINE,
)
REASON = re.compile(r'"([a-z_]+): [^"\n]+"')
REASON_LENGTH = 40
PAUSE_BIT = re.compile(r"^(PAUSE_[A-Z_]+): constant\(uint256\) = (\d+)$", re.MULTILINE)
# Decorators, name, arguments, docstring and code of a function that has a docstring.
DOCUMENTED = re.compile(
    r'^((?:@[^\n]+\n)+)def (\w+)\(((?:[^()]|\([^()]*\))*)\)[^\n]*:\n    """(.*?)"""(.*?)(?=^\S|\Z)',
    re.MULTILINE | re.DOTALL,
)


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, statement) with bracketed continuation lines joined."""
    depth, start, parts = 0, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("  #")[0]
        if not parts:
            start = number
        parts.append(code.strip() if parts else code)
        depth += sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")
        if depth <= 0:
            yield start, " ".join(parts)
            depth, parts = 0, []


def has_reason(statement: str) -> bool:
    """Whether an assert has a comma outside all brackets, behind which its reason stands."""
    depth = 0
    for character in statement:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            return True
    return False


def problems(path: Path) -> Iterator[str]:
    """Yield one sentence per rule the file breaks."""
    text = path.read_text()
    if not text.startswith(SPDX):
        yield f"1: the first line must be {SPDX!r}"
    if not re.search(r"^# pragma version ", text, re.MULTILINE):
        yield "1: `# pragma version` is missing"
    if match := re.search(r"^#\s*pragma\s+experimental-codegen", text, re.MULTILINE):
        yield (
            f"{line_of(text, match)}: `experimental-codegen` is a back end that its own authors "
            "call experimental; split the contract instead"
        )
    for tag in ("@title", "@license", "@notice"):
        if tag not in text:
            yield f"1: the docstring has no {tag}"
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LINE_LENGTH:
            yield f"{number}: {len(line)} characters, at most {LINE_LENGTH} are allowed"
    outside = re.sub(r'""".*?"""', lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    for number, statement in logical_lines(outside):
        if BARE_RAISE.match(statement):
            yield f"{number}: raise without a reason"
        elif statement.lstrip().startswith("assert ") and not has_reason(statement):
            yield f"{number}: assert without a reason"
    yield from reason_problems(path, outside)
    for match in re.finditer(r"^@(?:view|pure)\n@internal$", text, re.MULTILINE):
        yield f"{line_of(text, match)}: `@internal` stands first"
    if path.parent == ROOT / "contracts":
        yield from deployable_problems(text)
        yield from pause_problems(text)
        yield from natspec_problems(text)


def line_of(text: str, match: re.Match[str]) -> int:
    """The number of the line in which a match begins."""
    return text.count("\n", 0, match.start()) + 1


def reason_problems(path: Path, code: str) -> Iterator[str]:
    """Yield reasons that are too long or stand under another word than the others."""
    words = []
    for number, statement in logical_lines(code):
        if not re.match(r"\s*(assert|raise|self\._require)\b", statement):
            continue
        for match in REASON.finditer(statement):
            words.append((number, match[1]))
            if len(match[0]) - 2 > REASON_LENGTH:
                yield f"{number}: reason {match[0]} has more than {REASON_LENGTH} characters"
    wanted = path.stem if path.parent.name == "modules" else words[0][1] if words else ""
    for number, word in words:
        if word != wanted:
            yield f'{number}: a reason of this file begins with "{wanted}: ", not "{word}: "'


def pause_problems(text: str) -> Iterator[str]:
    """Yield pause bits that are no powers of two in order, or that `set_paused` doesn't list."""
    if "pausing._set_paused(" not in text:
        return
    bits = PAUSE_BIT.findall(text)
    if not bits or "# Pause bits.\n" not in text:
        yield "1: pause bits are constants PAUSE_..., under the comment `# Pause bits.`"
    docs = {match[2]: " ".join(match[4].split()) for match in DOCUMENTED.finditer(text)}
    for place, (name, value) in enumerate(bits):
        if int(value) != 1 << place:
            yield f"1: pause bit {name} must be {1 << place}"
        if f"{name} = {value}" not in docs.get("set_paused", ""):
            yield f"1: `set_paused` doesn't say {name} = {value}"


def natspec_problems(text: str) -> Iterator[str]:
    """Yield what the NatSpec of a deployable's constructor and external functions lacks."""
    for match in DOCUMENTED.finditer(text):
        decorators, name, arguments, doc, code = match.groups()
        number = line_of(text, match)
        names = re.findall(r"(\w+):", arguments)
        if "@deploy" in decorators:
            for argument in names:
                if not argument.endswith("_"):
                    yield f"{number}: constructor argument {argument} must end with an underscore"
        elif "@external" not in decorators:
            continue
        params = re.findall(r"@param (\w+)", doc)
        if params and params != names:
            yield f"{number}: @param of {name} are {params}, its arguments {names}"
        words = " ".join(doc.split())
        if re.search(r"Reverts with ", words):
            yield f"{number}: {name}: reverts are listed behind `Reverts:`"
        for reason in REASON.finditer(code):
            if reason[0] not in words:
                yield f"{number}: {name} doesn't list {reason[0]}"


def deployable_problems(text: str) -> Iterator[str]:
    """Yield what only deployables owe."""
    if not re.search(r"^# pragma nonreentrancy on", text, re.MULTILINE):
        yield "1: a deployable needs `# pragma nonreentrancy on`"
    if "@custom:kill" not in text:
        yield "1: a deployable says in @custom:kill how it is disabled"
    for match in EXTERNAL.finditer(text):
        if not match[2]:
            line = text.count("\n", 0, match.start()) + 1
            yield f"{line}: external function {match[1]} has no NatSpec"


def main() -> int:
    """Check every Vyper file of the project; return 1 if a rule is broken."""
    files = sorted([*ROOT.glob("contracts/**/*.vy*"), *ROOT.glob("interfaces/*.vyi")])
    found = [f"{path.relative_to(ROOT)}:{problem}" for path in files for problem in problems(path)]
    print("\n".join(found) if found else f"{len(files)} Vyper files keep the conventions.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
