# SPDX-License-Identifier: Apache-2.0
"""A record follows from the one before it and from what it states; every lie about that is seen."""

from __future__ import annotations

from typing import Any

import pytest

from agents.gauntlet import replay
from agents.gauntlet.draw import NEW, RATED
from agents.gauntlet.ratings import FRESH
from agents.gauntlet.record import MAX_RATED, NodeRating, ScoreRecord
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.storage.cid import cid_of_bytes, digest_of
from tests.stage.memory.score_records import (
    LOSSES,
    NODES,
    OPTIONS,
    chain_of,
    honest_record,
    seed_of,
)

CHAIN = chain_of(6)


def rated(record: ScoreRecord) -> dict[int, NodeRating]:
    return {line.node: line for line in record.ratings}


def line_at(record: ScoreRecord, index: int, **changes: Any) -> ScoreRecord:
    scores = list(record.scores)
    scores[index] = scores[index].model_copy(update=changes)
    return record.model_copy(update={"scores": scores})


def test_a_chain_of_records_replays() -> None:
    for previous, record in zip([None, *CHAIN], CHAIN, strict=False):
        assert replay.replay(record, previous, OPTIONS) == []
        assert replay.replay(ScoreRecord.from_bytes(record.to_bytes()), previous, OPTIONS) == []


def test_the_digest_is_that_of_the_cid_on_chain() -> None:
    raw = CHAIN[0].to_bytes()
    assert replay.digest_of_record(raw) == digest_of(cid_of_bytes(raw))


def test_the_first_ratings_by_hand() -> None:
    """Three are evaluated; mu moves by 1 - gamma; the others stay fresh and wait one round more."""
    record = CHAIN[0]
    seen = {line.node for line in record.scores if line.evaluated}
    assert len(seen) == OPTIONS.evaluated
    for line in record.ratings:
        if line.node not in seen:
            assert (line.skill, line.sigma, line.mu) == (FRESH.skill, FRESH.sigma, 0)
            assert line.unseen == NEW + 1
            continue
        assigned, random, expected = LOSSES[line.node]
        ahead = assigned - expected - random
        assert line.mu == {1: 50_000, 0: 0, -1: -50_000}[(ahead > 0) - (ahead < 0)]
        assert line.unseen == 0
    best = max(seen, key=lambda node: LOSSES[node][1])
    assert rated(record)[best].skill == max(line.skill for line in record.ratings)


def test_what_was_expected_on_the_batches_is_taken_off() -> None:
    """A node whose batches are easy for everybody gains nothing by them."""
    plain = dict.fromkeys(NODES, (9_000_000, 5_000_000, 0))
    easy = dict.fromkeys(NODES, (9_000_000, 5_000_000, 4_000_000))
    assert {line.mu for line in honest_record(None, 1, plain).ratings} == {50_000, 0}
    assert {line.mu for line in honest_record(None, 1, easy).ratings} == {0}


def test_the_draw_is_the_seeds_and_favours_newcomers_only() -> None:
    """When a node was evaluated last tells nobody whether it will be."""
    record = CHAIN[2]
    again = replay.drawn(seed_of(3), CHAIN[1], NODES, [], OPTIONS)
    assert {line.node for line in record.scores if line.evaluated} == set(again[0])
    assert replay.tickets_of(None) == {}
    for record in CHAIN:
        assert replay.tickets_of(record) == {
            line.node: RATED if line.sigma < FRESH.sigma else 1 + line.unseen
            for line in record.ratings
        }
    assert {line.unseen for line in CHAIN[0].ratings} == {0, NEW + 1}
    assert len({line.unseen for line in CHAIN[-1].ratings}) > 1
    assert set(replay.tickets_of(CHAIN[-1]).values()) == {RATED}


def test_who_was_never_evaluated_has_a_quarter_of_the_seats_beside_who_was() -> None:
    """Else those who join and never work would have all of them."""
    options = Gauntlet(evaluated=8)
    rated = tuple(range(1, 13))
    first = honest_record(None, 1, dict.fromkeys(rated, (1, 1, 0)), nodes=rated, options=options)
    second = honest_record(first, 2, dict.fromkeys(rated, (1, 1, 0)), nodes=rated, options=options)
    # None waits for a rating longer than the first rounds take.
    assert len({line.node for line in second.ratings if line.sigma < FRESH.sigma}) == len(rated)
    crowd = tuple(range(100, 160))
    for number in range(20):
        due, last = replay.drawn(seed_of(number), second, rated + crowd, [], options)
        assert len(due) == 8 and len(set(due) & set(crowd)) == 2 and not last
        due, last = replay.drawn(seed_of(number), second, rated, (*crowd, 1_000), options)
        assert len(due) == 8 == len(last)
    few = replay.drawn(seed_of(1), second, rated[:3] + crowd, [], options)[0]
    assert set(few) > set(rated[:3]) and len(few) == 8  # no seat stays empty


def test_a_round_in_which_nothing_was_sent_is_no_round_of_waiting() -> None:
    nodes = tuple(range(1, 40))
    silent = dict.fromkeys(nodes[20:], "not committed in time")
    losses = dict.fromkeys(nodes, (1, 1, 0))
    record = honest_record(None, 1, losses, nodes=nodes)
    for number in (2, 3):
        before, record = record, honest_record(record, number, losses, silent, nodes)
        for node, line in rated(record).items():
            if line.unseen and line.sigma == FRESH.sigma:
                assert line.unseen == rated(before)[node].unseen + (node not in silent)
    waits = {n: line for n, line in rated(record).items() if line.sigma == FRESH.sigma}
    away = next(node for node, line in waits.items() if line.unseen == NEW + 3)
    rest = tuple(node for node in nodes if node != away)
    left = []
    for number in range(4, 8):
        record = honest_record(record, number, losses, nodes=rest)
        left.append(rated(record)[away].unseen if away in rated(record) else None)
    assert left == [NEW + 2, NEW + 1, None, None]


def test_an_evaluation_counts_for_the_rounds_in_which_a_node_was_not_drawn() -> None:
    """As if it had shown the same in each of them; from the round on in which it came."""
    waited = 0
    for previous, record in zip([None, *CHAIN], CHAIN, strict=False):
        before = rated(previous) if previous else {}
        for line in record.scores:
            if not line.evaluated or line.shown != 1_000_000:
                continue
            old = before.get(line.node)
            rounds = 1 if old is None else 1 + old.unseen - (NEW if old.unseen > NEW else 0)
            mu = (old.mu if old else 0) / 1_000_000
            kept = 0.95**rounds
            waited = max(waited, rounds)
            found = rated(record)[line.node].mu / 1_000_000
            assert found == pytest.approx(kept * mu + 1 - kept, abs=1e-5)
    assert waited > 1


def test_a_fall_stands_for_twice_the_usual_wait_more() -> None:
    """Five nodes, three evaluated: two rounds lie between two evaluations."""
    fallen = 0
    worse = dict.fromkeys(NODES, (0, 5_000_000, 0))
    record = honest_record(CHAIN[-1], 7, worse)
    for line in record.scores:
        old = rated(CHAIN[-1])[line.node]
        if line.evaluated and old.mu > 0:
            kept = max(0.5, 0.95 ** (1 + old.unseen + 2))
            moved = kept * old.mu - (1 - kept) * 1_000_000
            assert rated(record)[line.node].mu == pytest.approx(moved, abs=10)
            fallen += 1
    assert fallen > 0


def test_who_is_missing_ranks_last_and_has_no_share() -> None:
    first = honest_record(None, 1, LOSSES)
    strong = {n for n, line in rated(first).items() if line.mu > 0}
    assert strong
    failures = dict.fromkeys(strong, "not committed in time")
    record = honest_record(first, 2, LOSSES, failures)
    assert replay.replay(record, first, OPTIONS) == []
    by_node = {line.node: line for line in record.scores}
    for node in strong:
        assert by_node[node].score == 0
        assert by_node[node].evaluated
        assert by_node[node].assigned is None
        # Three quarters of a positive mu, then the indicator -1.
        kept = rated(first)[node].mu * 750_000 // 1_000_000
        assert rated(record)[node].mu == (950_000 * kept - 50_000 * 1_000_000) // 1_000_000
        assert rated(record)[node].skill < rated(first)[node].skill


def test_a_crowd_of_absent_nodes_does_not_swell_the_match() -> None:
    nodes = tuple(range(1, 60))
    failures = dict.fromkeys(nodes[4:], "not committed in time")
    record = honest_record(None, 1, dict.fromkeys(nodes, (1, 1, 0)), failures, nodes)
    assert sum(line.evaluated for line in record.scores) == 2 * OPTIONS.evaluated
    assert replay.replay(record, None, OPTIONS) == []


def test_only_who_passed_in_this_round_has_a_share() -> None:
    """A sync sample that fails costs the round's share although the payload was measured."""
    record = CHAIN[-1]
    index, line = max(enumerate(record.scores), key=lambda pair: pair[1].score)
    assert line.score > 0
    failed = line_at(record, index, failure="no sync sample posted").scores
    scores = replay.scores_of(failed, record.ratings, OPTIONS)
    assert scores[index] == 0
    assert sum(scores) <= 65_535


def test_a_rating_outlasts_an_absence_but_not_any() -> None:
    record = CHAIN[-1]
    away = NODES[0]
    rest = tuple(node for node in NODES if node != away)
    for number in range(7, 7 + replay.FORGOTTEN_AFTER + 3):
        before = record
        # The draws of these rounds are of other nodes, so no loss of `away` is needed.
        record = honest_record(before, number, LOSSES, nodes=rest)
        if away in rated(record):
            assert rated(record)[away].mu == rated(CHAIN[-1])[away].mu
            assert rated(record)[away].skill == rated(CHAIN[-1])[away].skill
            assert rated(record)[away].unseen == rated(before)[away].unseen + 1
    assert away not in rated(record)
    assert rated(honest_record(record, 200, LOSSES))[away].unseen in (0, NEW + 1)


def test_there_is_room_for_so_many_ratings_and_those_who_are_here_come_first() -> None:
    crowd = [
        NodeRating(
            node=n, skill=FRESH.skill, sigma=FRESH.sigma, mu=1, value=0, extra=0, unseen=n % 90
        )
        for n in range(1000, 1000 + MAX_RATED)
    ]
    full = CHAIN[0].model_copy(update={"ratings": crowd})
    after = replay.follow(full, CHAIN[1].scores, OPTIONS)
    assert len(after) == MAX_RATED
    assert set(NODES) <= {line.node for line in after}
    dropped = {line.node for line in crowd} - {line.node for line in after}
    assert {full.ratings[n - 1000].unseen for n in dropped} == {89}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"previous": "00" * 32}, "does not name"),
        ({"job": 2}, "another job or validator"),
        ({"verifier": 22}, "another job or validator"),
        ({"position": 9}, "does not come after"),
        ({"round": 1}, "does not come after"),
        ({"audit_seed": "33" * 32}, "took part"),
    ],
)
def test_a_broken_chain_is_seen(changes: dict[str, Any], says: str) -> None:
    lie = CHAIN[2].model_copy(update=changes)
    assert any(says in sentence for sentence in replay.replay(lie, CHAIN[1], OPTIONS))


@pytest.mark.parametrize("field", ["skill", "sigma", "mu", "unseen"])
def test_a_rating_that_does_not_follow_is_seen(field: str) -> None:
    ratings = list(CHAIN[3].ratings)
    ratings[1] = ratings[1].model_copy(update={field: getattr(ratings[1], field) + 3})
    lie = CHAIN[3].model_copy(update={"ratings": ratings})
    assert any(sentence.startswith(field) for sentence in replay.replay(lie, CHAIN[2], OPTIONS))


def test_a_score_that_does_not_follow_is_seen() -> None:
    index = max(range(len(NODES)), key=lambda i: CHAIN[4].scores[i].score)
    worst = min(range(len(NODES)), key=lambda i: CHAIN[4].scores[i].score)
    moved = CHAIN[4].scores[index].score // 2
    lie = line_at(line_at(CHAIN[4], index, score=moved), worst, score=moved)
    said = replay.replay(lie, CHAIN[3], OPTIONS)
    assert len([sentence for sentence in said if "score of node" in sentence]) == 2


def test_a_favourite_left_out_of_the_match_or_out_of_the_ratings_is_seen() -> None:
    index = next(i for i, line in enumerate(CHAIN[4].scores) if line.evaluated)
    hidden = line_at(CHAIN[4], index, evaluated=False, assigned=None, random=None, expected=None)
    assert any("took part" in sentence for sentence in replay.replay(hidden, CHAIN[3], OPTIONS))
    shorter = CHAIN[4].model_copy(update={"ratings": list(CHAIN[4].ratings)[1:]})
    assert any("rat" in sentence for sentence in replay.replay(shorter, CHAIN[3], OPTIONS))


def test_other_options_give_another_record() -> None:
    """Options are the job's, not the validator's."""
    assert replay.replay(CHAIN[3], CHAIN[2], Gauntlet(evaluated=3, gamma=0.9)) != []


def test_a_first_record_names_none_and_a_later_one_needs_its_own() -> None:
    assert replay.replay(CHAIN[1], None, OPTIONS)
    assert replay.replay(CHAIN[2], CHAIN[0], OPTIONS)
