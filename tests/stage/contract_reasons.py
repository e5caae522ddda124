# SPDX-License-Identifier: Apache-2.0
"""The reasons with which a contract's function may refuse, from its source."""

from __future__ import annotations

import re

from scripts._net.compiled import ROOT

_QUOTED = re.compile(r'"([a-z]+: [^"]+)"')


def reasons(contract: str, function: str) -> set[str]:
    """The reasons in a function's own text: its NatSpec, and what it asserts itself.

    `contract`: a path below contracts, without its suffix.
    """
    source = (ROOT / f"contracts/{contract}.vy").read_text()
    start = re.search(rf"^def {function}\(", source, re.MULTILINE)
    assert start is not None, f"{contract} has no function {function}"
    rest = source[start.start() :]
    end = re.search(r"\n\n\n", rest)
    return set(_QUOTED.findall(re.sub(r"\s*\n\s*", " ", rest[: end.start() if end else None])))
