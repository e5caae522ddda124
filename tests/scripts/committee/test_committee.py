# SPDX-License-Identifier: Apache-2.0
"""Members at their terminals: they propose, look, approve, execute and cancel, each time with the
words in front of them; what would fail or isn't theirs is refused before anything is signed.

In one walk a proposal, a vote and a refusal are typed with `ape run`. Everything else runs the same
command in this process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents.protocol.network import Network
from agents.protocol.numbers import OperationState, Violation
from tests.stage.chain.people import People
from tests.stage.terminal import Terminal

CUDA = "cuda:sm_90/132/13.0"
NAMES = ("ada", "bo", "cy", "di", "ed")  # of the members' accounts, in their order


class Committee:
    """The committee's members, each with an account of its own, at one machine."""

    def __init__(self, people: People, deployment: Path, folder: Path) -> None:
        self.people = people
        self.by_ape = False  # from now on: whether commands are typed with `ape run`
        self.terminal = Terminal(folder)
        for name, member in zip(NAMES, people.members, strict=True):
            self.terminal.has(name, bytes(member.key))
        self.terminal.has("stranger", bytes(people.nodes["vic"].owner.key))
        self._net = f"--network {people.chain._url} --deployment {deployment}"

    def look(self, line: str) -> str:
        return self._run(line)

    def sign(self, who: str, line: str, answer: str = "y\n", fails: bool = False) -> str:
        return self._run(f"{line} --account {who}", answer, fails)

    def _run(self, line: str, answers: str | None = None, fails: bool = False) -> str:
        run = self.terminal.type if self.by_ape else self.terminal.here
        return run(f"ape run committee {line} {self._net}", answers, fails)

    def proposed(self, who: str, line: str) -> str:
        """The id of what a member proposes."""
        told = self.sign(who, f"propose {line}")
        return re.findall(r"Operation (0x[0-9a-f]{64})$", told, re.M)[0]


@pytest.fixture
def committee(people: People, deployment: Path, tmp_path: Path) -> Committee:
    return Committee(people, deployment, tmp_path)


def test_a_penalty_is_changed_in_words(committee: Committee, network: Network) -> None:
    assert committee.look("list") == "There is no open operation.\n"
    told = committee.sign("ada", "propose penalty INVALID --share 25% --suspension 14d")
    before, _, signed = told.partition("ada signs:")
    assert "share of the stake: 20 % -> 25 %" in before
    assert "suspension: 7 days -> 14 days" in before
    assert re.search(r"Tried from the timelock at block \d+: it would succeed\.", before)
    assert "waits 21 days after the last of them" in before
    assert told.count("Go on?") == 1 and "It needs 2 more approvals" in signed
    op_id = re.findall(r"Operation (0x[0-9a-f]{64})$", told, re.M)[0]

    again = committee.sign("bo", "propose penalty INVALID --share 25% --suspension 14d", fails=True)
    assert "is proposed already" in again and op_id in again
    assert "Not yet. It needs 2 more" in committee.sign("ada", f"execute {op_id[:12]}", fails=True)
    told = committee.sign("bo", f"approve {op_id[:12]}")
    assert "share of the stake: 20 % -> 25 %" in told.partition("bo signs:")[0]
    assert "It needs 1 more approval," in told
    assert "already approved" in committee.sign("bo", f"approve {op_id}", fails=True)
    assert "Queued. Anyone may execute it from" in committee.sign("cy", f"approve {op_id}")

    listed = committee.look("list")
    assert "3 of 3 approvals. Anyone may execute it from" in listed
    assert "until" in listed and "share of the stake: 20 % -> 25 %" in listed
    shown = committee.look(f"show {op_id[:10]}")
    for member in committee.people.members[:3]:
        assert f"  {member.address}\n" in shown
    assert committee.people.members[3].address not in shown
    assert "Tried from the timelock now: it would succeed." in shown

    assert "Not yet. Anyone may execute it from" in committee.sign(
        "ada", f"execute {op_id}", fails=True
    )
    committee.people.chain.warp(committee.people.settings.governance_delay)
    assert "Executed. It was executed in block" in committee.sign("stranger", f"execute {op_id}")
    row = network.penalty(Violation.INVALID)
    assert (row.bps, row.suspension, row.strike) == (2_500, 14 * 86_400, True)
    assert "share of the stake: 20 % -> 25 %" in committee.look("list --all")
    assert committee.look("list") == "There is no open operation.\n"
    # The same once more is another operation: it changes nothing, and says so.
    committee.people.chain._nonces.clear()  # the members' commands have sent from the same keys
    committee.people.decide(
        (committee.people.registry, "set_penalty", (2, (2_000, 0, 604_800, True, False, 5_000))),
        governance=True,
    )
    assert committee.proposed("ada", "penalty INVALID --share 25% --suspension 14d") != op_id


def test_a_member_is_warned_of_delays_that_outrun_an_exit__before_it_signs_and_approves(
    committee: Committee,
) -> None:
    told = committee.sign("ada", "propose delays --governance 14d")
    warning = "  Warning: changes of the rules would then wait 14 days, and stakes unbond in"
    assert warning in told.partition("ada signs:")[0]
    (op_id,) = re.findall(r"Operation (0x[0-9a-f]{64})$", told, re.M)
    assert warning in committee.sign("bo", f"approve {op_id}").partition("bo signs:")[0]
    assert "Warning" not in committee.sign("ada", "propose delays --governance 22d")


def test_three_votes_cancel_for_good(committee: Committee, network: Network) -> None:
    committee.by_ape = True
    op_id = committee.proposed("ada", f"pool {CUDA}")
    assert "2 more votes cancel it." in committee.sign("di", f"cancel {op_id}")
    committee.by_ape = False
    assert "Against it voted 1 of 5 members, 3 cancel it" in committee.look(f"show {op_id}")
    committee.sign("ed", f"cancel {op_id}")
    assert "Cancelled. It was cancelled, for good." in committee.sign("cy", f"cancel {op_id}")
    committee.by_ape = True
    assert "It was cancelled, for good." in committee.sign("bo", f"approve {op_id}", fails=True)
    op_id = bytes.fromhex(op_id[2:])
    state = network.chain.call(network.coordinator, "state", op_id)
    assert state == OperationState.CANCELLED


def test_what_would_fail_is_not_signed(committee: Committee, network: Network) -> None:
    vic = committee.people.nodes["vic"].node_id
    told = committee.sign("ada", f"propose role {vic} AGGREGATOR", fails=True)
    assert "The operation would fail: registry: role not requested" in told
    told = committee.sign("ada", "propose penalty ABORT --share 1%", fails=True)
    assert "penalties: abort below mismatch" in told
    assert "is no member of the committee" in committee.sign(
        "stranger", "propose pause TrainingJobs", fails=True
    )
    assert "Name at least one thing" in committee.sign("ada", "propose bounds", fails=True)
    assert "is no determinism class" in committee.sign("ada", "propose pool cuda:fast", fails=True)
    assert committee.look("list") == "There is no open operation.\n"
    committee.sign("ada", f"propose pool {CUDA}", answer="n\n", fails=True)
    assert committee.look("list") == "There is no open operation.\n"
    told = committee.sign("ada", f"propose role {vic} AGGREGATOR --though-it-fails")
    assert "it would fail (registry: role not requested)" in told


def test_members_pauses_and_treasury(committee: Committee, network: Network) -> None:
    """The other settings in one walk: each as a member types it, and as it stands afterwards."""
    people = committee.people
    first, last = people.members[0].address, people.members[4].address
    stranger = people.nodes["vic"].owner.address
    people.chain.send(people.faucet, people.token, "transfer", people.coordinator.address, 10**18)
    paid = people.chain.call(people.token, "balanceOf", stranger)
    bounds = people.chain.call(people.jobs, "bounds")
    lines = [
        f"pay {stranger} 0.5",
        "pause ScoreConsensus open_scoring",
        f"pool {CUDA}",
        "bounds --least-retained 2",
        "delays --routine 2h",
        "parameters --benchmark-window 20min",
        "delay-class NodeRegistry set_penalty routine",
        f"call TrainingJobs transfer_ownership {stranger}",
        f"members --remove {last} --add {stranger} --threshold 4",
    ]
    ids = [bytes.fromhex(committee.proposed("ada", line)[2:]) for line in lines]
    people.chain._nonces.clear()  # a member's commands have sent from the same keys
    for op_id in ids:
        for member in people.members[1:3]:
            people.chain.send(member, people.coordinator, "approve", op_id)
    delays = (people.settings.routine_delay, people.settings.governance_delay)
    for delay, due in zip(delays, (ids[1:3], [ids[0], *ids[3:]]), strict=True):
        people.chain.warp(delay)
        for op_id in due:
            people.chain.send(people.faucet, people.coordinator, "execute", op_id)
    call = people.chain.call
    assert call(people.token, "balanceOf", stranger) == paid + 5 * 10**17
    assert call(people.scores, "paused") == 2
    assert call(people.tasks, "classes")[-1].rstrip(b"\0").decode() == CUDA
    assert call(people.jobs, "bounds") == bounds._replace(least_retained=2)
    assert call(people.coordinator, "delays")[0] == 7_200
    assert call(people.registry, "parameters").benchmark_window == 1_200
    selector = people.registry.function("set_penalty", 2).selector
    assert call(people.coordinator, "delay_class", people.registry.address, selector) == 1
    assert call(people.jobs, "pending_owner") == stranger
    members = call(people.coordinator, "members")
    assert last not in members and stranger in members and members[0] == first
    assert call(people.coordinator, "threshold") == 4
    resumed = committee.sign("stranger", "propose resume ScoreConsensus")
    assert "open_scoring: paused -> runs" in resumed and "needs 4 of 5 members" in resumed


def test_a_member_starts_the_delay_of_what_a_change_of_members_brought_to_quorum(
    committee: Committee, network: Network
) -> None:
    """Both members that remain have approved it, and can't a second time."""
    people = committee.people
    wanted = committee.proposed("ada", "pause ScoreConsensus open_scoring")
    committee.sign("bo", f"approve {wanted}")
    leave = " ".join(f"--remove {member.address}" for member in people.members[2:])
    fewer = committee.proposed("ada", f"members {leave} --threshold 2")
    for who in ("bo", "cy"):
        committee.sign(who, f"approve {fewer}")
    people.chain.warp(people.settings.governance_delay)
    people.chain.mine()
    committee.sign("ada", f"execute {fewer}")
    told = committee.look(f"show {wanted}")
    assert "A change of members gave it its quorum: a member's `approve` starts" in told
    assert "Queued." in committee.sign("bo", f"approve {wanted}")
    people.chain.warp(people.settings.routine_delay)
    people.chain.mine()
    committee.sign("ada", f"execute {wanted}")
    assert people.chain.call(people.scores, "paused") == 2
