# SPDX-License-Identifier: Apache-2.0
"""Where a command finds networks: in the checkout, or in the user's folder where there is none."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts._net.compiled import ROOT

CHECKOUT = (ROOT / "contracts").is_dir()
"""Whether the project's folder is around these files; a wheel is not."""
HOME = ROOT / ".menagerie" if CHECKOUT else Path("~/.menagerie").expanduser()
LOCALNET = HOME / "localnet"


def deployment_file(chain_id: int) -> Path:
    """Where the deployment of a chain is written down, whether the file is there or not.

    Without a checkout that is in the user's folder, else among those that came with the wheel.
    """
    shipped = ROOT / "deployments" / f"{chain_id}.json"
    if CHECKOUT:
        return shipped
    own = HOME / "deployments" / f"{chain_id}.json"
    return shipped if shipped.is_file() and not own.is_file() else own


def find_project() -> None:
    """Let the project's modules be found: ape takes its folder off the path after loading them."""
    if CHECKOUT and str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
