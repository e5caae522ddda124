# SPDX-License-Identifier: Apache-2.0
"""The numbers of a real network are read from its contracts, nodes and jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from agents.jobs.combinations.figures import RIDERS_EARN
from agents.jobs.publish import Terms
from agents.protocol.network import Network
from agents.protocol.numbers import ZOO, Violation
from agents.protocol.slashing import DEFAULTS
from agents.training.spec import SpecError
from scripts._attacks import quick
from scripts._attacks.attack import Attack, Outcome
from scripts._attacks.catalogue import attacks
from scripts._attacks.deployed import deployed
from scripts._attacks.honest import duty
from scripts._attacks.market import Market
from scripts._attacks.quick import advice, families, numbers_of
from scripts._net.anvil import start_anvil
from scripts._net.processes import Supervisor
from scripts._shared.operator import reading
from scripts.economics import cli
from tests.stage.chain.people import People, found
from tests.stage.terminal import SPEC, Terminal


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[People, str, Path]]:
    """Four trainers with 100 ZOO, three verifiers, two aggregators; no job."""
    folder = tmp_path_factory.mktemp("net")
    with Supervisor(folder) as supervisor:
        anvil = start_anvil(supervisor, folder)
        file = folder / "deployment.json"
        yield found(anvil.url, ("ann", "bob", "cat", "dan"), file), anvil.url, file


@pytest.fixture
def network(people: tuple[People, str, Path]) -> Network:
    _, url, file = people
    return reading(url, file)


def test_the_deployments_settings_and_the_nodes_are_read(
    people: tuple[People, str, Path], network: Network
) -> None:
    numbers, made = deployed(network), people[0].settings
    assert numbers.settings == replace(made, holder="", supply=numbers.settings.supply)
    assert (numbers.nodes, numbers.stake) == (4, 100 * ZOO)
    assert (numbers.verifiers, numbers.verifier_stake) == (3, 1_000 * ZOO)
    assert numbers.aggregators == 3, "two are too few to tell, so it is the usual number"
    assert {row: numbers.table[row] for row in DEFAULTS} == dict(DEFAULTS)
    assert all(isinstance(row, Violation) for row in DEFAULTS)


def test_the_command_plays_at_a_networks_numbers(people: tuple[People, str, Path]) -> None:
    _, url, file = people
    arguments = ["attacks", "--rpc", url, "--deployment", str(file), "--family", "verifying"]
    result = CliRunner().invoke(cli, arguments, env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    assert "4 trainers with 100 ZOO each, 3 verifiers" in " ".join(result.output.split())


def test_a_sponsor_is_told_before_it_pays(network: Network) -> None:
    usual = advice(network, Terms(), {})
    assert usual.refused is None and "pays" in usual.notes[0]
    few = advice(network, replace(Terms(), max_nodes=3), {"score": "alignment"})
    assert few.refused is None and few.notes[0].startswith("none of ")


def test_terms_that_the_contracts_refuse_are_refused(network: Network) -> None:
    """Here the windows of a local network are too short; `create_job` itself says so besides. Where
    nothing was played nobody knows whether an attack pays."""
    found = advice(network, Terms.brief(), {})
    assert found.refused is not None and "(jobs: bad window)" in found.refused


def test_a_job_that_nobody_checks_is_refused_with_what_riders_earn(network: Network) -> None:
    alone = {"score": "batches", "verify": "screening", "access": "local"}
    found = advice(network, Terms(), alone)
    assert found.refused is not None and found.refused.startswith("Nobody does this job's work")
    assert "1.26 of an honest node's pay" in found.refused
    assert f"earns {RIDERS_EARN}." in found.refused, "as trainers that leave it are told"


def test_the_command_refuses_a_job_that_attacks_pay__and_creates_it_if_told_to(
    people: tuple[People, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Payloads of a kind that nobody checks, paid by the batch: `ape run job create` says which
    attacks pay and signs nothing. (Only those on scores are played here.)"""
    monkeypatch.setattr(quick, "_FAMILIES", ("scoring",))
    crowd, url, file = people
    terminal = Terminal(tmp_path)
    reward = Terms().reward_per_round
    terminal.has("sponsor", bytes(crowd.person("careless sponsor", reward).key))
    spec, text = tmp_path / "spec.yaml", tmp_path / "text.txt"
    spec.write_text(SPEC + "score: batches\nverify: screening\naccess: local\n")
    text.write_text("the quick brown fox jumps over the lazy dog. " * 400)
    line = (
        f"ape run job create --network {url} --deployment {file} --account sponsor --spec {spec} "
        f"--data {text} --store {tmp_path / 'store'} --rounds 1 --yes"
    )
    jobs = crowd.chain.call(crowd.jobs, "job_count")
    said = terminal.here(line, fails=True)
    assert "Nobody does this job's work again, so" in said and "attacks pay: send random" in said
    assert "--though-attacks-pay creates it nevertheless." in said
    assert crowd.chain.call(crowd.jobs, "job_count") == jobs
    assert f"Job {jobs + 1}: 1 rounds" in terminal.here(f"{line} --though-attacks-pay")
    assert crowd.chain.call(crowd.jobs, "job_count") == jobs + 1


def test_each_family_that_pays_has_its_remedy(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gauntlet job's sponsor is not told what riders of other scores earn."""

    def nothing(market: Market) -> Outcome:
        raise AssertionError("not played here")

    won = Outcome(Fraction(ZOO), Fraction(ZOO), ZOO)
    free = {"score": "gauntlet", "verify": "gauntlet"}
    remedies = {
        "scoring": RIDERS_EARN,
        "gauntlet": "codec_options.per_chunk",
        "consensus": "--verifiers-cut",
    }
    for family, remedy in remedies.items():
        paying = [(Attack("win", family, nothing), won)]
        monkeypatch.setattr(quick, "play", lambda *_, paying=paying: paying)
        told = advice(network, Terms(), free).refused
        assert told is not None and "1 of 1 attacks pay: win brings 1 ZOO" in told
        assert [other for other in remedies.values() if other in told] == [remedy]


def test_where_scores_pay__attacks_on_their_medians_are_played_too() -> None:
    """Denied payloads among them, in real rounds of training, and rides on what is paid."""
    played = {a.name for a in attacks() if a.family in families({"score": "gauntlet"})}
    usual = {a.name for a in attacks() if a.family in families({"score": "alignment"})}
    assert "say that others' payloads came too late" in played - usual
    assert "add past merges to its work" in played - usual
    assert {a.name for a in attacks() if a.family in ("training", "verifying")} < played & usual


def test_a_sponsor_is_told_whether_verifiers_are_paid_for_what_they_do_again(
    network: Network,
) -> None:
    """The more pay is retained, the less of the work has to be done again; what the sponsor may
    change is named where there is something."""
    small = advice(network, Terms(), {}).notes[-1]
    most = advice(network, replace(Terms(), retain_rounds=32), {}).notes[-1]
    low, high = (re.search(r"costs up to (\d+)% of its pay", said) for said in (small, most))
    assert low is not None and high is not None and int(low[1]) < int(high[1])
    assert "no permitted cut pays it at 50%" in small and "--retain-rounds" in small
    retaining = replace(Terms(), retain_rounds=32)
    less = advice(network, retaining, {"audit_sample": 1}).notes[-1]
    named = re.search(r"--verifiers-cut ([\d.]+) pays it at 50%", less)
    assert named is not None
    cut = round(100 * float(named[1]))
    paid = advice(network, replace(retaining, verifier_bps=cut), {"audit_sample": 1}).notes[-1]
    assert "--verifiers-cut" not in paid and "no permitted" not in paid


def test_where_segments_are_done_again__verifiers_are_asked_for_so_much_less(
    network: Network,
) -> None:
    pipeline = {"layers": [1, 1, 1, 1], "local_batch": 4}
    fields = {"batches_per_round": 384, "audit_sample": 0}
    terms = replace(Terms(), max_nodes=4)
    whole = numbers_of(network, terms, {**fields, "pipeline": pipeline})
    part = numbers_of(network, terms, {**fields, "pipeline": {**pipeline, "segment": 8}})
    assert duty(part).redone * 12 == duty(whole).redone  # of 96 steps
    with pytest.raises(SpecError, match="segment"):
        numbers_of(network, terms, {**fields, "pipeline": {**pipeline, "segment": -1}})
