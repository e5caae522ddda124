# SPDX-License-Identifier: Apache-2.0
"""The calls between TrainingJobs, TrainingRounds and TrainingResults, as an attacker would make
them: as somebody else, in the wrong phase, twice, and from inside another call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import boa
import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.stage.contracts.clock import mine
from tests.stage.contracts.rounds import MODEL, RoundStage
from tests.stage.contracts.system import (
    AGGREGATE,
    BOND,
    CHALLENGE,
    COMMIT,
    EMPTY,
    ERROR_SELECTOR,
    FINALIZED,
    INVALID,
    NONE,
    REVEAL,
    REWARD,
    TERMS,
    VOID,
    ZERO,
    Codes,
    System,
    Work,
    refuses,
)

WORD = b"\x01" * 32
ROUND_TERMS = (1, WORD, 128, 600, 500, 400, 300, 800, REWARD, 2**40 - 1)


def everybody(stage: RoundStage, *, but: Any) -> list[str]:
    """People of every role and every contract that handles rounds, one contract excepted."""
    system = stage.system
    contracts = (
        system.jobs,
        system.rounds,
        system.results,
        system.reports,
        system.pool,
        system.ledger,
        system.scores,
        system.registry,
        system.coordinator,
    )
    people = [
        stage.sponsor,
        stage.stranger,
        stage.trainers[0].operator,
        stage.verifiers[0].operator,
        stage.aggregators[0].operator,
        str(boa.env.eoa),
    ]
    return people + [str(c.address) for c in contracts if c is not but]


# Wrong caller


def test_begin_round__anyone_but_rounds__reverts(stage: RoundStage, jobs: Any, rounds: Any) -> None:
    """Attack: numbers are used up, so that a job runs out of rounds that nobody opened."""
    for sender in everybody(stage, but=rounds):
        with refuses("jobs: not rounds"):
            jobs.begin_round(1, sender=sender)
    assert jobs.rounds_opened(1) == 0


def test_end_round__anyone_but_results__reverts(stage: RoundStage, jobs: Any, results: Any) -> None:
    """Attack: a sponsor that ends the open round could refund the escrow and pay nobody; a trainer
    that writes the head would make its own model the job's."""
    stage.to_commit()
    for sender in everybody(stage, but=results):
        for model in (EMPTY, WORD):
            with refuses("jobs: not results"):
                jobs.end_round(1, model, sender=sender)
    assert (jobs.rounds_open(1), jobs.job(1).model) == (1, TERMS["genesis_model"])


def test_open_begin_void__anyone_but_rounds__reverts(
    stage: RoundStage, rounds: Any, results: Any
) -> None:
    """Attack: a verifier of one's own weight, an aggregator of one's own choice, or a round that
    disappears because somebody doesn't like what it will say."""
    stage.to_commit()
    for sender in everybody(stage, but=rounds):
        with refuses("results: not rounds"):
            terms = (2, *ROUND_TERMS[1:])
            results.open(1, terms, [1], [10**30], [1], sender=sender)
        with refuses("results: not rounds"):
            results.begin(1, 1, WORD, sender=sender)
        with refuses("results: not rounds"):
            results.void(1, 1, "no commits", sender=sender)
    assert stage.system.phase(1, 1) == COMMIT


# Wrong phase, also by the contract that may call


def test_end_round__no_round_open__reverts(stage: RoundStage, jobs: Any, results: Any) -> None:
    for _ in range(2):
        with refuses("jobs: no round open"):
            jobs.end_round(1, WORD, sender=results.address)
        stage.to_finalized()
    assert jobs.job(1).rounds_done == 2


def test_begin_round__one_open__reverts(stage: RoundStage, jobs: Any, rounds: Any) -> None:
    stage.to_commit()
    with refuses("jobs: round open"):
        jobs.begin_round(1, sender=rounds.address)


@pytest.mark.parametrize("way", ["to_commit", "to_aggregate", "to_challenge", "to_finalized"])
def test_open__again__reverts(stage: RoundStage, rounds: Any, results: Any, way: str) -> None:
    """A second opening would replace the weights of verifiers that have voted already."""
    getattr(stage, way)()
    with refuses("results: already open"):
        results.open(1, ROUND_TERMS, [1], [1], [1], sender=rounds.address)


def test_open__void_round__reverts(stage: RoundStage, rounds: Any, results: Any) -> None:
    stage.to_commit()
    stage.system.time_out(1, 1)
    with refuses("results: already open"):
        results.open(1, ROUND_TERMS, [1], [1], [1], sender=rounds.address)


@pytest.mark.parametrize(
    "way", ["to_aggregate", "to_challenge", "to_disputed", "to_finalized", "void"]
)
def test_begin_and_void__after_the_handover__revert(
    stage: RoundStage, rounds: Any, results: Any, way: str
) -> None:
    """A second `begin` would draw the audit again, a late `void` would take back a result."""
    if way == "void":
        stage.to_commit()
        stage.system.time_out(1, 1)
    else:
        getattr(stage, way)()
    before = stage.system.phase(1, 1)
    with refuses("results: not waiting"):
        results.begin(1, 1, WORD, sender=rounds.address)
    with refuses("results: not waiting"):
        results.void(1, 1, "no commits", sender=rounds.address)
    assert stage.system.phase(1, 1) == before


def test_begin_and_void__round_that_does_not_exist__revert(
    stage: RoundStage, rounds: Any, results: Any
) -> None:
    for job_id, round_id in ((1, 1), (1, 0), (9, 1), (2**256 - 1, 2**256 - 1)):
        with refuses("results: not waiting"):
            results.begin(job_id, round_id, WORD, sender=rounds.address)
        with refuses("results: not waiting"):
            results.void(job_id, round_id, "no commits", sender=rounds.address)


@pytest.mark.parametrize("way", ["to_commit", "to_reveal"])
def test_results__while_rounds_has_the_round__nobody_can_act(
    stage: RoundStage, owner: str, results: Any, way: str
) -> None:
    """The phase is 0 in TrainingResults, whose clock has no deadline yet: that it has "passed" must
    open nothing, however long one waits."""
    getattr(stage, way)()
    verifier, aggregator = stage.verifiers[0], stage.aggregators[0]

    def decide() -> None:
        results.resolve_challenge(1, 1, EMPTY, True, sender=owner)

    def invalidate() -> None:
        results.invalidate(1, 1, stage.ids[0], sender=stage.system.reports.address)

    for _ in range(2):
        assert (results.phase(1, 1), results.aggregator_on_duty(1, 1)) == (NONE, 0)
        assert not results.can_finalize(1, 1)
        for reason, call in (
            ("results: nothing to advance", lambda: results.advance(1, 1)),
            ("randomness: not requested", lambda: results.capture_audit_seed(1, 1)),
            ("results: not in aggregate", lambda: stage.propose(1, aggregator)),
            ("results: not in challenge", lambda: stage.attest(1, verifier)),
            ("results: not in challenge", lambda: stage.challenge(1)),
            ("results: not disputed", decide),
            ("results: not finalizable", lambda: results.finalize(1, 1, [], [])),
            ("results: nothing to settle", lambda: results.settle(1, 1, [], [])),
            ("results: not in challenge", invalidate),
        ):
            with refuses(reason):
                call()
        assert not results.is_challenged(1, 1)
        mine(2, 30 * 86_400)


@pytest.mark.parametrize("way", ["to_aggregate", "to_challenge", "to_disputed", "to_finalized"])
def test_rounds__after_the_handover__nobody_can_act(
    stage: RoundStage, rounds: Any, way: str
) -> None:
    getattr(stage, way)()
    trainer = stage.trainers[0]
    for _ in range(2):
        with refuses("rounds: nothing to advance"):
            rounds.advance(1, 1)
        with refuses("rounds: not in commit"):
            stage.system.commit(1, 1, trainer, stage.work(trainer))
        with refuses("rounds: not in reveal"):
            stage.system.reveal(1, 1, trainer, stage.work(trainer))
        mine(2, 30 * 86_400)


# One phase, told by one view


def test_phase__of_every_stage__is_that_of_the_contract_that_has_the_round(
    stage: RoundStage, rounds: Any, results: Any, jobs: Any
) -> None:
    def told() -> tuple[int, int, int, int]:
        state = rounds.round(1, 1)
        assert state.phase == rounds.phase(1, 1)
        return rounds.phase(1, 1), results.phase(1, 1), results.result(1, 1).phase, state.deadline

    assert told() == (NONE, NONE, NONE, 0)
    stage.to_commit()
    assert told() == (COMMIT, NONE, NONE, boa.env.timestamp - 2 * mined() + TERMS["commit_s"])
    stage.commit_all(1, *stage.trainers)
    assert told() == (REVEAL, NONE, NONE, boa.env.timestamp + TERMS["reveal_s"])
    stage.reveal_all(1, *stage.trainers)
    assert told() == (AGGREGATE, AGGREGATE, AGGREGATE, boa.env.timestamp + TERMS["aggregate_s"])
    stage.propose(1)
    assert told() == (CHALLENGE, CHALLENGE, CHALLENGE, boa.env.timestamp + TERMS["challenge_s"])
    stage.attest(1)
    stage.finalize()
    assert told() == (FINALIZED, FINALIZED, FINALIZED, 0)
    assert jobs.rounds_open(1) == 0


def mined() -> int:
    """Seconds that `mine` lets pass for a block."""
    before = boa.env.timestamp
    with boa.env.anchor():
        mine()
        return int(boa.env.timestamp - before)


def test_marks__are_told_16_nodes_at_once(stage: RoundStage, rounds: Any, results: Any) -> None:
    round_id = stage.to_aggregate(stage.trainers[:2])
    bits = [1 << node for node in stage.ids]
    assert max(stage.ids) < 16
    assert rounds.revealed(1, round_id, 0) == sum(bits[:2])
    assert rounds.revealed(1, round_id, 1) == rounds.revealed(1, 2, 0) == 0
    stage.propose(round_id, nodes=stage.ids[:2], contributions=[1, 1])
    stage.report(round_id, stage.trainers[0], INVALID, *stage.verifiers[:2])
    assert results.last_invalid(1) == 1
    for later, known in ((1, 0), (2, 1), (8, 1), (9, 1), (10, 0), (17, 0)):
        assert results.invalid_history(1, later, 0) == known * bits[0] << 32  # round 1, lane 1
    assert results.invalid_history(1, 2, 1) == results.invalid_history(2, 2, 0) == 0
    # A number that no node can have names nobody, also not in another round.
    assert not rounds.is_revealed(1, round_id + 8, stage.ids[0])
    assert not rounds.is_revealed(1, round_id + 8, stage.ids[0] - (1 << 68) + 2**256)
    assert not rounds.is_revealed(1, round_id, stage.ids[0] + (1 << 68))


# What a cancelled job, a void round and silence leave behind


@pytest.mark.parametrize("way", ["to_commit", "to_reveal", "to_aggregate", "to_disputed"])
def test_cancelled__round_open__escrow_is_refunded_once_and_nothing_is_left(
    stage: RoundStage, jobs: Any, way: str
) -> None:
    """Attack: the sponsor cancels while a round is open and claims the escrow before and after the
    round's pool came back."""
    system = stage.system
    getattr(stage, way)()
    jobs.cancel_job(1, sender=stage.sponsor)
    with refuses("pool: job not ended"):
        system.pool.refund(1, sender=stage.sponsor)
    while system.phase(1, 1) != VOID:
        system.wait_out(1, 1)
        system.advance(1, 1)
    assert jobs.job_ended(1)
    assert system.pool.refund(1, sender=stage.sponsor) == 10 * REWARD
    with refuses("pool: nothing to refund"):
        system.pool.refund(1, sender=stage.sponsor)
    if way == "to_disputed":
        assert system.results.bond_credit(system.coordinator.address) == BOND
    assert system.balances() == system.owed()
    with refuses("jobs: job not active"):
        system.rounds.open_round(1)


def test_slash_unrevealed__after_the_job_was_cancelled_and_refunded(
    stage: RoundStage, jobs: Any, rounds: Any
) -> None:
    """Attack: who committed to nothing hopes that the end of the job saves its stake."""
    stage.to_reveal()
    jobs.cancel_job(1, sender=stage.sponsor)
    stage.system.time_out(1, 1)
    stage.system.pool.refund(1, sender=stage.sponsor)
    for node_id in stage.ids:
        assert rounds.slash_unrevealed(1, 1, node_id) > 0
        with refuses("rounds: already slashed"):
            rounds.slash_unrevealed(1, 1, node_id)


# From inside another call

INTRUDER = """
# pragma version ~=0.4.3
# pragma nonreentrancy off

struct RoundTerms:
    round_id: uint256
    model: bytes32
    max_nodes: uint256
    commit_s: uint256
    reveal_s: uint256
    aggregate_s: uint256
    challenge_s: uint256
    dispute_s: uint256
    reward: uint256
    settle_by: uint256

target: address
data: Bytes[2048]
strikes: public(uint256)
breaches: public(uint256)
answer: public(Bytes[256])

@external
def arm(target: address, data: Bytes[2048]):
    self.target = target
    self.data = data

@internal
def _strike():
    if self.target == empty(address):
        return
    self.strikes += 1
    ok: bool = False
    ok, self.answer = raw_call(self.target, self.data, max_outsize=256, revert_on_failure=False)
    if ok:
        self.breaches += 1

@external
def begin_round(job_id: uint256) -> RoundTerms:
    self._strike()
    return RoundTerms(
        round_id=1, model=keccak256("model"), max_nodes=128, commit_s=600, reveal_s=500,
        aggregate_s=400, challenge_s=300, dispute_s=800, reward=0, settle_by=2**40 - 1,
    )

@external
def end_round(job_id: uint256, model: bytes32):
    self._strike()

@external
def open(
    job_id: uint256, terms: RoundTerms, verifiers: DynArray[uint256, 128],
    stakes: DynArray[uint256, 128], aggregators: DynArray[uint256, 128],
):
    self._strike()

@external
def begin(job_id: uint256, round_id: uint256, seed: bytes32):
    self._strike()

@external
def void(job_id: uint256, round_id: uint256, reason: String[32]):
    self._strike()

@external
def reserve(job_id: uint256, round_id: uint256, amount: uint256):
    self._strike()

@external
def record_round(
    job_id: uint256, round_id: uint256, prev_model: bytes32, new_model: bytes32,
    contributors_root: bytes32, scores_root: bytes32, report: bytes32,
):
    self._strike()

@external
def start_distribution(
    job_id: uint256, round_id: uint256, nodes: DynArray[uint256, 128], total: uint256,
    cut_nodes: DynArray[uint256, 128], cut_amounts: DynArray[uint256, 128],
):
    self._strike()

@view
@external
def parts(
    job_id: uint256, round_id: uint256, nodes: DynArray[uint256, 128]
) -> (DynArray[uint256, 128], DynArray[uint256, 128]):
    return [], []

@external
def distribute(
    job_id: uint256, round_id: uint256, nodes: DynArray[uint256, 128],
    contributions: DynArray[uint256, 128], aside: uint256,
):
    self._strike()

@external
def close(job_id: uint256, round_id: uint256) -> (uint256, uint256):
    self._strike()
    return 0, 0

@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    self._strike()
    return True

@external
def transfer(to: address, amount: uint256) -> bool:
    self._strike()
    return True

@view
@external
def last_invalid(job_id: uint256) -> uint256:
    return 0

@view
@external
def payment(job_id: uint256) -> (bytes32, uint256, uint256, uint256):
    return keccak256("head"), 100, 1_000, 500

@view
@external
def challenge_bond(job_id: uint256) -> uint256:
    return 1
"""


@pytest.fixture(scope="module")
def intruder_code() -> Any:
    return boa.loads_partial(INTRUDER)


@pytest.fixture
def intruder(intruder_code: Any) -> Any:
    """A neighbour that the attacker has got hold of: in every call it gets, it makes one itself."""
    return intruder_code.deploy()


def call_data(contract: Any, name: str, *arguments: Any) -> bytes:
    return bytes(getattr(contract, name).prepare_calldata(*arguments))


def assert_locked_out(intruder: Any, name: str = "") -> None:
    """The lock refused every call, which is a revert without a reason. `withdraw_bond` has no lock:
    it empties a credit before it pays, and finds none here."""
    assert intruder.strikes() > 0, "the attack was never made"
    reason = encode(["string"], ["bonds: nothing to withdraw"])
    answer = ERROR_SELECTOR + reason if name == "withdraw_bond" else b""
    assert (intruder.breaches(), intruder.answer()) == (0, answer)


def rounds_among(codes: Codes, system: System, jobs: Any, results: Any) -> Any:
    """A TrainingRounds of its own between neighbours, one of them an intruder."""
    owner = system.coordinator.address
    registry = system.registry.address
    return codes.rounds.deploy(registry, jobs.address, results.address, owner, ZERO)


def test_open_round__reentered_by_its_neighbours__the_lock_holds(
    codes: Codes, stage: RoundStage, intruder: Any
) -> None:
    """Attack: two rounds from one opening."""
    rounds = rounds_among(codes, stage.system, intruder, intruder)
    intruder.arm(rounds.address, call_data(rounds, "open_round", 1))
    rounds.open_round(1)
    assert intruder.strikes() == 2
    assert_locked_out(intruder)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("advance", (1, 1)),
        ("open_round", (1,)),
        ("seat", (1, 1, [1], [1])),
        ("slash_unrevealed", (1, 1, 1)),
        ("reveal", (1, 1, 1, WORD, WORD, WORD, WORD, WORD)),
        ("capture_seed", (1, 1)),
    ],
)
def test_advance__reentered_when_it_hands_a_void_round_over__the_lock_holds(
    codes: Codes, stage: RoundStage, intruder: Any, name: str, arguments: tuple[Any, ...]
) -> None:
    """Attack: end the round twice, and have its pool back twice."""
    rounds = rounds_among(codes, stage.system, intruder, intruder)
    rounds.open_round(1)
    mine(2, 601)
    intruder.arm(rounds.address, call_data(rounds, name, *arguments))
    rounds.advance(1, 1)
    assert_locked_out(intruder)


def committed(rounds: Any, stage: RoundStage, intruder: Any) -> Work:
    """A round of a TrainingRounds of its own, in REVEAL, with one commitment."""
    rounds.open_round(1)
    mine(2)
    player, work = stage.trainers[0], stage.work(stage.trainers[0])
    parts = (work.input_root, work.content, work.trace_root, work.salt)
    digest = rounds.commitment_digest(1, 1, player.node_id, player.operator, *parts)
    rounds.commit(1, 1, player.node_id, digest, sender=player.operator)
    mine(1, 601)
    rounds.advance(1, 1)
    return work


def test_reveal__reentered_when_it_hands_the_round_over__finds_commit_closed(
    codes: Codes, stage: RoundStage, intruder: Any
) -> None:
    """`commit` has no lock, since it calls nobody but a view. Attack: commit to what was just
    revealed from inside the last reveal. The phase is left before TrainingResults is called."""
    rounds = rounds_among(codes, stage.system, intruder, intruder)
    work, player = committed(rounds, stage, intruder), stage.trainers[0]
    again = call_data(rounds, "commit", 1, 1, stage.trainers[1].node_id, WORD)
    intruder.arm(rounds.address, again)
    parts = (work.input_root, work.content, work.trace_root, work.salt)
    rounds.reveal(1, 1, player.node_id, *parts, WORD, sender=player.operator)
    assert (intruder.strikes(), intruder.breaches()) == (1, 0)
    assert intruder.answer()[4:] == encode(["string"], ["rounds: not in commit"])


def test_reveal__reentered_when_it_hands_the_round_over__the_lock_holds(
    codes: Codes, stage: RoundStage, intruder: Any
) -> None:
    rounds = rounds_among(codes, stage.system, intruder, intruder)
    work, player = committed(rounds, stage, intruder), stage.trainers[0]
    parts = (work.input_root, work.content, work.trace_root, work.salt)
    intruder.arm(rounds.address, call_data(rounds, "reveal", 1, 1, player.node_id, *parts, WORD))
    rounds.reveal(1, 1, player.node_id, *parts, WORD, sender=player.operator)
    assert_locked_out(intruder)


@pytest.fixture
def alone(codes: Codes, stage: RoundStage, intruder: Any) -> Any:
    """A TrainingResults whose token, pool, ledger and TrainingJobs are the intruder's, and whose
    TrainingRounds is an account of the test's."""
    system, bad = stage.system, intruder.address
    results = codes.results.deploy(
        bad,
        system.registry.address,
        bad,
        bad,
        system.reports.address,
        bad,
        system.rounds.address,
        system.coordinator.address,
        ZERO,
    )
    # Boa dumps the storage of a contract that reverts in an inner call, and stumbles over keys that
    # are themselves hashes of two words.
    results._storage = SimpleNamespace(dump=dict)
    return results


def opened(alone: Any, stage: RoundStage) -> None:
    """A round that is open there."""
    verifiers = [p.node_id for p in stage.verifiers]
    aggregators = [p.node_id for p in stage.aggregators]
    rounds = stage.system.rounds.address
    alone.open(1, ROUND_TERMS, verifiers, [1] * len(verifiers), aggregators, sender=rounds)


def in_challenge(alone: Any, stage: RoundStage) -> bytes:
    """A round in CHALLENGE there, with an empty result; the result's hash."""
    opened(alone, stage)
    alone.begin(1, 1, keccak(text="seed"), sender=stage.system.rounds.address)
    duty = alone.aggregator_on_duty(1, 1)
    player = next(p for p in stage.aggregators if p.node_id == duty)
    alone.propose_result(1, 1, duty, MODEL, WORD, WORD, [], [], sender=player.operator)
    return bytes(alone.result(1, 1).result_hash)


RESULTS_CALLS = [
    ("finalize", (1, 1, [], [])),
    ("settle", (1, 1, [], [])),
    ("advance", (1, 1)),
    ("challenge", (1, 1, WORD, WORD)),
    ("announce_challenge", (WORD,)),
    ("expire_announcement", (ZERO, WORD)),
    ("withdraw_bond", ()),
    ("capture_audit_seed", (1, 1)),
]


@pytest.mark.parametrize(("name", "arguments"), RESULTS_CALLS)
def test_open_and_void__reentered_by_the_pool_or_the_jobs__the_lock_holds(
    stage: RoundStage, alone: Any, intruder: Any, name: str, arguments: tuple[Any, ...]
) -> None:
    intruder.arm(alone.address, call_data(alone, name, *arguments))
    opened(alone, stage)
    assert intruder.strikes() == 1
    alone.void(1, 1, "no commits", sender=stage.system.rounds.address)
    assert intruder.strikes() == 3
    assert_locked_out(intruder, name)


@pytest.mark.parametrize(("name", "arguments"), RESULTS_CALLS)
def test_finalize__reentered_by_ledger_pool_or_jobs__pays_once(
    stage: RoundStage, alone: Any, intruder: Any, name: str, arguments: tuple[Any, ...]
) -> None:
    """Attack: finalize or settle the same round again from inside the payment."""
    in_challenge(alone, stage)
    mine(1, 301)
    intruder.arm(alone.address, call_data(alone, name, *arguments))
    alone.finalize(1, 1, [], [])
    assert intruder.strikes() == 4  # record, start, end, close; there is nobody to distribute to
    assert_locked_out(intruder, name)
    assert (alone.phase(1, 1), alone.result(1, 1).settled) == (FINALIZED, True)


@pytest.mark.parametrize(("name", "arguments"), RESULTS_CALLS)
def test_challenge__reentered_by_the_token__the_lock_holds(
    stage: RoundStage, alone: Any, intruder: Any, name: str, arguments: tuple[Any, ...]
) -> None:
    """Attack: take the challenge back, or finalize, while its bond is on the way."""
    result = in_challenge(alone, stage)
    intruder.arm(alone.address, call_data(alone, name, *arguments))
    alone.challenge(1, 1, result, WORD, sender=stage.challenger)
    assert intruder.strikes() == 1
    assert_locked_out(intruder, name)


def test_undecided_dispute__reentered_by_jobs_and_pool__credits_the_bond_once(
    stage: RoundStage, alone: Any, intruder: Any
) -> None:
    """Attack: a second `advance` from inside the first would credit the bond, and end the round,
    twice."""
    result = in_challenge(alone, stage)
    alone.challenge(1, 1, result, WORD, sender=stage.challenger)
    mine(1, 801)
    intruder.arm(alone.address, call_data(alone, "advance", 1, 1))
    alone.advance(1, 1)
    assert intruder.strikes() == 2
    assert_locked_out(intruder)
    assert alone.bond_credit(stage.system.coordinator.address) == alone.bonds_held() == 1
