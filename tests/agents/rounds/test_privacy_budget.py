# SPDX-License-Identifier: Apache-2.0
"""The privacy account in a node's journal: on disk first, once per release, never overdrawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.mechanisms.privacy import Accountant, BudgetExceeded
from agents.mechanisms.privacy.gaussian import Gaussian
from agents.mechanisms.privacy.none import NoPrivacy
from agents.rounds.privacy_budget import Budget
from agents.runtime.journal import Journal

PRIVACY = Gaussian(clip=1.0, noise_multiplier=2.0, max_epsilon=8.0, accept_blinding=True)


@pytest.fixture
def journal(tmp_path: Path):
    with Journal(tmp_path / "journal") as opened:
        yield opened


def test_a_budget_of_eight_pays_for_the_rounds_that_the_accountant_says(journal: Journal) -> None:
    budget, account, rounds = Budget(journal, 1, PRIVACY), Accountant(8.0, 1e-6), 0
    while budget.allows(PRIVACY.charge()):
        budget.record(f"round-{rounds}", PRIVACY.charge())
        account.record_participation(PRIVACY.charge())
        rounds += 1
    assert rounds == 9  # ten would cost 8.31 (reference table: sigma 2, T 10)
    assert budget.spent() == account.epsilon() <= 8.0
    assert budget.remaining() == pytest.approx(8.0 - budget.spent())
    assert budget.spent() < budget.spent_rdp()
    with pytest.raises(BudgetExceeded):
        budget.record("one more", PRIVACY.charge())
    assert budget.spent() == account.epsilon()


def test_it_survives_a_restart_and_charges_a_release_once(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        Budget(journal, 1, PRIVACY).record("a", PRIVACY.charge())
        once = Budget(journal, 1, PRIVACY).spent()
    with Journal(tmp_path / "journal") as journal:
        budget = Budget(journal, 1, PRIVACY)
        assert budget.spent() == once > 0
        budget.record("a", PRIVACY.charge())
        assert budget.spent() == once
        budget.record("b", PRIVACY.charge())
        assert budget.spent() > once


def test_jobs_have_their_own_accounts(journal: Journal) -> None:
    Budget(journal, 1, PRIVACY).record("a", PRIVACY.charge())
    assert Budget(journal, 2, PRIVACY).spent() == 0.0


@pytest.mark.parametrize(("limit", "epsilon"), [(3.0, 3.0), (20.0, 8.0), (None, 8.0)])
def test_a_node_may_stop_earlier_than_the_job_but_not_later(
    journal: Journal, limit: float | None, epsilon: float
) -> None:
    budget = Budget(journal, 1, PRIVACY, limit)
    assert budget.remaining() == epsilon
    budget.record("a", PRIVACY.charge())
    assert budget.allows(PRIVACY.charge()) == (epsilon > 3.3)  # two rounds cost 3.3 at sigma 2


def test_a_limit_lowered_later_counts_what_was_spent(journal: Journal) -> None:
    Budget(journal, 1, PRIVACY).record("a", PRIVACY.charge())
    assert not Budget(journal, 1, PRIVACY, 2.5).allows(PRIVACY.charge())


def test_a_limit_holds_for_all_jobs_together(journal: Journal) -> None:
    """Two rounds of one account cost 1.41 times one round; of two accounts, twice."""
    first, cost = Budget(journal, 1, PRIVACY, 5.0), PRIVACY.charge()
    first.record("a", cost)
    second = Budget(journal, 2, PRIVACY, 5.0)
    assert second.elsewhere() == first.spent() and second.spent() == 0.0
    assert second.remaining() == 5.0 - first.spent()
    second.record("a", cost)
    third = Budget(journal, 3, PRIVACY, 5.0)
    assert not third.allows(cost)
    assert not Budget(journal, 3, PRIVACY, 2.0).allows(cost), "more is spent than is allowed now"
    with pytest.raises(BudgetExceeded):
        third.record("a", cost)
    assert Budget(journal, 3, PRIVACY).allows(cost), "a job's bound is for its own account"


def test_without_privacy_nothing_is_charged(journal: Journal) -> None:
    budget = Budget(journal, 1, NoPrivacy())
    assert NoPrivacy().charge() is None
    assert budget.allows(None)
    budget.record("a", None)
    assert journal.keys() == []


def test_a_release_that_is_paid_for_is_allowed_after_a_crash(journal: Journal) -> None:
    """The charge is on disk, the secret is not: the node must not lose the round it paid for."""
    budget = Budget(journal, 1, PRIVACY, 2.5)
    budget.record("a", PRIVACY.charge())
    assert not budget.allows(PRIVACY.charge())
    assert budget.allows(PRIVACY.charge(), "a")


def test_what_left_the_node_already_is_charged_beyond_the_budget_and_once(journal: Journal) -> None:
    budget, cost = Budget(journal, 1, PRIVACY, 2.5), PRIVACY.charge()
    assert budget.last_round == 0
    assert [budget.record_past(f"submission-1-{n}-5eed", cost) for n in (3, 4, 4)] == [
        *(True, True, False)
    ]
    assert budget.last_round == 4
    assert budget.spent() > 2.5 and budget.remaining() == 0.0
    assert not budget.allows(cost)
    assert not budget.record_past("submission-1-5-5eed", None)
    with pytest.raises(BudgetExceeded):
        budget.record("submission-1-5-5eed", cost)
