# SPDX-License-Identifier: Apache-2.0
"""An operator with nothing but the wheel, on a real chain: from a wallet to a working agent."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.protocol.network import Network
from agents.protocol.numbers import ZOO
from scripts._net.processes import Supervisor
from scripts._shared.operator import zoo
from tests.scripts.wheel.conftest import Installed
from tests.stage.chain.finished_job import JOB, SPEC, FinishedJob, make_job
from tests.stage.chain.people import TERMS, People, share
from tests.stage.terminal import until


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedJob]:
    """A chain with the contracts and a job that waits for its first round."""
    directory = tmp_path_factory.mktemp("chain")
    with Supervisor(directory / "logs") as supervisor:
        yield make_job(FinishedJob, directory, supervisor, SPEC)


@pytest.fixture(scope="module")
def net(chain: FinishedJob) -> list[str]:
    return ["--network", chain.url, "--deployment", str(chain.deployment)]


@pytest.fixture(scope="module")
def node(installed: Installed, chain: FinishedJob, net: list[str]) -> int:
    """A node that was registered as a newcomer does it."""
    owner, operator = (
        installed.menagerie("wallet", "new", alias, "--passphrase-env", "PASSPHRASE").strip()
        for alias in ("my-owner", "my-operator")
    )
    for address in (owner, operator):
        assert "100,000 ZOO, 10 ether" in installed.menagerie("faucet", *net, address)
    signs = ("--account", "my-owner", "--operator", operator, "--role", "trainer")
    said = installed.menagerie("node", "register", *net, *signs, answers="y\n")
    assert said.count("Go on?") == 1
    assert "menagerie agent config trainer" in said
    (found,) = map(int, re.findall(r"Node (\d+) is registered with 100 ZOO", said))
    assert chain.network.node(found).owner == owner
    assert chain.network.operator_of(found) == operator
    return found


def test_the_network_is_seen(
    installed: Installed, chain: FinishedJob, net: list[str], node: int
) -> None:
    told = installed.menagerie("status", *net)
    assert re.search(rf"│ {node} +│ trainer +│ waiting", told)
    assert "Job 1" in installed.menagerie("job", "show", *net, str(JOB))


def test_stake_settings_and_claims_are_signed(
    installed: Installed, chain: FinishedJob, net: list[str], node: int
) -> None:
    owner = (*net, "--account", "my-owner", "--yes")
    installed.menagerie("node", "add-stake", *owner, str(node), "25")
    assert chain.network.node(node).stake == 125 * 10**18
    assert "Nothing is credited" in installed.menagerie("claim", *owner)
    installed.menagerie("node", "set", *owner, str(node), "--paused")
    assert not chain.network.node(node).active
    installed.menagerie("node", "set", *owner, str(node), "--active")
    refused = installed.menagerie("node", "exit", *owner, "1", fails=True)
    assert "registry: not the owner. --account must name the wallet that owns the node" in refused


def test_a_seat_of_an_executor_is_seen(
    installed: Installed, chain: FinishedJob, net: list[str], node: int
) -> None:
    """It was said to wait: its roles are for jobs, and in those it has no verified benchmark."""
    owner = (*net, "--account", "my-owner", "--yes")
    installed.menagerie("task", "join", *owner, str(node))
    told = installed.menagerie("status", *net)
    assert re.search(rf"│ {node} +│ trainer +│ ready as executor", told)
    installed.menagerie("task", "leave", *owner, str(node))
    told = installed.menagerie("status", *net)
    assert re.search(rf"│ {node} +│ trainer +│ waiting", told)


@pytest.mark.parametrize(
    "words",
    [["status"], ["task", "list"], ["claim", "--account", "my-owner"], ["job", "show", "1"]],
    ids=lambda words: words[0],
)
def test_a_look_at_the_network_loads_no_torch(
    installed: Installed, net: list[str], node: int, words: list[str]
) -> None:
    program = (
        "import sys; from menagerie.scripts._wheel.command import cli\n"
        "cli(sys.argv[1:], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules"
    )
    done = installed.run(str(installed.python), "-c", program, *words, *net)
    assert done.returncode == 0, done.stderr


def test_rewards_arrive_in_the_wallet(
    installed: Installed, chain: FinishedJob, net: list[str], node: int
) -> None:
    """Pay of a node whose payout is the owner's wallet: it is there after `claim`."""
    people, network = chain.people, chain.network
    owner = network.node(node).owner
    ann = people.nodes["ann"]
    people.chain._nonces.clear()  # the command `faucet` has sent with the same key
    people.chain.send(ann.owner, people.registry, "set_payout", ann.node_id, owner)
    before = network.chain.call(network.token, "balanceOf", owner)
    for _ in range(2):  # the pay of one round is retained
        chain.round_(["ann", "bob", "cat"])
    due = network.chain.call(network.pool, "pending", owner)
    assert due > 0
    said = installed.menagerie("claim", *net, "--account", "my-owner", answers="y\n")
    assert "of rewards" in said
    assert network.chain.call(network.token, "balanceOf", owner) >= before + due
    assert network.chain.call(network.pool, "pending", owner) == 0
    nobody = installed.menagerie("explain", *net, "--job", str(JOB), "--node", "99", fails=True)
    assert "There is no node 99; there are" in nobody
    explained = installed.menagerie("explain", *net, "--job", str(JOB))
    assert f"Node {ann.node_id}: " in explained and owner in explained


def test_the_model_is_pulled_and_exported(
    installed: Installed, chain: FinishedJob, net: list[str]
) -> None:
    store = ("--store", str(chain.store.root))
    said = installed.menagerie("model", "pull", *net, *store, "--job", str(JOB), "--round", "0")
    assert "menagerie model generate model-1" in said
    assert installed.menagerie("model", "generate", "model-1", "line", "--tokens", "4")
    installed.menagerie("model", "export", "model-1")
    card = (installed.home / "model-1-hf" / "README.md").read_text()
    assert "menagerie model pull" in card and "ape run" not in card


def test_settings_are_for_the_chain_of_the_node_that_is_named(
    installed: Installed, chain: FinishedJob
) -> None:
    """Its deployment is found where the user's folder has it, as for every other command."""
    own = installed.home / ".menagerie" / "deployments" / "31337.json"
    named = ("--keystore", "my-operator", "--store", "s", "--rpc-url", chain.url)
    missing = installed.menagerie("agent", "config", "trainer", *named, "--out", "a", fails=True)
    assert f"There is no deployment file {own}" in missing
    own.parent.mkdir(parents=True)
    own.write_bytes(chain.deployment.read_bytes())
    try:
        installed.menagerie("agent", "config", "trainer", *named, "--out", "chain.yaml")
    finally:
        own.unlink()
    assert f"deployment: {own}" in (installed.home / "chain.yaml").read_text()
    nowhere = (*named, "--deployment", str(chain.deployment), "--out", "no/where.yaml")
    refused = installed.menagerie("agent", "config", "trainer", *nowhere, fails=True)
    assert "There is no folder no. Make it, or change --out." in refused


def test_an_agent_works(
    installed: Installed, chain: FinishedJob, net: list[str], node: int, tmp_path: Path
) -> None:
    """It unlocks ape's keystore, and asks for the benchmark that a new node needs."""
    settings = tmp_path / "trainer.yaml"
    where = ("--rpc-url", chain.url, "--deployment", str(chain.deployment))
    place = ("--store", str(chain.store.root), "--data-dir", str(tmp_path / "data"))
    named = ("--keystore", "my-operator", "--out", str(settings))
    said = installed.menagerie("agent", "config", "trainer", *where, *place, *named)
    assert f"menagerie agent trainer --config {settings}" in said
    log = tmp_path / "agent.log"
    with log.open("w") as out:
        agent = subprocess.Popen(
            [installed.python.with_name("menagerie"), "agent", "trainer", "--config", settings],
            cwd=installed.home,
            env={**installed.env, "MENAGERIE_PASSPHRASE_ENV": "PASSPHRASE"},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            until(
                lambda: agent.poll() is not None or _asked(chain.network, node),
                "the agent asks for its benchmark",
            )
            assert agent.poll() is None, log.read_text()
        finally:
            agent.terminate()
            assert agent.wait(60) == 0, log.read_text()
    assert "Traceback" not in log.read_text()


def test_the_tasks_process_starts(installed: Installed, chain: FinishedJob) -> None:
    """A process of its own, by the name that the module has in the wheel."""
    program = (
        "from menagerie.agents.tasks.process import TaskProcess\n"
        "if __name__ == '__main__':\n"
        f"    process = TaskProcess({str(chain.store.root)!r}, 'cpu')\n"
        "    print(process.label())\n"
        "    process.close()\n"
    )
    done = installed.run(str(installed.python), "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "cpu-fp32"


def test_a_sponsor_creates_a_job(
    installed: Installed, chain: FinishedJob, net: list[str], node: int
) -> None:
    """It is told that no attack was played, and where they are; the job is there and has money."""
    network, home = chain.network, installed.home
    (home / "text.txt").write_text("pack my box with five dozen liquor jugs. " * 400)
    (home / "spec.json").write_text(json.dumps(SPEC))
    given = ("--data", "text.txt", "--spec", "spec.json", "--reward", "7", "--rounds", "2")
    signs = ("--account", "my-owner", "--store", str(home / "store"), "--yes")
    menagerie = str(installed.python.with_name("menagerie"))
    done = installed.run(menagerie, "job", "create", *net, *signs, *given)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    job = network.job_count()
    assert f"Job {job}: 2 rounds, 14 ZOO in escrow." in done.stdout
    assert network.job(job).sponsor == network.node(node).owner
    assert network.chain.call(network.pool, "escrow", job) == 14 * ZOO
    unplayed = "because the wheel has no contracts"
    assert f"attacks are not played on these terms, {unplayed}" in done.stderr
    assert "Note: a verifier that does again all that the draw asks" in done.stderr
    refused = installed.menagerie("economics", "attacks", fails=True)
    assert refused.startswith(f"Error: Attacks can't be played, {unplayed}. In a checkout, after")
    assert "`ape run economics attacks --rpc URL --job N`" in done.stderr and "`ape run" in refused


def test_what_needs_ape_is_said(installed: Installed, net: list[str]) -> None:
    named = ("--network", "ethereum:sepolia:node")
    for words in (("status",), ("claim", "--account", "my-owner")):
        said = installed.menagerie(*words, *named, fails=True)
        assert "'ethereum:sepolia:node' is no URL" in said
    said = installed.menagerie("claim", *net, "--account", "nobody", fails=True)
    assert "There are my-operator, my-owner in" in said


def test_a_changed_keystore_is_not_used(
    installed: Installed, chain: FinishedJob, net: list[str], node: int
) -> None:
    """A file that states somebody else's address is refused before anything is signed."""
    file = installed.home / "other.json"
    whole = (installed.home / ".ape" / "accounts" / "my-owner.json").read_text()
    (stated,) = re.findall(r'"address": "(?:0x)?([0-9a-fA-F]{40})"', whole)
    file.write_text(whole.replace(stated, chain.people.nodes["ann"].owner.address[2:]))
    named = ("--account", str(file), "--owner", chain.network.node(node).owner)
    said = installed.menagerie("node", "consent", *net, *named, fails=True)
    assert "Someone has changed the file" in said


def test_pay_that_was_held_is_released(
    installed: Installed, chain: FinishedJob, net: list[str], node: int
) -> None:
    """Ann works in two jobs at once and is accused in one: the other one's pay is held. It stays so
    when the committee delists what accused her, until somebody asks for it."""
    network, owner = chain.network, chain.network.node(node).owner
    chain.people.chain._nonces.clear()  # the command `faucet` has sent with the same key
    one, other = (_job(chain) for _ in range(2))
    ann, bob = (one.nodes[name] for name in ("ann", "bob"))
    one.chain.send(ann.owner, one.registry, "set_payout", ann.node_id, owner)
    claim = ("claim", *net, "--account")
    installed.menagerie(*claim, "my-owner", "--yes")
    one.train(ann, bob)
    arrays = one.offer({ann: 1, bob: 1})
    other.convict(ann, bob)
    one.confirm(arrays)
    held = network.held()[ann.node_id]
    assert held == network.chain.call(network.pool, "held", ann.node_id) == share(1, 2)
    amount, before = zoo(held), _own(chain, owner)
    said = installed.menagerie(*claim, "my-owner", "--yes")
    assert f"{amount} that are held for node {ann.node_id} are credited when the report" in said
    assert re.search(r"deadline is \d{4}-\d\d-\d\d \d\d:\d\d UTC \(in ", said)
    assert "Nothing is credited" in said
    said = installed.menagerie(*claim, "my-operator", "--yes")
    assert "Nothing is credited" in said and "held" not in said, "it is not paid for her"

    one.decide((one.registry, "set_slasher", (one.reports.address, False)), governance=True)
    one.chain.send(ann.owner, one.registry, "set_active", ann.node_id, True)
    said = installed.menagerie(*claim, "my-owner", answers="y\n")
    assert f"release {amount} that are held for node {ann.node_id}" in said
    assert "take out what is released" in said
    assert _own(chain, owner) == before + held
    assert network.held() == {}
    assert "Nothing is credited" in installed.menagerie(*claim, "my-owner", "--yes")


def _own(chain: FinishedJob, owner: str) -> int:
    """What the wallet that Ann is paid to has, with what job 1 retains of her, which a claim may
    release by then."""
    kept = chain.people.pool, "retained", JOB, chain.people.nodes["ann"].node_id
    network = chain.network
    return network.chain.call(network.token, "balanceOf", owner) + network.chain.call(*kept)


def _job(chain: FinishedJob) -> People:
    """The chain's people at a job of their own, with pay for one round."""
    people = chain.people
    funds = TERMS.reward_per_round
    people.give(people.sponsor, funds)
    job = people.create_job(people.sponsor, TERMS.encode(chain.published), funds)
    return replace(people, job=job, round=0)


def _asked(network: Network, node: int) -> bool:
    contract = network.deployment["NodeBenchmarks"]
    first, head = network.deployment.block, network.chain.head().number
    asked = network.chain.events(contract, "BenchmarkRequested", first, head, {"node_id": node})
    return bool(asked)
