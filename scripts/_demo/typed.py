# SPDX-License-Identifier: Apache-2.0
"""What the demos do by the commands that a person would type: register, start an agent, claim.

Rule: each command is `ape run ...` in a process of its own, with the wallets of the network's
folder and the answers that a person would give. A command that fails ends the demo with its words.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from agents.protocol.network import Network
from scripts._net.compiled import ROOT
from scripts._net.localnet import Localnet, Seat
from scripts._net.processes import ProcessError
from scripts._report.run import Claim

_PATIENCE_S = 180.0


def register(net: Localnet, seats: Sequence[Seat]) -> None:
    """Register nodes as their owners do, side by side; the seats then have their node ids."""
    with ThreadPoolExecutor(len(seats)) as people:
        list(people.map(lambda seat: _register(net, seat), seats))
    registry = net.contract("NodeRegistry")
    for seat in seats:
        node_id = int(registry.functions.node_of(seat.operator.address).call())
        net.seats[seat.name] = replace(seat, node_id=node_id)


def claim(net: Localnet, network: Network, seat: Seat) -> Claim:
    """Let a seat's owner claim all that is credited to its wallet."""
    owner, first = seat.owner.address, network.chain.head().number
    owed = sum(_credits(network, owner))
    before = _balance(network, owner)
    command(net, f"claim --account {seat.name}-owner", f"{seat.name}-owner")
    received = _balance(network, owner) - before
    return Claim(f"{seat.name}'s owner", owed, received, _claimed_by(network, owner, first))


def _register(net: Localnet, seat: Seat) -> None:
    accounts = net.directory / "ape" / "accounts"
    operator, owner = f"{seat.name}-operator", f"{seat.name}-owner"
    shutil.copyfile(net.directory / "keys" / f"{seat.name}.json", accounts / f"{operator}.json")
    line = f"node register --role {seat.role} --operator {seat.operator.address} --account {owner}"
    command(net, line, owner, operator)


def _credits(network: Network, owner: str) -> list[int]:
    """What the contracts owe a wallet, as `ape run claim` takes it out."""
    places = (
        *((network.pool, "pending"), (network.registry, "bounty")),
        *((c, "bond_credit") for c in (network.results, network.reports)),
        *((c, "bond_credit") for c in (network.tasks, network.appeals)),
    )
    return [int(n) for n in network.chain.call_many([(c, view, (owner,)) for c, view in places])]


def _balance(network: Network, owner: str) -> int:
    return int(network.chain.call(network.token, "balanceOf", owner))


def _claimed_by(network: Network, owner: str, first: int) -> str:
    """The transaction that paid a wallet the most since a block, empty if none did."""
    last = network.chain.head().number
    paid = network.chain.events(network.token, "Transfer", first, last, {"receiver": owner})
    if not paid:
        return ""
    return "0x" + max(paid, key=lambda event: event.args["value"]).tx_hash.hex()


def command(net: Localnet, line: str, *aliases: str) -> str:
    """Run `ape run LINE` on the network; what it prints. Raises ProcessError."""
    whole = f"run {line} --yes --network {net.chain.url} --deployment {net.deployment_file}"
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ape"), *whole.split()],
        cwd=ROOT,
        env={
            **os.environ,
            "APE_DATA_FOLDER": str(net.directory / "ape"),
            "PYTHONPATH": str(ROOT),
            **{f"APE_ACCOUNTS_{alias}_PASSPHRASE": net.passphrase for alias in aliases},
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    if done.returncode:
        raise ProcessError(f"`ape run {line}` failed: {done.stdout}{done.stderr}")
    return done.stdout
