# SPDX-License-Identifier: Apache-2.0
"""Every call that the timelock can make is said in words, from what to what, and from the bytes
alone: nothing that is hidden in them passes for a harmless operation."""

from __future__ import annotations

import re
from typing import Any

import pytest
from eth_utils import to_checksum_address
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.protocol.network import Network
from agents.protocol.numbers import PAUSES, Role, Violation
from scripts._net.compiled import ROOT
from scripts._net.deployment import ORDER, ROUTINE_CALLS, ZOO
from scripts._shared.operation_words import _EVERYWHERE, _WRITERS, call_of, percent, said, spell
from scripts._shared.operations import operations
from tests.stage.chain.people import People

STRANGER = to_checksum_address("0x" + "5e" * 20)
CUDA = b"cuda:sm_90/132/13.0".ljust(32, b"\0")


def _bytes(network: Network, contract: str, function: str, *args: Any) -> tuple[str, bytes]:
    target = network.deployment[contract]
    return target.address, target.function(function, len(args)).encode(args)


def _said(network: Network, contract: str, function: str, *args: Any) -> list[str]:
    return said(network, *_bytes(network, contract, function, *args)).lines()


def test_no_right_of_the_owner_is_without_words() -> None:
    """Read from the sources: a function that a contract gains later needs words as well."""
    owned = set()
    for name in ORDER:
        source = (ROOT / "contracts" / f"{name}.vy").read_text()
        for function, body in re.findall(r"^def (\w+)\((.*?)(?=^@|\Z)", source, re.S | re.M):
            if not function.startswith("_") and re.search(
                r"ownable\._check_owner\(\)|self\._check_self\(\)", body
            ):
                owned.add((name, function))
    assert len(owned) >= 19
    mute = {place for place in owned if place not in _WRITERS and place[1] not in _EVERYWHERE}
    assert mute == set()


def test_pause_bits_are_those_of_the_contracts() -> None:
    for name in ORDER:
        source = (ROOT / "contracts" / f"{name}.vy").read_text()
        bits = re.findall(r"^PAUSE_\w+: constant\(uint256\) = (\d+)", source, re.M)
        assert [int(bit) for bit in bits] == [1 << i for i in range(len(PAUSES.get(name, ())))]


def test_scores(network: Network) -> None:
    assert _said(network, "ScoreConsensus", "overrule_scores", 1, 2, [3, 4]) == [
        "Overrule scores of round 2 of job 1 as false",
        "  Verifiers slashed for FALSE_REPORT: 3, 4. The round's consensus stands.",
    ]


def test_penalty(network: Network) -> None:
    row = (2_500, 0, 7 * 86_400, True, False, 5_000)
    assert _said(network, "NodeRegistry", "set_penalty", Violation.INVALID, row) == [
        "Row INVALID of the slashing table",
        "  share of the stake: 20 % -> 25 %",
        "  Slashes from then on use it, also for offences that were before.",
    ]
    row = (10_000, 1, 3_600, False, True, 0)
    found = _said(network, "NodeRegistry", "set_penalty", Violation.INVALID, row)
    assert found[1:7] == [
        "  share of the stake: 20 % -> 100 %",
        "  added for each earlier offence: 0 % -> 0.01 %",
        "  suspension: 7 days -> 1 h",
        "  counts as a strike: yes -> no",
        "  bans the node: no -> yes",
        "  reporter's part of the slash: 50 % -> 0 %",
    ]
    same = _said(network, "NodeRegistry", "set_penalty", 1, (500, 500, 0, False, False, 1_000))
    assert same[-1] == "  Nothing changes: it is so already."
    assert "number 12 " in _said(network, "NodeRegistry", "set_penalty", 12, row)[0]


def test_parameters_and_bounds(network: Network) -> None:
    before = network.chain.call(network.registry, "parameters")
    after = before._replace(trainer_stake=200 * ZOO, treasury=STRANGER)
    found = _said(network, "NodeRegistry", "set_parameters", after)
    assert found[1] == "  least stake of a trainer: 100 ZOO -> 200 ZOO"
    assert found[2] == f"  treasury: {network.coordinator.address} -> {STRANGER}"
    bounds = network.chain.call(network.jobs, "bounds")
    found = _said(network, "TrainingJobs", "set_bounds", bounds._replace(least_retained=4))
    assert found[1] == "  rounds' pay that a job retains at least: 0 -> 4"


def test_members_and_delays(network: Network, people: People) -> None:
    members = [member.address for member in people.members]
    found = _said(network, "Coordinator", "set_members", [*members[1:], STRANGER], 4)
    assert found[1:4] == [
        f"  member {members[0]}: in -> out",
        f"  member {STRANGER}: out -> in",
        "  approvals that an operation needs: 3 of 5 -> 4 of 5",
    ]
    found = _said(network, "Coordinator", "set_delays", 3_600, 21 * 86_400)
    assert found[1] == "  delay of routine calls: 1 day -> 1 h" and len(found) == 3
    target = network.registry
    selector = target.function("set_penalty", 2).selector
    found = _said(network, "Coordinator", "set_delay_class", target.address, selector, 1)
    assert found[1] == "  delay of NodeRegistry.set_penalty: governance -> routine"


def test_a_change_that_would_outrun_an_exit_is_warned_of(network: Network) -> None:
    """Where a delay is at most the unbonding period, whichever of the two is to change."""

    def warned(contract: str, function: str, *args: Any) -> list[str]:
        found = _said(network, contract, function, *args)
        return [line for line in found if line.startswith("  Warning: ")]

    routine, governance = network.chain.call(network.coordinator, "delays")
    parameters = network.chain.call(network.registry, "parameters")
    leaving = parameters.unbonding_period
    assert routine < leaving < governance
    (shorter,) = warned("Coordinator", "set_delays", routine, leaving)
    assert f"then wait {spell(leaving)}, and stakes unbond in {spell(leaving)}:" in shorter
    assert "could not withdraw before it" in shorter
    assert warned("Coordinator", "set_delays", routine, leaving + 1) == []
    set_penalty = network.registry.function("set_penalty", 2).selector
    (sooner,) = warned("Coordinator", "set_delay_class", network.registry.address, set_penalty, 1)
    assert f"calls of NodeRegistry.set_penalty would then wait {spell(routine)}, and" in sooner
    assert f"stakes unbond in {spell(leaving)}:" in sooner
    (unknown,) = warned("Coordinator", "set_delay_class", STRANGER, set_penalty, 1)
    assert f"calls of 0x{set_penalty.hex()} of {STRANGER} would then wait" in unknown
    longer = parameters._replace(unbonding_period=governance)
    assert len(warned("NodeRegistry", "set_parameters", longer)) == 1
    longer = parameters._replace(unbonding_period=governance - 1)
    assert warned("NodeRegistry", "set_parameters", longer) == []


def test_a_call_that_a_deployment_has_wait_the_routine_delay_is_not_warned_of(
    network: Network,
) -> None:
    where, selector = (
        network.registry.address,
        network.registry.function("approve_role", 3).selector,
    )
    lines = _said(network, "Coordinator", "set_delay_class", where, selector, 0)
    assert lines[1] == "  delay of NodeRegistry.approve_role: routine -> governance"
    for name, function in ROUTINE_CALLS:
        contract = network.deployment.contracts[name]
        kinds = [kind for kind in contract._functions.values() if kind.abi["name"] == function]
        assert kinds
        for kind in kinds:
            args = contract.address, kind.selector, 1
            lines = _said(network, "Coordinator", "set_delay_class", *args)
            assert not any("Warning" in line for line in lines), function


def test_rights(network: Network, people: People) -> None:
    vic = people.nodes["vic"]
    found = _said(network, "NodeRegistry", "approve_role", vic.node_id, Role.VERIFIER, False)
    assert found[:2] == [
        f"Withdraw node {vic.node_id} from the role VERIFIER",
        f"  node {vic.node_id} as VERIFIER: approved -> not approved",
    ]
    found = _said(network, "NodeRegistry", "set_slasher", STRANGER, True)
    assert found[1] == f"  {STRANGER} may slash and lock stakes: no -> yes"
    assert "it could take any stake" in found[2]
    found = _said(network, "NodeRegistry", "set_slasher", network.tasks.address, False)
    assert found[1].startswith("  RedundantTasks (0x") and found[1].endswith("yes -> no")
    found = _said(network, "TrainingJobs", "transfer_ownership", STRANGER)
    assert found[1] == f"  owner to be: nobody -> {STRANGER}"


def test_pauses_and_pools(network: Network) -> None:
    found = _said(network, "ScoreConsensus", "set_paused", 2)
    assert found[:2] == ["Pauses of ScoreConsensus", "  open_scoring: runs -> paused"]
    found = _said(network, "RedundantTasks", "add_class", CUDA)
    what = "pool of executors of the determinism class cuda:sm_90/132/13.0"
    assert found[1] == f"  {what}: none -> open"


def test_money(network: Network, people: People) -> None:
    address = network.coordinator.address
    people.chain.send(people.faucet, people.token, "transfer", address, 7 * ZOO)
    found = _said(network, "ZooToken", "transfer", STRANGER, 3 * ZOO)
    assert found == [
        f"Pay 3 ZOO to {STRANGER}",
        "  ZOO that the timelock holds: 7 ZOO -> 4 ZOO",
    ]
    assert "doesn't hold as much" in _said(network, "ZooToken", "transfer", STRANGER, 8 * ZOO)[1]
    found = _said(network, "NodeRegistry", "claim_bounty")
    assert found[1] == "  credited to the timelock in NodeRegistry: 0 ZOO -> 0 ZOO"


def test_decisions(network: Network) -> None:
    found = _said(network, "TrainingResults", "resolve_challenge", 1, 2, bytes(32), True)
    assert found[0] == "Uphold the challenge of round 2 of job 1"
    found = _said(network, "TaskAppeals", "resolve", 3, b"\1" * 32)
    assert found[0] == "Decide on task 3" and "01010101" in found[1]
    found = _said(network, "NodeBenchmarks", "overrule", 4, 1, True, [1, 2])
    assert found[0] == "Overrule the verdict that benchmark 1 of node 4 passed"
    assert "the verifiers" not in found[0] and "1, 2" in found[1]
    assert "The node is slashed too" in found[2]
    assert len(_said(network, "NodeBenchmarks", "overrule", 4, 1, False, [1])) == 2
    found = _said(network, "NodeBenchmarks", "condemn", 4, 1)
    assert found[0] == "Find benchmark 1 of node 4 invented" and "FALSE_REPORT" in found[1]
    found = _said(network, "TrainingLedger", "attest_model", 1, b"\1" * 32, b"\2" * 32, bytes(32))
    assert found[0] == "Attest the model which the ledger does not record in job 1"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data + b"\0",
        lambda data: data + bytes(32),
        lambda data: data[:-1],
        lambda data: data[:3],
        lambda data: b"",
        lambda data: b"\xff" * 4 + data[4:],
        lambda data: data[:-1] + b"\2",
    ],
)
def test_what_is_not_exactly_a_known_call_is_said_to_be_unreadable(
    network: Network, spoil: Any
) -> None:
    target, data = _bytes(network, "NodeRegistry", "approve_role", 1, 2, True)
    assert said(network, target, data).known
    found = said(network, target, spoil(data))
    assert not found.known and found.title.startswith("An unreadable call of NodeRegistry (0x")
    assert call_of(network, target, spoil(data)) is None


def test_no_text_moves_the_cursor(network: Network) -> None:
    """The name of a class is the proposer's: it could erase the line that names it."""
    found = _said(network, "RedundantTasks", "add_class", b"cpu\x1b[2K\rbenign".ljust(32, b"\0"))
    assert "\x1b" not in "".join(found) and "\r" not in "".join(found)
    assert "cpu\\x1b[2K\\x0dbenign" in found[1]


def test_a_call_elsewhere_is_unreadable(network: Network) -> None:
    _, data = _bytes(network, "NodeRegistry", "approve_role", 1, 2, True)
    found = said(network, STRANGER, data)
    assert not found.known and STRANGER in found.title


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bytes_of_a_proposer_break_the_words(network: Network, data: st.DataObject) -> None:
    """A call with random arguments, some bytes changed: it is said, or said to be unreadable."""
    name = data.draw(st.sampled_from([place[0] for place in _WRITERS]))
    contract = network.deployment[name]
    kinds = [i for i in contract.abi if i["type"] == "function"]
    kind = contract.function(
        (item := data.draw(st.sampled_from(kinds)))["name"], len(item["inputs"])
    )
    raw = kind.selector + data.draw(st.binary(max_size=600))
    found = said(network, contract.address, raw)
    assert found.title and found.known == (call_of(network, contract.address, raw) is not None)


def test_an_executed_operation_keeps_its_words(network: Network, people: People) -> None:
    """From what to what is told by the state before it, also when it has become the state."""
    row = (3_000, 0, 86_400, True, False, 5_000)
    call = (people.registry, "set_penalty", (int(Violation.COPIED), row))
    people.decide(call, governance=True)
    newest = operations(network)[0]
    assert newest.words(network).lines()[1:3] == [
        "  share of the stake: 50 % -> 30 %",
        "  suspension: 30 days -> 1 day",
    ]
    assert _said(network, "NodeRegistry", "set_penalty", *call[2])[1].startswith("  Slashes from")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (20, "20 s"),
        (5_400, "1 h 30 min"),
        (86_400, "1 day"),
        (90_061, "1 day 1 h 1 min 1 s"),
    ],
)
def test_time_spans_for_people(seconds: int, words: str) -> None:
    assert spell(seconds) == words


@pytest.mark.parametrize(("bps", "words"), [(0, "0 %"), (1_250, "12.5 %"), (10_000, "100 %")])
def test_shares_for_people(bps: int, words: str) -> None:
    assert percent(bps) == words
