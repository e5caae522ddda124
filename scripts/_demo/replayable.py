# SPDX-License-Identifier: Apache-2.0
"""What a stranger needs to replay a demo's run after its processes have ended: chain and store.

They are copied beside the report, so that its reader can verify it and the next demo does not
overwrite them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from agents.runtime.urls import hide
from scripts._net.anvil import Anvil, find_anvil
from scripts._net.compiled import ROOT
from scripts._net.ipfs_nodes import Ipfs
from scripts._net.localnet import Localnet, relative

_PORT = 8545


def keep(net: Localnet, directory: Path, ipfs: Ipfs | None = None) -> None:
    """Copy chain, contracts and store into a folder; what somebody else runs stays there.

    `ipfs`: what the agents store through, where they share no folder. Raises RuntimeError, OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if isinstance(net.chain, Anvil):
        net.chain.save(directory / "chain.json")
    shutil.copyfile(net.deployment_file, directory / "deployment.json")
    if ipfs is not None:
        ipfs.copy_to(directory / "store")
        return
    shutil.copytree(net.store, directory / "store", ignore=shutil.ignore_patterns("tmp"))


def commands(net: Localnet, job_id: int, directory: Path, ipfs: Ipfs | None = None) -> list[str]:
    """Lines to type in the project's folder that audit a job from what `keep` copied."""
    folder = relative(directory.resolve())
    store = f"{folder}/store" if ipfs is None or ipfs.stays is None else hide(ipfs.stays)
    files = f"--deployment {folder}/deployment.json --store {store}"
    if not isinstance(net.chain, Anvil):
        return [f"ape run audit --job {job_id} --rpc {hide(net.chain.url)} {files}"]
    found = Path(find_anvil())
    anvil = relative(found) if found.is_relative_to(ROOT) else found.name
    return [
        f"{anvil} --load-state {folder}/chain.json --port {_PORT} --quiet &",
        f"ape run audit --job {job_id} --rpc http://127.0.0.1:{_PORT} {files}",
    ]
