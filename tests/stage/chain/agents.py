# SPDX-License-Identifier: Apache-2.0
"""Real agents of nodes on a test's chain, each with its own keystore, journal and data folder."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agents.runtime.config import AgentSettings
from agents.runtime.context import Context, start
from agents.runtime.wallet import create_keystore
from scripts._net.anvil import CHAIN_ID
from tests.stage.chain.people import Node, People

PASSPHRASE = "a throwaway passphrase"
"""Of all keystores; the test sets MENAGERIE_PASSPHRASE to it."""


class RunningAgents:
    """The agents' contexts by their nodes' names; `stack` closes them."""

    def __init__(self, people: People, folder: Path, stack: ExitStack) -> None:
        self.people, self.folder, self.stack = people, folder, stack
        self.running: dict[str, Context] = {}
        self.deployment = folder / "deployment.json"
        contracts = {n: {"address": c.address, "abi": c.abi} for n, c in people.contracts.items()}
        record = {"chain_id": CHAIN_ID, "block": 0, "contracts": contracts}
        self.deployment.write_text(json.dumps(record))

    def begin(self, node: Node, role: str, **options: Any) -> Context:
        """Start a node's agent; called again for the same node, it restarts it.

        `options`: fields of its settings.
        """
        if node.name in self.running:
            self.running[node.name].close()
        keystore = self.folder / f"{node.operator.address}.json"
        if not keystore.exists():
            create_keystore(keystore, PASSPHRASE, bytes(node.operator.key), iterations=2)
        settings = AgentSettings(
            rpc_url=self.people.chain._url,
            deployment=self.deployment,
            keystore=str(keystore),
            passphrase_env="MENAGERIE_PASSPHRASE",
            data_dir=self.folder / node.name,
            log_file=self.folder / f"{node.name}.log",
            **options,
        )
        context = self.running[node.name] = start(settings, role)
        self.stack.callback(context.close)
        # The agent sends by itself now: the test's client must look its nonce up again.
        self.people.chain._nonces.pop(node.operator.address, None)
        return context
