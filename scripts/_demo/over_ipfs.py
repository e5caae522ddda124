# SPDX-License-Identifier: Apache-2.0
"""The demo whose agents share no folder: whether bytes travelled through the IPFS client alone."""

from __future__ import annotations

import yaml

from scripts._net.ipfs_nodes import Ipfs
from scripts._net.localnet import Localnet
from scripts._report.verdict import Check

# Who has a store of its own beside the agents: who publishes the job, and who audits it.
SPONSOR, AUDITOR = "sponsor", "auditor"


def check_stores(net: Localnet, ipfs: Ipfs) -> Check:
    """No agent was given a folder, none is there, and content went from node to node."""
    named = {name: stores_of(net, name) for name in net.seats}
    wrong = [name for name, stores in named.items() if stores != [ipfs.address(name)]]
    moved = ipfs.exchanged()
    shared = net.store.exists()
    between = "" if moved is None else f"; {moved:,} bytes went from node to node"
    return Check(
        not wrong and not shared and moved != 0,
        f"no store folder is shared: the bytes of {len(named)} agents travelled over "
        f"{ipfs.said}{between}"
        + (f"; WRONG: {', '.join(wrong)} had another store" if wrong else "")
        + (f"; WRONG: {net.store.name}/ is there" if shared else ""),
    )


def stores_of(net: Localnet, name: str) -> list[str]:
    """The stores in the settings file of a seat."""
    stores = yaml.safe_load(net.seats[name].config.read_text(encoding="utf-8"))["store"]
    return [stores] if isinstance(stores, str) else list(stores)
