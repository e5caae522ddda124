# SPDX-License-Identifier: Apache-2.0
"""For each reason with which a contract may refuse a command, the command says what to do."""

from __future__ import annotations

import re

import click
import pytest

from agents.runtime.errors import Reverted
from scripts._net.compiled import ROOT
from scripts._shared import connecting
from scripts._shared.operator import refusals
from scripts._shared.remedies import remedy_of
from tests.stage.contract_reasons import reasons

CALLS = [
    ("Coordinator", "approve"),
    ("Coordinator", "cancel"),
    ("Coordinator", "execute"),
    ("Coordinator", "propose"),
    ("DataKeys", "set_releaser"),
    ("NodeRegistry", "add_stake"),
    ("NodeRegistry", "begin_exit"),
    ("NodeRegistry", "register_node"),
    ("NodeRegistry", "set_active"),
    ("NodeRegistry", "set_operator"),
    ("NodeRegistry", "set_payout"),
    ("NodeRegistry", "set_roles"),
    ("NodeRegistry", "withdraw"),
    ("RedundantTasks", "create_task"),
    ("RewardPool", "fund"),
    ("RewardPool", "refund"),
    ("ScoreConsensus", "adopt"),
    ("TaskAppeals", "appeal"),
    ("TrainingJobs", "cancel_job"),
    ("ViolationReports", "appeal"),
    ("modules/executors", "join"),
    ("modules/executors", "leave"),
]
# What no command gives: `task create` packs its spec, and a node's number is one that was told.
NEVER = {"empty spec", "node id too large"}
# Terms are refused by the options that chose them (`refused_terms.py`), and what is held for a node
# is tried and passed over (`kept_pay.py`).
ELSEWHERE = {"create_job", "ask"}


@pytest.mark.parametrize(("contract", "function"), CALLS, ids=lambda name: name)
def test_each_reason_has_a_remedy(contract: str, function: str) -> None:
    found = reasons(contract, function)
    without = {reason for reason in found if not remedy_of(reason)}
    assert found and {reason.split(": ")[1] for reason in without} <= NEVER


def test_every_call_that_a_command_tries_is_among_them() -> None:
    sources = (path.read_text() for path in (ROOT / "scripts").rglob("*.py"))
    tried = {
        name
        for source in sources
        for name in re.findall(r"\brehearse\(\w+(?:\.\w+)*?\.(\w+),", source)
    }
    assert "begin_exit" in tried
    assert tried - ELSEWHERE <= {function for _, function in CALLS}


def test_the_reason_is_said_with_its_remedy() -> None:
    with pytest.raises(click.ClickException) as told, refusals():
        raise Reverted("pool: job not ended", "refund")
    assert told.value.message == (
        "refund reverted: pool: job not ended. `ape run job cancel` ends it, once its running "
        "round is over."
    )
    with pytest.raises(click.ClickException) as told, refusals():
        raise Reverted("pool: some new reason", "refund")
    assert told.value.message == "refund reverted: pool: some new reason."


def test_what_an_earlier_command_has_used_up_is_looked_at_first() -> None:
    told = remedy_of("erc20: insufficient allowance")
    assert told.startswith("An earlier command may have been carried out meanwhile")
    assert "`ape run status`" in told


def test_a_transaction_that_ape_says_was_refused_has_its_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only rehearsals had it."""
    from ape.exceptions import ContractLogicError

    monkeypatch.setattr(connecting, "BY_APE", True)
    with pytest.raises(click.ClickException) as told, refusals():
        raise ContractLogicError("pool: job not ended")
    assert "`ape run job cancel` ends it" in told.value.message
