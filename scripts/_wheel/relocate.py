# SPDX-License-Identifier: Apache-2.0
"""Moves the project's Python into one package: `agents.trainer` becomes `menagerie.agents.trainer`.

In the repository the folders are `agents` and `scripts`, names that other projects install, too.
Rule: imports are rewritten where the parser finds them, and so is text that is the dotted name of a
module. A plain `import` of a moved name, whose users would go on to use the old one, is refused.
What people are told to type is the wheel's own command. Only the standard library is imported here:
the build runs it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = "menagerie"
MOVED = ("agents", "scripts")
_MODULE = re.compile(rf"({'|'.join(MOVED)})(\.[A-Za-z_]\w*)+")
# What only a checkout can run: demos, figures, the set-up, and this folder's build step.
_SKIPPED = {"__pycache__", "_setup", "_demo", "_figures", "backend.py", "node_modules"}
_SOURCES = {".pyc", ".sh", ".ts"}
_SCRIPT = Path("scripts/_web/island")  # what the page's script is built from; it lies elsewhere


class RelocationError(ValueError):
    """An import that can't be moved; names the line."""


def relocated(source: str, commands: tuple[str, ...]) -> str:
    """The text of a Python file as it is in the wheel. `commands`: what `menagerie` has.

    Raises RelocationError.
    """
    tree = ast.parse(source)
    lines = source.encode().splitlines(keepends=True)
    places: set[tuple[int, int]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _moved(node.module or ""):
            after = re.match(rb"from\s+", lines[node.lineno - 1][node.col_offset :])
            if after is None:
                raise RelocationError(f"line {node.lineno}: the import's module is not beside it")
            places.add((node.lineno, node.col_offset + after.end()))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _moved(alias.name) and alias.asname is None:
                    raise RelocationError(
                        f"line {node.lineno}: write `from ... import` for {alias.name}, which the "
                        "wheel has under another name"
                    )
                if _moved(alias.name):
                    places.add((alias.lineno, alias.col_offset))
        elif isinstance(node, ast.Constant) and _MODULE.fullmatch(str(node.value)):
            places.add((node.lineno, node.col_offset + 1))  # behind the quote
    for line, column in sorted(places, reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + f"{PACKAGE}.".encode() + text[column:]
    return _told(b"".join(lines).decode(), commands)


def relocate(root: Path, out: Path, commands: tuple[str, ...]) -> None:
    """Write the package into the folder `out`, from a checkout.

    Files that are no Python, such as those of the page, go with it as they are.
    """
    package = out / PACKAGE
    for folder in MOVED:
        for path in sorted((root / folder).rglob("*")):
            inside = path.relative_to(root)
            if not path.is_file() or _left_out(inside, commands):
                continue
            target = package / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".py":
                try:
                    target.write_text(relocated(path.read_text("utf-8"), commands), "utf-8")
                except RelocationError as error:
                    raise RelocationError(f"{inside}: {error}") from None
            else:
                target.write_bytes(path.read_bytes())
        (package / folder / "__init__.py").touch()
    for deployment in sorted((root / "deployments").glob("*.json")):
        (package / "deployments").mkdir(exist_ok=True)
        (package / "deployments" / deployment.name).write_bytes(deployment.read_bytes())
    (package / "__init__.py").write_text("# SPDX-License-Identifier: Apache-2.0\n")
    (package / "__main__.py").write_text(
        "# SPDX-License-Identifier: Apache-2.0\n"
        f"from {PACKAGE}.scripts._wheel.command import cli\n\ncli()\n"
    )


def _left_out(path: Path, commands: tuple[str, ...]) -> bool:
    """Whether a file stays out of the wheel."""
    if _SKIPPED & set(path.parts) or path.suffix in _SOURCES or path.is_relative_to(_SCRIPT):
        return True
    return path.parent == Path("scripts") and path.suffix == ".py" and path.stem not in commands


def _moved(module: str) -> bool:
    return module.partition(".")[0] in MOVED


def _told(text: str, commands: tuple[str, ...]) -> str:
    """A file's text with the commands that its messages name."""
    known = "|".join(commands)
    text = re.sub(rf"\bape run ({known})\b", rf"{PACKAGE} \1", text)
    text = text.replace("ape accounts generate", f"{PACKAGE} wallet new ALIAS")
    return re.sub(r"\bpython -m agents\b", f"{PACKAGE} agent", text)
