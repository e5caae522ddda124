# SPDX-License-Identifier: Apache-2.0
"""What the attacks are played at follows the job: its seats, rounds, sample and memory."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from agents.jobs.publish import Terms
from agents.protocol.numbers import ZOO
from agents.training.spec import SpecError
from scripts._attacks import command, quick
from scripts._attacks.command import chosen, usual
from scripts._attacks.deployed import usual_terms
from scripts._attacks.honest import duty, fairly_paid
from scripts._attacks.job_spec import with_spec
from scripts._attacks.market import Market, Numbers
from scripts._attacks.quick import advice, numbers_of
from scripts._net.deployment import DeploymentSettings, TaskTerms
from scripts.economics import cli

NETWORK: Any = None  # nothing is asked of it
UNCHECKED = {"score": "batches", "verify": "screening", "access": "local"}


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets what the network is like."""

    def chosen(**numbers: Any) -> None:
        monkeypatch.setattr(quick, "deployed", lambda network: replace(Numbers(), **numbers))

    chosen()
    return chosen


@pytest.mark.parametrize("seats", [1, 2, 4, 9])
def test_a_job_with_no_more_seats_than_trainers__is_played_as_others_are(
    at: Any, monkeypatch: pytest.MonkeyPatch, seats: int
) -> None:
    """Until 2026-11-30 a newcomer needed a seat beyond those: "the attacks can't be played at these
    terms" was a note, and the job was created."""
    monkeypatch.setattr(quick, "_FAMILIES", ("training", "scoring"))
    found = advice(NETWORK, replace(Terms(), max_nodes=seats), UNCHECKED)
    assert found.refused is not None and "attacks pay: send random numbers" in found.refused
    sound = advice(NETWORK, replace(Terms(), max_nodes=seats), {})
    assert sound.refused is None and sound.notes[0].startswith("none of ")


@pytest.mark.parametrize(
    "network",
    [
        {"verifier_stake": 2_000 * ZOO},
        {"verifier_stake": 50_000 * ZOO},
        {"verifiers": 20},
    ],
)
def test_verifiers_may_have_bonded_more_than_the_minimum__and_be_many(
    at: Any, monkeypatch: pytest.MonkeyPatch, network: dict[str, Any]
) -> None:
    """Half of such a stake is enough for a second verifier, which nobody has approved."""
    monkeypatch.setattr(quick, "_FAMILIES", ("verifying",))
    at(**network)
    assert advice(NETWORK, Terms(), {}).refused is None


@pytest.mark.parametrize(
    "terms", [{"reward_per_round": 20_000 * ZOO}, {"challenge_bond": 1_000 * ZOO}]
)
def test_dear_terms__are_no_reason_not_to_play(
    at: Any, monkeypatch: pytest.MonkeyPatch, terms: dict[str, int]
) -> None:
    """Who pays for a round of somebody else's job has a round's pay."""
    monkeypatch.setattr(quick, "_FAMILIES", ("training", "verifying"))
    assert advice(NETWORK, replace(Terms(), **terms), {}).notes[0].startswith("none of ")


def test_few_trainers_may_have_large_stakes(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verifier deposits for each of five findings what the third strike brings."""
    monkeypatch.setattr(quick, "_FAMILIES", ("training",))
    at(nodes=3, stake=3_000 * ZOO)
    assert advice(NETWORK, Terms(), {}).notes[0].startswith("none of ")


def test_what_is_done_again__counts_all_trainers_and_not_only_those_that_play(at: Any) -> None:
    """With 64 trainers it is 14.1 and a cut of 28 %; with the 32 that play 8.4 and 31.5 %."""
    at(nodes=32, trainers=64)
    found = fairly_paid(numbers_of(NETWORK, replace(Terms(), retain_rounds=8), {}))
    assert (found.nodes, found.crowd, found.terms.verifier_bps) == (32, 64, 2_800)
    assert float(duty(found).redone) == pytest.approx(14.1, abs=0.05)
    few = numbers_of(NETWORK, replace(Terms(), retain_rounds=8, max_nodes=40), {})
    assert (few.nodes, few.crowd) == (32, 40)


def test_a_spec_says_how_long_a_job_is__and_what_judging_takes() -> None:
    spec = {
        "rounds": 7,
        "audit_sample": 1,
        "codec": "demo",
        "codec_options": {"memory_rounds": 3},
    }
    found = with_spec(Numbers(), spec)
    assert (found.job_rounds, found.sample, found.carried) == (7, 1, 3)


@pytest.mark.parametrize(
    "wrong", [{"audit_sample": "x"}, {"audit_sample": None}, {"audit_sample": -1}, {"rounds": 0}]
)
def test_a_number_that_no_spec_may_have__is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=next(iter(wrong))):
        with_spec(Numbers(), wrong)


def test_a_file_of_a_spec_counts__and_options_before_it(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text("rounds: 1\naudit_sample: 4\n")
    found = chosen(Numbers(), file, False, {})
    assert (found.job_rounds, found.sample) == (1, 4)
    assert chosen(Numbers(), file, False, {"sample": 0}).sample == 0


def test_a_cut_that_was_named_counts__also_with_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    found = chosen(Numbers(), None, False, {"verifiers_cut": 12.5})
    assert found.terms.verifier_bps == 1_250


def test_more_trainers_than_seats__have_seats__unless_the_job_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert chosen(Numbers(), None, False, {"nodes": 128}).terms.max_nodes == 128
    job = replace(Numbers(), terms=Terms(max_nodes=9))
    monkeypatch.setattr(command, "_read", lambda *_: (job, SimpleNamespace()))
    told = CliRunner().invoke(cli, ["attacks", "--rpc", "x", "--job", "7", "--nodes", "10"])
    assert told.exit_code == 2 and "--nodes: job 7 has seats for 9 trainers." in told.output


@pytest.mark.parametrize("share", ["1", "0.99", "0.8"])
def test_a_share_that_leaves_too_few_honest__ends_in_a_sentence(share: str) -> None:
    told = CliRunner().invoke(cli, ["attacks", "--family", "verifying", "--share", share])
    assert told.exit_code == click.UsageError.exit_code
    assert "are honest." in " ".join(told.output.split())


def test_a_spec_with_a_mechanism_that_there_is_not__ends_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text("verify: nothing\n")
    told = CliRunner().invoke(cli, ["attacks", "--family", "verifying", "--spec", str(file)])
    assert told.exit_code == 1 and "No such job can be played: There is no" in told.output


@pytest.mark.parametrize("options", [("--stake", "1"), ("--reward", "1")])
def test_tasks_are_played_at_little_stake_and_little_reward(options: tuple[str, str]) -> None:
    told = CliRunner().invoke(cli, ["attacks", "--family", "tasks", *options])
    assert told.exit_code == 0, told.output


USUAL = DeploymentSettings(members=(), holder="")


@pytest.mark.parametrize(
    "settings",
    [
        replace(
            USUAL,
            unbonding_period=3_600,
            routine_delay=10,
            governance_delay=20,
            tasks=TaskTerms.fitting(3_600),
        ),
        replace(USUAL, least_retained=16),
        replace(USUAL, least_reward=2_000 * ZOO),
        replace(USUAL, most_challenge_bond=50 * ZOO),
    ],
    ids=["a local network", "retained pay", "reward", "bond"],
)
def test_without_a_job__a_deployments_bounds_are_kept(settings: DeploymentSettings) -> None:
    """`--rpc` of a local network was refused: "jobs: windows exceed unbonding"."""
    numbers = replace(Numbers(), settings=settings, terms=usual_terms(settings))
    assert Market(usual(chosen(numbers, None, False, {}), {})).job == 1


def test_what_a_split_model_keeps_from_being_played_is_not_counted(
    at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until 2026-12-01 rides that need a whole model counted as attacks that do not pay."""
    monkeypatch.setattr(quick, "_FAMILIES", ("training", "scoring"))
    split = {"mode": "pipeline", "pipeline": {"layers": [1, 1]}, "score": "backward_passes"}
    whole, parts = (advice(NETWORK, Terms(), spec).notes[0] for spec in ({}, split))
    count = re.fullmatch(r"none of (\d+) attacks that were played on it pays", whole)
    fewer = re.fullmatch(
        r"none of (\d+) attacks that were played on it pays; (\d+) can't be played on such a job",
        parts,
    )
    assert count and fewer and int(fewer[2]) > 0
    assert int(count[1]) == int(fewer[1]) + int(fewer[2])
