# SPDX-License-Identifier: Apache-2.0
"""A swarm's round is the job's own: its pay is what `agents.rounds.outcome` says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agents.storage.embedded import EmbeddedStore
from agents.training.state import model_hash
from scripts._attacks.gauntlet_swarm import GauntletSwarm
from scripts._attacks.riders import SIGNS, fields_of
from scripts._attacks.scored_swarm import ScoredSwarm
from scripts._attacks.strategies import last_payloads, noise, resends, trains
from scripts._attacks.swarm import Skimmed, combined, unit

torch.set_num_threads(1)


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path / "store")


def test_each_round_pays_one_pot_and_moves_the_model(store: EmbeddedStore) -> None:
    swarm = ScoredSwarm.open(store, {n: trains() for n in (1, 2, 3)}, **fields_of({}, 3))
    before = {name: tensor.clone() for name, tensor in swarm.state.items()}
    swarm.round()
    swarm.round()
    assert sum(swarm.pay.values()) == pytest.approx(2.0)
    assert len(swarm.history) == len(swarm.payloads) == swarm.number == 2
    assert any(not torch.equal(before[name], swarm.state[name]) for name in before)


def test_a_seed_decides_text_and_first_model_where_only_what_is_sent_is_scored(
    tmp_path: Path,
) -> None:
    """By the same seed all is the same to the bit."""

    def played(seed: int, place: str) -> ScoredSwarm:
        people, fields = dict.fromkeys((1, 2, 3), trains()), fields_of({}, 3)
        swarm = ScoredSwarm.open(EmbeddedStore(tmp_path / place), people, seed, **fields)
        swarm.round()
        return swarm

    first, again, other = played(1, "first"), played(1, "again"), played(2, "other")
    assert model_hash(first.state) == model_hash(again.state) and first.pay == again.pay
    assert not torch.equal(first.job.data.batch(0), other.job.data.batch(0))
    assert model_hash(first.job.genesis()) != model_hash(other.job.genesis())
    assert first.pay != other.pay


def test_the_gauntlets_validators_pay_work_and_not_noise(store: EmbeddedStore) -> None:
    people = {1: trains(), 2: trains(), 3: trains(), 4: noise}
    swarm = GauntletSwarm.open(store, people, **fields_of(SIGNS, 4))
    for _ in range(3):
        swarm.round()
    assert swarm.pay[4] < 0.2 * min(swarm.pay[node] for node in (1, 2, 3))


class Counting:
    """Batches of two sequences of eight tokens and the one after; token t of row r is 100 r + t."""

    def batch(self, index: int) -> torch.Tensor:
        return torch.arange(9) + 100 * torch.tensor([[2 * index], [2 * index + 1]])


def test_a_part_of_each_sequence_is_its_first_one_or_another_in_each() -> None:
    """By hand: a quarter of eight tokens is two, and the one that follows them."""
    first, apart = (Skimmed(Counting(), 0.25, apart) for apart in (False, True))
    assert first.batch(1).tolist() == [[200, 201, 202], [300, 301, 302]]
    assert apart.batch(1).tolist() == [[204, 205, 206], [306, 307, 308]]
    assert apart.batch(2).tolist() == [[400, 401, 402], [502, 503, 504]]
    assert Skimmed(Counting(), 1.0, True).batch(0).tolist() == Counting().batch(0).tolist()


def test_a_rider_sends_what_is_public_at_the_usual_norm(store: EmbeddedStore) -> None:
    people = {1: trains(), 2: trains(), 3: resends(last_payloads, blur=0.0)}
    swarm = ScoredSwarm.open(store, people, **fields_of({}, 3))
    swarm.round()
    before = swarm.payloads[0]
    swarm.round()
    sent, mean = swarm.payloads[0][3], combined([(1.0, update) for update in before.values()])
    assert mean is not None
    flat = [
        torch.cat([update[name].flatten() for name in sorted(update)]) for update in (sent, mean)
    ]
    assert torch.nn.functional.cosine_similarity(*flat, dim=0) > 0.999
    norms = sorted(
        float(torch.cat([t.flatten() for t in u.values()]).norm()) for u in before.values()
    )
    assert float(flat[0].norm()) == pytest.approx(norms[1], rel=1e-3)


def test_no_parts_make_nothing() -> None:
    assert combined([]) is None
    assert float(unit({"a": torch.tensor([3.0, 4.0])})["a"].norm()) == pytest.approx(1.0)
