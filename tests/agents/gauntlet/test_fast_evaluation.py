# SPDX-License-Identifier: Apache-2.0
"""Fast evaluation of a real round: each thing that can be wrong with a node, and its one reason."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from agents.gauntlet.fast_evaluation import Checked, Facts, check_nodes, step_size
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.rounds.submissions import Submission
from agents.rounds.sync_sample import open_samples, sync_root
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.state import State
from tests.stage.memory.honest_round import (
    AUDIT_SEED,
    NODES,
    HonestRound,
    make_honest_round,
    scaled,
)
from tests.stage.memory.tiny_specs import GAUNTLET

OPTIONS = Gauntlet(samples=2)
UNIT = 1e-3
FREE_JOB: dict[str, Any] = {
    **GAUNTLET,
    "optimizer": {"batch_size": 2, "seq_len": 16, "inner": "gradient", "outer_lr": 1e-3},
}


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> HonestRound:
    return make_honest_round(EmbeddedStore(tmp_path_factory.mktemp("free") / "store"), **FREE_JOB)


@dataclass(frozen=True)
class GoodRound:
    """A round in which everybody did well, to be spoilt."""

    tiny: HonestRound
    submissions: tuple[Submission, ...]
    samples: dict[int, bytes]

    def check(
        self,
        committed: Collection[int] = NODES,
        invalid: Collection[int] = (),
        unit: float = UNIT,
        nodes: tuple[int, ...] = NODES,
    ) -> dict[int, Checked]:
        tiny = self.tiny
        facts = Facts(nodes, committed, self.samples, invalid)
        played = (tiny.plan, tiny.before, self.submissions)
        return check_nodes(facts, tiny.job, OPTIONS, *played, AUDIT_SEED, unit, tiny.store)

    def scaled(self, node: int, factor: float) -> GoodRound:
        """The same with a payload that is so many times as long."""
        [mine] = [s for s in self.submissions if s.reveal.node == node]
        assert mine.gradient is not None
        return self.submit(node, replace(mine, gradient=scaled(mine.gradient, factor)))

    def sample(self, node: int, raw: bytes) -> GoodRound:
        """The same with another sync sample posted."""
        digest = digest_of(self.tiny.store.put_bytes(raw))
        return replace(self, samples={**self.samples, node: digest})

    def submit(self, node: int, changed: Submission) -> GoodRound:
        """The same with another submission."""
        rest = tuple(changed if s.reveal.node == node else s for s in self.submissions)
        return replace(self, submissions=rest)

    def started_from(self, node: int, state: State) -> GoodRound:
        """The same with a node that committed to another model, and opens it honestly."""
        mine = next(s for s in self.submissions if s.reveal.node == node)
        moved = replace(mine, reveal=replace(mine.reveal, trace_root=sync_root(state)))
        return self.submit(node, moved).sample(node, open_samples(state, AUDIT_SEED, 2))


@pytest.fixture
def good(free: HonestRound) -> GoodRound:
    raw = open_samples(free.before, AUDIT_SEED, OPTIONS.samples)
    digest = digest_of(free.store.put_bytes(raw))
    return GoodRound(free, tuple(free.honest()), dict.fromkeys(NODES, digest))


def only(found: dict[int, Checked], node: int, usable: bool) -> str:
    """The failure of `node`, which must be the only one."""
    others = {n: checked for n, checked in found.items() if n != node}
    good = Checked("", True, 0.0)
    assert all(checked == good for checked in others.values()), f"only {node} should fail: {others}"
    assert found[node].usable is usable, f"the payload of {node} should be usable: {usable}"
    return found[node].failure


def test_honest_nodes_pass_with_a_sync_score_of_zero(good: GoodRound) -> None:
    assert good.check() == dict.fromkeys(NODES, Checked("", True, 0.0))


def test_every_node_of_the_snapshot_is_checked_in_its_order(good: GoodRound) -> None:
    order = (9, 3, 8, 5)
    assert tuple(good.check(nodes=order)) == order


def test_late_and_silent_nodes_fail(good: GoodRound) -> None:
    rest = [node for node in NODES if node != 5]
    gone = replace(good, submissions=tuple(s for s in good.submissions if s.reveal.node != 5))
    assert only(gone.check(committed=rest), 5, False) == "not committed in time"
    assert only(gone.check(), 5, False) == "not revealed in time"


def test_unreadable_and_absent_payloads_keep_their_reason(good: GoodRound) -> None:
    bad = good.tiny.submit(5)
    for reason in ("bad payload: it has 3 bytes", "unavailable: not found"):
        broken = replace(bad, gradient=None, reason=reason)
        assert only(good.submit(5, broken).check(), 5, False) == reason


def test_a_node_that_binds_other_data_fails(good: GoodRound) -> None:
    mine, other = good.submissions[1], good.submissions[0]
    swapped = replace(mine, reveal=replace(mine.reveal, input_root=other.reveal.input_root))
    assert "binds other data" in only(good.submit(5, swapped).check(), 5, False)


@pytest.mark.parametrize("factor", [100.0, 0.01, 0.0])
def test_inflated_and_vanishing_norms_fail(good: GoodRound, factor: float) -> None:
    assert "norm is not plausible" in only(good.scaled(5, factor).check(), 5, False)


def test_a_node_found_invalid_fails(good: GoodRound) -> None:
    assert "found invalid" in only(good.check(invalid=[5]), 5, False)


def test_a_missing_sample_leaves_the_payload_usable(good: GoodRound) -> None:
    samples = {node: digest for node, digest in good.samples.items() if node != 5}
    unposted = replace(good, samples=samples)
    assert only(unposted.check(), 5, True) == "no sync sample posted"
    nowhere = replace(good, samples={**samples, 5: b"\7" * 32})
    assert "cannot be had" in only(nowhere.check(), 5, True)


@pytest.mark.parametrize("raw", [b"", b"{}", b"\xff" * 40, b"[" * 5000, b"x" * 10**6])
def test_a_node_with_a_malformed_sample_fails(good: GoodRound, raw: bytes) -> None:
    assert "sync sample" in only(good.sample(5, raw).check(), 5, True)


def test_values_copied_from_an_honest_node_prove_nothing(good: GoodRound) -> None:
    """Templar's peers report two values per tensor, which anyone can copy. Here the committed
    root is that of the node's own model, so the right values are not under it."""
    drifted = {name: tensor + 1.0 for name, tensor in good.tiny.before.items()}
    copier = good.started_from(5, drifted)
    honest = open_samples(good.tiny.before, AUDIT_SEED, OPTIONS.samples)
    failure = only(copier.sample(5, honest).check(), 5, True)
    assert "not under the node's root" in failure


@pytest.mark.parametrize(("steps", "passes"), [(2.5, True), (2.999, True), (3.01, False)])
def test_a_node_too_far_behind_is_out_of_sync(good: GoodRound, steps: float, passes: bool) -> None:
    behind = {name: tensor + steps * UNIT for name, tensor in good.tiny.before.items()}
    found = good.started_from(5, behind).check()[5]
    assert found.usable
    assert found.sync == pytest.approx(steps, rel=1e-3)
    assert (found.failure == "") is passes
    assert passes or "out of sync" in found.failure


def test_in_the_first_round_any_difference_is_too_much(good: GoodRound) -> None:
    other = {name: tensor + 1e-6 for name, tensor in good.tiny.before.items()}
    assert "out of sync" in good.started_from(5, other).check(unit=0.0)[5].failure
    assert good.check(unit=0.0) == dict.fromkeys(NODES, Checked("", True, 0.0))


def test_the_unit_is_the_mean_change_of_a_parameter() -> None:
    before = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([[0.0, 4.0]])}
    earlier = {"a": torch.tensor([1.5, 2.0]), "b": torch.tensor([[1.0, 2.5]])}
    assert step_size(before, earlier) == (0.5 + 0 + 1 + 1.5) / 4
    assert step_size(before, None) == 0.0


def test_an_update_of_signs_counts_as_one_step(free: HonestRound) -> None:
    """alpha times the share of parameters that moved; here all do."""
    merged = free.job.merge([w.gradient for w in free.works.values()])
    rate = free.job.spec.outer_lr_at(0)
    after = {name: free.before[name] - rate * merged[name] for name in merged}
    moved = sum(int((t != 0).sum()) for t in merged.values())
    total = sum(t.numel() for t in merged.values())
    assert step_size(after, free.before) == pytest.approx(rate * moved / total, rel=1e-4)


def test_no_other_node_can_be_made_to_fail(good: GoodRound) -> None:
    """A node that posts, reveals and claims anything spoils its own line only."""
    only(good.sample(5, b"\0" * 100).scaled(5, 1e15).check(), 5, False)
