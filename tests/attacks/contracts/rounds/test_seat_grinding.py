# SPDX-License-Identifier: Apache-2.0
"""Attacks on the seats of a round, where more trainers are eligible than a job has seats."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tests.stage.contracts.rounds import RoundStage, make_rounds
from tests.stage.contracts.system import ZOO, Player, System
from tests.stage.contracts.wealth import of_player

TRAINERS, MALLORYS, SEATS, ROUNDS = 16, 4, 4, 16
# What a round pays its trainers, all rounds together, and what falls to each node by chance.
PAID = 85 * ZOO * ROUNDS
FAIR = PAID * MALLORYS // TRAINERS

Places = tuple[int, ...]  # node ids as the registry lists them


@dataclass(frozen=True)
class Move:
    """A node comes back to the registry's list (at its end), or leaves it (the last one fills the
    gap)."""

    node: int
    active: bool

    def __call__(self, places: Places) -> Places:
        if self.active:
            return (*places, self.node)
        rest = list(places)
        rest[rest.index(self.node)] = places[-1]
        return tuple(rest[:-1])


def window(places: Places, round_id: int) -> set[int]:
    """Who is seated when the seats go by the round's number, as they did."""
    start = (round_id - 1) * SEATS
    return {places[(start + i) % len(places)] for i in range(min(SEATS, len(places)))}


def best_moves(places: Places, mine: set[int], round_id: int) -> list[Move]:
    """What brings most of one's own nodes into a round's window, by search."""
    seen: set[tuple[bool, ...]] = set()
    queue: deque[tuple[Places, list[Move]]] = deque([(places, [])])
    best: list[Move] = []
    most = len(window(places, round_id) & mine)
    while queue and most < SEATS:
        at, moves = queue.popleft()
        for node in sorted(mine):
            move = Move(node, node not in at)
            then = move(at)
            shape = tuple(n in mine for n in then)
            if shape in seen or len(moves) == 8:
                continue
            seen.add(shape)
            queue.append((then, [*moves, move]))
            if (count := len(window(then, round_id) & mine)) > most:
                best, most = [*moves, move], count
    return best


def run(stage: RoundStage, round_id: int, seated: list[Player]) -> None:
    """The round from its first commit to its pay; everybody works the same."""
    stage.commit_all(round_id, *seated)
    stage.reveal_all(round_id, *seated)
    nodes = sorted(p.node_id for p in seated)
    stage.propose(round_id, nodes=nodes, contributions=[1] * len(nodes))
    stage.attest(round_id)
    stage.system.results.finalize(stage.job_id, round_id, nodes, [1] * len(nodes))


def test_seat_grinding__places_arranged_before_each_opening__no_more_seats_than_by_chance(
    system: System,
) -> None:
    """A coalition with a quarter of the trainers opens every round itself, after it has rested and
    woken its nodes so that as many as possible lie where the seats are taken by the round's
    number."""
    stage = make_rounds(system, TRAINERS, max_nodes=SEATS, rounds=ROUNDS)
    system.fund(stage.job_id, 10 * 100 * ZOO, stage.sponsor)
    registry, mine = system.registry, stage.trainers[-MALLORYS:]
    honest, own = stage.trainers[:-MALLORYS], {p.node_id: p for p in mine}
    before, theirs = of_player(system, *mine), of_player(system, *honest)
    seats = 0
    for round_id in range(1, ROUNDS + 1):
        for move in best_moves(tuple(registry.role_nodes(1, 0, 128)), set(own), round_id):
            operator = own[move.node].operator
            registry.set_active(move.node, move.active, sender=operator)
        assert system.open(stage.job_id) == round_id
        seated = [p for p in stage.trainers if system.rounds.is_expected(1, round_id, p.node_id)]
        assert len(seated) == SEATS
        seats += len([p for p in seated if p in mine])
        run(stage, round_id, seated)
    won = of_player(system, *mine) - before
    lost = of_player(system, *honest) - theirs - (PAID - FAIR)
    print(f"seats {seats / ROUNDS:.2f} of {SEATS}, won {won / ZOO}, fair {FAIR / ZOO}")
    assert abs(won - FAIR) <= 0.25 * FAIR and abs(lost) <= 0.25 * FAIR
