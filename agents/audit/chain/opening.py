# SPDX-License-Identifier: Apache-2.0
"""How a round was opened and paced: snapshot, weights, seeds, phases, deadlines.

The contract keeps a snapshot as a hash; a trainer's weight in it follows from its verified
benchmark and the rounds before. A seed follows from the hash of the block it was pinned to, so that
nobody can have chosen it.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.audit.chain.benchmark_scores import scores_before
from agents.audit.chain.carry import pool_of
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.protocol import formulas
from agents.protocol.marks import CHANGES, Marks, marks_at, nodes_of
from agents.protocol.numbers import HISTORY, NOBODY, ZERO_DIGEST, Phase
from agents.runtime.contracts import Contract, Event


@dataclass(frozen=True)
class Opened:
    """A round as it was opened. `verifiers`: stake by node id. `nodes`, `weights`: its trainers, of
    RoundSeated where there were more than seats; none if their seats were never drawn."""

    event: Event
    time: int
    prev_model: bytes
    nodes: tuple[int, ...]
    weights: tuple[int, ...]
    verifiers: dict[int, int]
    aggregators: tuple[int, ...]


def check_opening(record: Record, part: Part) -> Opened | None:
    """Compare RoundOpened with the state and with what it follows from; None if it is missing."""
    number, state = part.round_id, record.current[part.round_id]
    events = record.of("RoundOpened", number)
    if not part.hold(
        "opening",
        len(events) == 1,
        "RoundOpened",
        f"there are {len(events)} events of this round, it should be exactly one.",
    ):
        return None
    event, args = events[0], events[0].args
    nodes, weights, seated_by = _check_seats(record, part, event)
    opened = Opened(
        event,
        record.time(event),
        args["prev_model"],
        nodes,
        weights,
        dict(zip(args["verifiers"], args["stakes"], strict=False)),
        tuple(args["aggregators"]),
    )
    say = "RoundOpened"
    part.same("opening", say, "prev_model", opened.prev_model, state.prev_model)
    part.same("opening", say, "its block", event.block, state.opened_block)
    part.same("opening", say, "its time", opened.time, state.opened_at)
    part.same("opening", say, "the number of nodes", len(nodes), state.n_eligible)
    stakes = list(args["stakes"])
    part.same("opening", say, "the number of stakes", len(stakes), len(args["verifiers"]))
    part.same("opening", say, "the sum of stakes", sum(stakes), state.verifier_stake)
    kept = record.flags("verifier_weight", number, list(opened.verifiers))
    for verifier, stake in opened.verifiers.items():
        part.same("opening", f"verifier {verifier}", "its stake", stake, kept[verifier])
    _check_weights(record, part, opened, seated_by)
    _check_pool(record, part)
    _check_phases(record, part, opened)
    _check_rest(record, part)
    return opened


def _check_seats(
    record: Record, part: Part, event: Event
) -> tuple[tuple[int, ...], tuple[int, ...], Event]:
    """Trainers and weights of a round, and the event that fixed them: whoever was eligible, or
    whom the round's seed drew where there were more than seats."""
    number, state, args = part.round_id, record.current[part.round_id], event.args
    lists = tuple(args["nodes"]), tuple(args["weights"])
    part.same("opening", "RoundOpened", "the number of weights", len(lists[1]), len(lists[0]))
    seats = record.job.terms.max_nodes
    drawn = record.of("RoundSeated", number)
    most = 1 if len(lists[0]) > seats else 0
    said = f"there are {len(drawn)} events of this round, it should be {most} at most."
    part.hold("opening", len(drawn) <= most, "RoundSeated", said)
    found = lists
    if most and drawn:
        event, args = drawn[0], drawn[0].args
        found = tuple(args["nodes"]), tuple(args["weights"])
        wanted, _ = formulas.seated(state.seed, *lists, seats)
        part.same("opening", "RoundSeated", "who is seated", found[0], wanted)
        part.same("opening", "RoundSeated", "the number of weights", len(found[1]), len(wanted))
    say, digest = event.name, formulas.snapshot_hash(*found)
    part.same("opening", say, "the hash of nodes and weights", digest, state.snapshot_hash)
    return (*found, event) if drawn or not most else ((), (), event)


def trainers(record: Record, number: int) -> set[int]:
    """Who was expected in a round."""
    for event in record.of("RoundSeated", number):
        return set(event.args["nodes"])
    for event in record.of("RoundOpened", number):
        if len(event.args["nodes"]) <= record.job.terms.max_nodes:
            return set(event.args["nodes"])
    return set()


def _check_weights(record: Record, part: Part, opened: Opened, at: Event) -> None:
    """Every weight, from the benchmark settled before and the 8 rounds before. `at`: the event that
    fixed them."""
    scores, parameters = scores_before(record, opened.event), record.parameters_at(opened.event)
    past = range(max(1, part.round_id - HISTORY), part.round_id)
    expected = {n: trainers(record, n) for n in past}
    revealed = {n: {e.args["node_id"] for e in record.of("Revealed", n)} for n in past}
    marks = invalid_at(record, at)
    invalid = {n: nodes_of(marks, n) for n in past}
    for node, weight in zip(opened.nodes, opened.weights, strict=False):
        due = [n for n in past if node in expected.get(n, ())]
        good = [n for n in due if node in revealed[n] and node not in invalid[n]]
        score = scores.of(node, opened.time, parameters)
        wanted = formulas.weight(score, len(due), len(good))
        part.same("opening", f"node {node}", "its weight", weight, wanted)


def found_invalid(record: Record, round_id: int) -> frozenset[int]:
    """Nodes whose work in a round was found invalid, cleared or not."""
    return frozenset(event.args["node_id"] for event in record.of("NodeInvalidated", round_id))


def guilty_at(record: Record, round_id: int, at: Event) -> set[int]:
    """Nodes whose work in a round was invalid when an event happened: found so, not cleared."""
    return nodes_of(invalid_at(record, at), round_id)


def invalid_at(record: Record, at: Event) -> Marks:
    """The job's work, by round and node, that was invalid when an event happened."""
    return marks_at((event for name in CHANGES for event in record.of(name)), record.job_id, at)


def _check_pool(record: Record, part: Part) -> None:
    amount, for_trainers = pool_of(record, part.round_id)
    amounts = [e.args["amount"] for e in record.of("PoolReserved", part.round_id)]
    part.same("opening", "PoolReserved", "the amounts", amounts, [amount])
    pool = record.pools[record.job_id, part.round_id]
    part.same("opening", "RewardPool", "the pool's amount", pool.amount, amount)
    part.same("opening", "RewardPool", "the trainers' part", pool.for_trainers, for_trainers)


def _check_phases(record: Record, part: Part, opened: Opened) -> None:
    """The phases follow each other, each with the whole window that the terms give it.

    A challenge that failed leaves its result what was left of the window, half of one at least.
    """
    terms = record.job.terms
    windows = {
        Phase.COMMIT: terms.commit_s,
        Phase.REVEAL: terms.reveal_s,
        Phase.AGGREGATE: terms.aggregate_s,
        Phase.CHALLENGE: terms.challenge_s,
        Phase.DISPUTED: terms.dispute_s,
    }
    allowed = {
        Phase.NONE: {Phase.COMMIT},
        Phase.COMMIT: {Phase.REVEAL, Phase.VOID},
        Phase.REVEAL: {Phase.AGGREGATE, Phase.VOID},
        Phase.AGGREGATE: {Phase.AGGREGATE, Phase.CHALLENGE, Phase.VOID},
        Phase.CHALLENGE: {Phase.DISPUTED, Phase.FINALIZED},
        Phase.DISPUTED: {Phase.AGGREGATE, Phase.CHALLENGE, Phase.VOID},
    }
    phase, deadline, left = Phase.NONE, 0, 0
    for event in record.of("PhaseChanged", part.round_id):
        entered = event.args["phase"]
        known = entered in Phase._value2member_map_
        if not part.hold(
            "opening",
            known and Phase(entered) in allowed.get(phase, set()),
            "PhaseChanged",
            f"the round goes from {phase.name} to phase {entered}, which the protocol never does.",
        ):
            return
        before, phase = phase, Phase(entered)
        window, since = int(windows.get(phase, 0)), record.time(event)
        if phase == Phase.DISPUTED:
            left = deadline - since
        elif (before, phase) == (Phase.DISPUTED, Phase.CHALLENGE):
            window, since = max(left, window // 2), min(since, deadline)
        deadline = event.args["deadline"]
        wanted = since + window if window else 0
        what = f"the deadline of {phase.name}"
        part.same("opening", "PhaseChanged", what, deadline, wanted)
    part.same(
        "opening", "PhaseChanged", "the last phase", int(phase), record.current[part.round_id].phase
    )


def _check_rest(record: Record, part: Part) -> None:
    """What is left of a round's state once it is over."""
    state = record.current[part.round_id]
    part.same("opening", "TrainingResults", "deadline", state.deadline, 0)
    part.same("opening", "TrainingResults", "challenger", state.challenger, NOBODY)
    for event in record.of("Challenged", part.round_id):
        bond = record.job.terms.challenge_bond
        part.same("opening", "Challenged", "bond", event.args["bond"], bond)


def check_seeds(record: Record, part: Part, random_source: bool) -> bytes | None:
    """The round's seed and audit seed, each from its block's hash; the round's seed.

    `random_source`: the deployment draws from a contract, not from block hashes.
    """
    state, network = record.current[part.round_id], record.network
    key = formulas.round_key(record.job_id, part.round_id)
    opened = record.of("RoundOpened", part.round_id)
    pinned = opened[0].args["seed_block"] if opened else None
    kept = state.seed_block, state.seed
    check_seed(record, part, (network.rounds, key), "seed", kept, random_source)
    if pinned is not None:
        requests = record.seeds.get((network.rounds.address, key), [])
        first = [e.args["target_block"] for e in requests if e.name == "SeedRequested"]
        part.same("seeds", "RoundOpened", "seed_block", pinned, first[0] if first else 0)
    other, kept = formulas.audit_key(key), (state.audit_block, state.audit_seed)
    check_seed(record, part, (network.results, other), "audit seed", kept, random_source)
    found = state.seed
    return None if found == ZERO_DIGEST else found


def audit_seed(record: Record, round_id: int, random_source: bool) -> bytes | None:
    """The round's audit seed: the captured one, else what a capture would have stored, which is
    what agents use until somebody captures it. None where it can't be known.

    `random_source`: as for `check_seeds`. The contract is then asked, as agents ask it. A source
    never changes an answer, so what it says now is what they were told.
    """
    state = record.current[round_id]
    found = state.audit_seed
    if found != ZERO_DIGEST:
        return found
    if not 0 < state.audit_block <= record.head.number:
        return None
    if random_source:
        network = record.network
        return network.early(network.results, "capture_audit_seed", record.job_id, round_id)
    key = formulas.audit_key(formulas.round_key(record.job_id, round_id))
    pinned = record.header(state.audit_block).hash
    return formulas.seed(pinned, key, record.chain_id, record.network.results.address)


def check_seed(
    record: Record,
    part: Part,
    named: tuple[Contract, bytes],
    what: str,
    kept: tuple[int, bytes] | None,
    random_source: bool,
) -> bytes:
    """One seed from its block's hash; the seed that was captured, zero where none was.

    `named`: contract and key. `kept`: the block it is pinned to and its value as the contract
    keeps them; None where it keeps them no more.
    """
    contract, key = named
    target: int | None = None
    captured = ZERO_DIGEST
    for event in record.seeds.get((contract.address, key), []):
        args = event.args
        if event.name == "SeedRequested":
            part.hold("seeds", target is None, what, "it was requested twice.")
            part.same(
                "seeds", what, "the block it is pinned to", args["target_block"], event.block + 1
            )
            target = args["target_block"]
        elif event.name == "SeedRearmed":
            part.same("seeds", what, "the block it was pinned to", args["old_target"], target)
            part.same("seeds", what, "its new block", args["new_target"], event.block + 1)
            late = event.block - (target or 0) > 256
            part.hold("seeds", late, what, f"it was pinned anew in block {event.block}, too early.")
            target = args["new_target"]
        else:
            part.same("seeds", what, "the block it was captured for", args["target_block"], target)
            captured = args["seed"]
    if kept is not None:
        block, found = kept
        part.same("seeds", what, "its block", block, target or 0)
        part.same("seeds", what, "its value", found, captured)
    if captured != ZERO_DIGEST and target and not random_source:
        pinned = record.header(target).hash
        wanted = formulas.seed(pinned, key, record.chain_id, contract.address)
        part.same("seeds", what, f"its value from block {target}", captured, wanted)
    return captured
