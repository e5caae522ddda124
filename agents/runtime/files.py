# SPDX-License-Identifier: Apache-2.0
"""Reads the JSON, YAML and TOML files that an operator names, at most so large and so deep.

Such a file may come from a stranger. The parsers recurse, and YAML's
takes seconds for a few kilobytes of brackets, so size and nesting are bounded before they build
anything. Every function raises ValueError with the reason, or OSError.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from agents.storage.nesting import MAX_DEPTH, parse_json

SETTINGS_BYTES = 64 << 10  # settings and keystores
SPEC_BYTES = 256 << 10  # of a job or a task
DEPLOYMENT_BYTES = 4 << 20  # every ABI of a network: a tenth of that

_TOO_DEEP = f"it nests deeper than {MAX_DEPTH}"
# tomllib takes time with the square of a dotted key's length.
_LONG_KEY = re.compile(rb"(?:\.[^.=\n]*){%d}" % MAX_DEPTH)


def read_bounded(path: Path | str, limit: int) -> bytes:
    """The file's bytes."""
    with Path(path).open("rb") as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise ValueError(f"it has more than {limit} bytes")
    return raw


def read_json(path: Path | str, limit: int) -> Any:
    """What a JSON file holds."""
    return parse_json(read_bounded(path, limit))


def read_yaml(path: Path | str, limit: int = SETTINGS_BYTES) -> Any:
    """What a YAML file holds; plain values only, and no aliases."""
    import yaml  # loaded only by those who use YAML

    class Shallow(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("it has an alias (`*name`); write the value out")
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise ValueError(_TOO_DEEP)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    text = read_bounded(path, limit).decode("utf-8")
    try:
        return yaml.load(text, Shallow)
    except yaml.YAMLError as error:  # its own text quotes the line, which may hold a key
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ValueError(f"{getattr(error, 'problem', None) or 'no YAML'}{where}") from None


def read_toml(path: Path | str, limit: int = SETTINGS_BYTES) -> dict[str, Any]:
    """What a TOML file holds."""
    raw = read_bounded(path, limit)
    if _LONG_KEY.search(raw):
        raise ValueError(f"a line has {MAX_DEPTH} dots before an equals sign")
    try:
        content = tomllib.loads(raw.decode("utf-8"))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _refuse_deep(content)
    return content


def _refuse_deep(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if level:
        raise ValueError(_TOO_DEEP)
