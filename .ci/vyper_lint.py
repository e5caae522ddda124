# SPDX-License-Identifier: Apache-2.0
"""The project's own rules for Vyper files, beyond what the formatter holds.

Every file: SPDX line, version pragma, a docstring with @title, @license and @notice, lines of at
most 100 characters, no `assert` or `raise` without a reason "file: message". Every deployable:
`# pragma nonreentrancy on` and `@custom:kill`; every external function of one: NatSpec.
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
    if path.parent == ROOT / "contracts":
        yield from deployable_problems(text)


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
