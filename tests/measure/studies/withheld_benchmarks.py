# SPDX-License-Identifier: Apache-2.0
"""What a node wins that invents a part of its benchmark: on the real contracts, in titanoboa.

A node with 100 ZOO invents a share of its chunks and claims a score for all of them. It tries until
an answer has passed, or it is banned. Two verifiers judge it, each by eight public chunks and, with
`secret`, by as many that it draws alone; where one of them fails it, the committee condemns it.

- served: its artefact is there from the beginning.
- kept: it shows the artefact once the public draw has none of what it invented. Else it has the
  draw made anew after 256 blocks, and after the window it asks for its next attempt.

Seconds are those of a chain with a block in two. No play is another's: each has its own seeds.

    python -m tests.measure.studies.withheld_benchmarks --plays 40      # ten minutes
"""

from __future__ import annotations

import argparse
import random
import statistics
from dataclasses import dataclass
from fractions import Fraction

import boa
from rich.console import Console

from agents.nodes.benchmark import draw_checks
from agents.nodes.benchmark_disputes import DUE_CHECKS
from agents.protocol.draw import draw
from tests.measure.rows import text_table
from tests.stage.contracts.clock import mine
from tests.stage.contracts.registry import answer, give, request
from tests.stage.contracts.system import TRAINER, VERIFIER, ZOO, Codes, Player, System, deploy

UNITS = 1_000
STAKE = 100 * ZOO
BLOCK_S = 2
REDRAWN = 257  # blocks
VERIFIERS = 2


@dataclass(frozen=True)
class Play:
    """How one ended. `draws`: public ones that it saw. `lost`: of its stake, in ZOO."""

    passed: bool
    draws: int
    days: float
    lost: float


@dataclass
class Node:
    """The node, and what it does. `rng` is the verifiers' secrets."""

    system: System
    player: Player
    verifiers: list[Player]
    invented: frozenset[int]
    kept: bool
    secret: bool
    rng: random.Random

    def play(self) -> Play:
        began, draws = boa.env.timestamp, 0
        while not self._banned():
            self._ask()
            end = boa.env.timestamp + self.system.registry.parameters().benchmark_window
            while True:
                mine(2, 2 * BLOCK_S)
                draws += 1
                if not self.kept or not self._shown(self._drawn()):
                    self._judge(began)
                    break
                mine(REDRAWN, REDRAWN * BLOCK_S)
                if boa.env.timestamp > end:
                    break
                self.system.benchmarks.capture_check_seed(self.player.node_id)
            if self.system.registry.node(self.player.node_id).benchmark_score:
                return self._end(True, draws, began)
        return self._end(False, draws, began)

    def _ask(self) -> None:
        request(self.system.registry, self.system.benchmarks, self.player.node_id)
        mine(20, 20 * BLOCK_S)
        answer(self.system.benchmarks, self.player.node_id, UNITS, self.player.operator)

    def _drawn(self) -> list[int]:
        with boa.env.anchor():
            seed = bytes(self.system.benchmarks.capture_check_seed(self.player.node_id))
        return draw_checks(seed, UNITS, DUE_CHECKS)

    def _shown(self, chunks: list[int]) -> bool:
        return not self.invented.isdisjoint(chunks)

    def _judge(self, began: int) -> None:
        """Verifiers look; who finds something fails it, and the committee condemns it."""
        public = self._drawn()
        others = set(range(UNITS)).difference(public)
        found = [
            self._shown(public)
            or (self.secret and self._shown(draw(self.rng.randbytes(32), others, DUE_CHECKS)))
            for _ in self.verifiers
        ]
        benchmarks, node = self.system.benchmarks, self.player.node_id
        benchmarks.capture_check_seed(node)
        keys = {player.node_id: player.key for player in self.verifiers}
        if not any(found):
            give(benchmarks, node, keys)
            return
        give(benchmarks, node, keys, passed=False)
        owner = self.system.coordinator.address
        attempt = benchmarks.benchmark(node).attempt
        benchmarks.condemn(node, attempt, sender=owner)

    def _banned(self) -> bool:
        return bool(self.system.registry.node(self.player.node_id).banned)

    def _end(self, passed: bool, draws: int, began: int) -> Play:
        lost = STAKE - self.system.registry.bonded(self.player.node_id)
        return Play(passed, draws, (boa.env.timestamp - began) / 86_400, lost / ZOO)


def plays(
    codes: Codes, share: Fraction, kept: bool, secret: bool, count: int, seed: int
) -> list[Play]:
    """Each from the same state, at another block."""
    rng = random.Random(seed)
    found = []
    with boa.env.anchor():
        system = deploy(codes)
        verifiers = [system.join(f"verifier {i}", VERIFIER) for i in range(VERIFIERS)]
        player = system.join("node", TRAINER, STAKE)
        system.mature()
        for _ in range(count):
            with boa.env.anchor():
                mine(rng.randrange(1, 10**6), 1)
                invented = frozenset(rng.sample(range(UNITS), int(share * UNITS)))
                node = Node(system, player, verifiers, invented, kept, secret, rng)
                found.append(node.play())
    return found


def main() -> None:
    """Print a row for each share, strategy and rule."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plays", type=int, default=40)
    count = parser.parse_args().plays
    codes = Codes.compile()
    rows = []
    for share in (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)):
        for kept, secret in ((False, False), (True, False), (False, True), (True, True)):
            found = plays(codes, share, kept, secret, count, 0)
            rows.append(
                [
                    str(share),
                    "kept" if kept else "served",
                    "public and secret" if secret else "public",
                    f"{sum(play.passed for play in found) / count:.0%}",
                    f"{float(1 / (1 - share)):.2f}",
                    f"{statistics.mean(play.lost for play in found):.1f}",
                    f"{statistics.mean(play.draws for play in found):.1f}",
                    f"{statistics.mean(play.days for play in found):.2f}",
                ]
            )
            print(*rows[-1], flush=True)
    head = ["invented", "artefact", "drawn", "passed", "score x", "ZOO lost", "draws", "days"]
    Console().print(text_table(f"{count} plays a row", head, rows, left=3))


if __name__ == "__main__":
    main()
