# SPDX-License-Identifier: Apache-2.0
"""How far the benchmark's scores of equal machines lie apart, as the chain times them.

One machine is measured again and again by the trainers' own agents, one node after the other, on a
chain with a block a second: first for three seconds, as it was, then for as many blocks as agents
take now. A score is work over whole seconds from the block of the request to that of the answer; a
machine that is busy with other things is slower by its own clock too, and that is told apart.

    python -m tests.measure.studies.benchmark_spread --nodes 6      # three minutes
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from agents.nodes import benchmark
from agents.nodes.membership import Membership
from agents.protocol.network import Network
from agents.runtime.config import TrainerSettings
from agents.storage.embedded import EmbeddedStore
from scripts._net.anvil import start_anvil
from scripts._net.processes import Supervisor
from tests.stage.chain.agents import PASSPHRASE, RunningAgents
from tests.stage.chain.people import Node, People, found

_PATIENCE_S = 120
_USUAL_S = TrainerSettings().benchmark_s


def scores(
    people: People, agents: RunningAgents, store: EmbeddedStore, nodes: list[Node], blocks: int
) -> list:
    """Each node's score, as NodeBenchmarks would set it."""
    measured = []
    for node in nodes:
        context = agents.begin(node, "trainer", device="cpu", trainer={"benchmark_blocks": blocks})
        membership = Membership(Network(context.chain, context.deployment), context, store, "cpu")
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            membership.step(context.chain.head())
            state = people.chain.call(people.benchmarks, "benchmark", node.node_id)
            if state.submitted_at:
                break
            time.sleep(0.05)
        elapsed = int(state.submitted_at) - int(state.requested_at)
        measured.append((benchmark.score(int(state.units), elapsed), int(state.units), elapsed))
    return measured


def main() -> None:
    """Print every measurement and the spread before and after."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=6)
    count = parser.parse_args().nodes
    os.environ["MENAGERIE_PASSPHRASE"] = PASSPHRASE
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder)
        supervisor = stack.enter_context(Supervisor(path / "logs"))
        names = [f"{when}-{i}" for when in ("before", "now") for i in range(count)]
        people = found(start_anvil(supervisor, path).url, names, measured=lambda people, node: None)
        people.chain.warp(3_600)  # verifiers' stakes are old enough
        people.chain.rpc("evm_setAutomine", False)
        people.chain.rpc("evm_setIntervalMining", 1)
        agents, store = RunningAgents(people, path, stack), EmbeddedStore(path / "store")
        for when, blocks in (("before", 0), ("now", TrainerSettings().benchmark_blocks)):
            nodes = [people.nodes[name] for name in names if name.startswith(when)]
            found_ = scores(people, agents, store, nodes, blocks)
            own = max(float(blocks), _USUAL_S)  # seconds of work, by the machine's own clock
            for score, units, elapsed in found_:
                print(
                    f"{when:6}  {units:6} units in {own:g} s of its own and {elapsed:3} s of the "
                    f"chain: {score / 1e6:7.2f} a second"
                )
            scored = [score for score, _, _ in found_]
            speeds = [units / own for _, units, _ in found_]
            timings = [elapsed / own for _, _, elapsed in found_]
            print(
                f"{when:6}  largest over smallest: of the scores {_apart(scored)}"
                f", of the machine's own speed {_apart(speeds)}, of the timing {_apart(timings)}\n"
            )


def _apart(values: list[float]) -> str:
    return f"{max(values) / min(values):.3f}"


if __name__ == "__main__":
    main()
