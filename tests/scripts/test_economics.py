# SPDX-License-Identifier: Apache-2.0
"""`ape run economics`: the article's rows to the letter, a verdict in words, a plot."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from eth_account import Account
from web3 import HTTPProvider, Web3

from agents.protocol.consent import operator_consent
from agents.protocol.numbers import MAX_OPEN, Violation
from agents.protocol.slashing import Row
from agents.runtime.config import VerifierSettings
from scripts._net.anvil import MNEMONIC, start_anvil
from scripts._net.deployment import ZOO, DeploymentSettings, TaskTerms, write_deployment
from scripts._net.local_keys import Batch, sender_of
from scripts._net.plan import deploy
from scripts._net.processes import Supervisor
from scripts._shared.economics import article_rows, parameters, printed
from scripts.economics import cli

ARTICLE = """\
100 10 90 0.974211503 3.777697842
1000 100 900 0.972216505 3.499259211
10000 1000 9000 0.972021605 3.474186444
100000 10000 90000 0.97200216 3.471704109
100 1 99 1 -
1000 10 990 0.999731174 371.8879113
10000 100 9900 0.999704911 338.781133
100000 1000 99000 0.999702291 335.7985534
"""


def run(*arguments: str) -> str:
    """The command's output; it must end well."""
    result = CliRunner().invoke(cli, arguments, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.output


def flat(text: str) -> str:
    """The text with every space and line break a single space."""
    return re.sub(r"\s+", " ", text)


def test_table__the_articles_rows_to_the_letter():
    assert "".join(f"{' '.join(row[:5])}\n" for row in article_rows()) == ARTICLE
    shown = [flat(line).strip() for line in run("--table").splitlines()]
    for row in ARTICLE.splitlines():
        (line,) = (line for line in shown if line.startswith(f"{row} "))
        assert "…" not in line


def test_table__beside_them_the_corrected_bounds():
    first, *_, without, _, _, _ = article_rows()
    assert first[5:] == ("3.88963", "10.68", "5.83444")
    assert without[5:] == ("-", "-", "-")
    text = flat(run("--table"))
    assert "0.597" in text and "0.578" in text and "0.500" in text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(1), "1"),
        (Fraction(2, 3), "0.666666667"),
        (Fraction(200, 3), "66.66666667"),
        (Fraction(10**12, 3), "333333333333"),
        (Fraction(1, 2), "0.5"),
        (Fraction(0), "0"),
        (Fraction(100), "100"),
        (None, "-"),
    ],
)
def test_numbers_are_printed_so(number, text):
    assert printed(number) == text


def test_verdict__of_given_numbers():
    text = run("--stake", "100", "--fee", "1", "--nodes", "9", "--audit-rate", "0.05")
    assert "9 nodes; fee 1, stake 100; lost if outvoted 18, by leaving 18, found out 25" in flat(
        text
    )
    lines = [flat(line).strip() for line in text.splitlines()]
    assert "80% 7 -0.0833 × 1.09 -6.42 × 12 -0.875 -11.8 nothing" in lines
    assert "90% 8 1 none -3.22 × 5.14 -1.17 -18 fake" in lines
    assert "up to an attacker share of 82.4%" in text
    assert "of the shares listed, up to 85%" in text


def test_verdict__weaker_numbers_are_not_called_safe():
    text = run("--stake", "2", "--fee", "1", "--nodes", "100", "--audit-rate", "0.01")
    assert "is not deterred at an audit rate of 1.00%" in text
    lines = [flat(line).strip() for line in text.splitlines()]
    pays = {line.split()[0]: line.split()[-1] for line in lines if re.match(r"\d+% ", line)}
    assert {share for share, name in pays.items() if name == "nothing"} == {"1%"}
    assert (pays["5%"], pays["90%"]) == ("pair", "all")
    assert any(line.startswith("20%") and line.endswith(" fake, pair") for line in lines)
    assert "no audit rate is enough" in text and "…" not in text


def test_verdict__every_verifier_draws_its_own_sample():
    numbers = ("--stake", "100", "--fee", "1", "--audit-rate", "0.1")
    assert "at an audit rate of 10.00%" in run(*numbers)
    assert "at an audit rate of 27.10%" in run(*numbers, "--verifiers", "3")
    assert "is not deterred at an audit rate of 0.00%" in run(*numbers, "--verifiers", "0")


def test_numbers__given_before_read_before_defaults():
    rows = {Violation.REDUNDANCY_MISMATCH: 1, Violation.ABORT: 2, Violation.COLLUSION: 3}
    table = {violation: Row(bps, 0, 0, True, False, 4) for violation, bps in rows.items()}
    live = {"stake": 50, "fee": 10, "nodes": 7, "table": table}
    found = parameters(live, {"stake": None, "fee": 8, "nodes": None, "compute": None}, 0.25)
    assert (found.stake, found.fee, found.nodes, found.compute) == (50, 8, 7, 4)
    assert (found.mismatch_bps, found.abort_bps, found.collusion_bps) == (1, 2, 3)
    assert (found.reporter_bps, found.audit_rate) == (4, Fraction(1, 4))


def test_numbers__defaults_are_the_deployments():
    found = parameters({}, {}, None)
    terms = TaskTerms()
    assert (found.stake, found.fee, found.nodes) == (terms.task_stake, terms.max_fee, None)
    assert found.compute == terms.max_fee // 2
    assert found.audit_rate == Fraction(str(VerifierSettings().task_audit_rate))
    assert (found.mismatch_bps, found.abort_bps, found.collusion_bps) == (2_000, 2_000, 5_000)


def test_live__numbers_are_read_from_the_chain(tmp_path: Path):
    """A deployment with terms of its own and a pool of five seats, one of them empty again."""
    Account.enable_unaudited_hdwallet_features()
    deployer, holder, *keys = (
        Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{i}") for i in range(10)
    )
    stake, terms = 40 * ZOO, TaskTerms(task_stake=40 * ZOO, max_fee=4 * ZOO)
    with Supervisor(tmp_path) as supervisor:
        anvil = start_anvil(supervisor, tmp_path)
        w3 = Web3(HTTPProvider(anvil.url))
        settings = DeploymentSettings(
            members=tuple(sorted(key.address for key in keys[:5])),
            holder=holder.address,
            trainer_stake=stake,
            tasks=terms,
        )
        deployed = deploy(w3, deployer.address, sender_of(w3, deployer), settings)
        write_deployment(tmp_path / "deployment.json", deployed)
        token, registry, tasks = (
            deployed.contract(w3, name) for name in ("ZooToken", "NodeRegistry", "RedundantTasks")
        )
        batch = Batch(w3, lambda: anvil.rpc("evm_mine"))
        batch.add(holder, token.functions.approve(registry.address, 5 * stake))
        for node_id, key in enumerate(keys[:5], 1):
            typed = operator_consent(registry.address, 31_337, key.address, holder.address, 0)
            consent = bytes(key.sign_typed_data(*typed).signature)
            args = (key.address, key.address, 1, stake, bytes(32), consent)
            batch.add(holder, registry.functions.register_node(*args))
            batch.add(key, tasks.functions.join(node_id, 0))
        batch.add(keys[0], tasks.functions.leave(1))
        batch.settle()

        live = ("--rpc", anvil.url, "--deployment", str(tmp_path / "deployment.json"))
        text = run(*live)
        shown = "4 nodes; fee 4, stake 40; lost if outvoted 7.2, by leaving 7.2, found out 10"
        assert shown in flat(text)
        assert "is not deterred at an audit rate of 0.00%" in text  # there is no verifier
        assert "100 nodes; fee 1, stake 40" in run(*live, "--nodes", "100", "--fee", "1")
        result = CliRunner().invoke(cli, [*live, "--class", "7"])
        assert result.exit_code != 0 and "no determinism class 7" in result.output


def test_plot__svg_without_a_network(tmp_path: Path):
    path = tmp_path / "bounds.svg"
    text = run("--plot", str(path), "--stake", "10", "--fee", "2")
    assert f"Drawn: {path}" in text
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg")
    # The curves are paths of many points, other lines of two.
    drawn = [element.get("d", "") for element in root.iter() if element.tag.endswith("path")]
    assert sum(path.count("L") > 20 and "z" not in path for path in drawn) == 3


def test_plot__png_beside_the_table(tmp_path: Path):
    path = tmp_path / "bounds.png"
    assert "0.97200216" in run("--table", "--plot", str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--plot", "bounds.poem"), "poem"),
        (("--stake", "1", "--fee", "1", "--compute", "2"), "at most half the fee"),
        (("--stake", "1", "--fee", "1", "--nodes", "2"), "2 is not in the range"),
        (("--stake", "1", "--fee", "1", "--audit-rate", "2"), "2.0 is not in the range"),
        (("--rpc", "http://127.0.0.1:9"), "127.0.0.1:9"),
    ],
)
def test_refusals_are_sentences(arguments, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code != 0
    assert reason in result.output
    assert "Traceback" not in result.output and isinstance(result.exception, SystemExit)
    assert not list(tmp_path.iterdir())


def test_open_lanes_are_the_contracts():
    source = Path("contracts/modules/executors.vy").read_text()
    assert re.search(r"^MAX_OPEN: constant\(uint256\) = (\d+)$", source, re.M).group(1) == str(
        MAX_OPEN
    )
