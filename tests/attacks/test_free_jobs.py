# SPDX-License-Identifier: Apache-2.0
"""Own attacks: jobs that pay next to nothing, or only promise to, and keep others' agents busy.

Mallory wants work for nothing. Her job is always the older one, it is live for 100,000 rounds, and
an honest sponsor's job pays a thousand times as much. The agents are whole ones: a trainer, two
verifiers and two aggregators, none with a job in its settings.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from agents.jobs import at_stake, choice
from agents.jobs.publish import Published, Terms
from agents.protocol.numbers import Violation
from agents.protocol.slashing import DEFAULTS
from agents.protocol.view import View
from agents.rounds.plan import Plan
from agents.rounds.work import Work
from agents.storage.cid import cid_of_bytes
from scripts._net.deployment import ZOO
from tests.stage.chain.crowd import Crowd
from tests.stage.chain.people import CHALLENGE, DISPUTED, TERMS, Node, People, share
from tests.stage.memory.honest_round import TinyJob, make_tiny_job

ROUNDS = 2
FREE = replace(TERMS, reward_per_round=ZOO)  # the least that a round may pay
CHECKERS = {"vic": "verifier", "vera": "verifier", "abe": "aggregator", "ada": "aggregator"}


def create(people: People, sponsor: str, terms: Terms, published: Published, rounds: int) -> int:
    """A job of a new sponsor, funded for two rounds more than are played."""
    funds = (ROUNDS + 2) * terms.reward_per_round
    encoded = list(terms.encode(published))
    encoded[3] = rounds
    return people.create_job(people.person(sponsor, funds), tuple(encoded), funds)


def all_work(crowd: Crowd) -> None:
    crowd.join("ann", "trainer")
    for name, role in CHECKERS.items():
        crowd.join(name, role)


def test_free_job_is_older_and_never_ends__the_trainer_works_for_the_one_that_pays(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob
) -> None:
    free = create(people, "mallory", FREE, tiny.published, 100_000)
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    all_work(crowd)
    crowd.until(lambda: crowd.finalized(free) + crowd.finalized(paying) >= ROUNDS)
    assert people.gain(ann) == ROUNDS * share(1, 1)
    assert crowd.finalized(paying) == ROUNDS


def test_sixty_four_newer_jobs__hide_no_older_one_that_pays(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob
) -> None:
    """Agents once looked at the 64 newest jobs. Creating a job costs gas only."""
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    mallory = people.person("mallory")
    for _ in range(64):
        people.create_job(mallory, FREE.encode(tiny.published), 0)
    free = int(people.chain.call(people.jobs, "job_count"))
    people.give(mallory, FREE.reward_per_round)
    people.fund(mallory, free, FREE.reward_per_round)
    all_work(crowd)
    crowd.until(lambda: crowd.finalized(free) + crowd.finalized(paying) >= 1)
    assert people.gain(ann) == share(1, 1)


def test_job_that_promises_much_and_never_ends_a_round__loses_its_trainer_after_three(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob
) -> None:
    """Mallory offers five times the pay. Her rounds get no result, and her money comes back."""
    bait = replace(TERMS, reward_per_round=5 * TERMS.reward_per_round)
    empty = create(people, "mallory", bait, tiny.published, 100_000)
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    crowd.join("ann", "trainer")
    for name, role in CHECKERS.items():
        crowd.join(name, role, job_id=paying)  # as if nobody could propose there
    crowd.until(lambda: crowd.finalized(paying) >= ROUNDS)
    worked = [did for name, did in crowd.did if name == "ann" and did.startswith("committed")]
    assert len(worked) == 3 + ROUNDS
    assert crowd.finalized(empty) == 0
    assert "its last 3 rounds with work ended without a result" in crowd.said("ann")
    assert people.gain(ann) == ROUNDS * share(1, 1)


def test_both_jobs_have_trainers__verifiers_and_aggregators_serve_both(
    crowd: Crowd, people: People, ann: Node, bob: Node, tiny: TinyJob
) -> None:
    """What bob wants to do for next to nothing is checked and paid like the rest."""
    free = create(people, "mallory", FREE, tiny.published, 100_000)
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    people.chain.send(bob.operator, people.registry, "set_active", bob.node_id, True)
    all_work(crowd)
    crowd.join("bob", "trainer", job_id=free)
    crowd.until(lambda: min(crowd.finalized(free), crowd.finalized(paying)) >= 1)
    assert people.gain(bob) >= share(1, 1, FREE)
    for name in ("vic", "vera"):
        served = [did for who, did in crowd.did if who == name and did.startswith("attested")]
        assert {free, paying} == {int(did.split("job ")[1].rstrip(")")) for did in served}


def test_ten_free_jobs_and_room_for_one__the_one_that_pays_is_served(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mallory opens more jobs than an agent serves at a time, all before the honest one. It is one
    of the three hours of four in which a checker gives its only place to the best promise; in the
    others it draws (tests/agents/jobs/test_choice.py)."""
    monkeypatch.setattr(choice, "_places", lambda *_: 0)
    for i in range(5):
        create(people, f"mallory {i}", FREE, tiny.published, 100_000)
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    crowd.join("ann", "trainer", max_jobs=1)
    for name, role in CHECKERS.items():
        crowd.join(name, role, max_jobs=1)
    crowd.until(lambda: crowd.finalized(paying) >= 1)
    assert people.gain(ann) == share(1, 1)


def test_best_paid_job_has_no_spec__is_refused_and_holds_up_nobody(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob
) -> None:
    nowhere = replace(tiny.published, spec_cid=cid_of_bytes(b"published nowhere"))
    bait = replace(TERMS, reward_per_round=5 * TERMS.reward_per_round)
    create(people, "mallory", bait, nowhere, 100_000)
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    all_work(crowd)
    crowd.until(lambda: crowd.finalized(paying) >= 1)
    assert people.gain(ann) == share(1, 1)
    assert "its spec can't be used" in crowd.said("ann")


def test_work_that_nobody_can_do_in_time__is_begun_twice_and_not_again(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mallory offers five times the pay for rounds whose COMMIT is over before the work is done;
    without a commitment her reward goes back to her."""
    bait = replace(TERMS, reward_per_round=5 * TERMS.reward_per_round)
    hasty = create(people, "mallory", bait, tiny.published, 100_000)
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    all_work(crowd)
    produce, begun = crowd.agents["ann"].produce, []  # type: ignore[attr-defined]

    def slow(view: View, plan: Plan, node: int) -> Work | None:
        begun.append(view.job_id)
        if view.job_id == hasty:
            people.chain.warp(TERMS.commit_s + 1)
        return produce(view, plan, node)  # type: ignore[no-any-return]

    monkeypatch.setattr(crowd.agents["ann"], "produce", slow)
    crowd.until(lambda: crowd.finalized(paying) >= ROUNDS)
    assert begun == [hasty] * 2 + [paying] * ROUNDS
    assert "this node was too late with its work of rounds 1 and 2" in crowd.said("ann")
    assert people.gain(ann) == ROUNDS * share(1, 1)


def test_only_a_free_job_is_live__a_trainer_with_a_floor_waits_and_says_why(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob
) -> None:
    create(people, "mallory", FREE, tiny.published, 100_000)
    crowd.join("ann", "trainer", least_pay=10)
    for _ in range(3):
        assert crowd.step("ann") is None
        people.chain.mine()
    assert "an hour of its work pays 1.02 ZOO, and least_pay asks for 10" in crowd.said("ann")
    assert people.gain(ann) == 0


@pytest.mark.parametrize("configured", [False, True])
def test_a_slash_takes_nothing__nobody_trains_until_it_does_again(
    crowd: Crowd,
    people: People,
    ann: Node,
    tiny: TinyJob,
    monkeypatch: pytest.MonkeyPatch,
    configured: bool,
) -> None:
    """Three bought members empty a row of the slashing table. `configured`: ann has no choice."""
    monkeypatch.setattr(at_stake, "_STAKES_S", 0.0)
    usual = DEFAULTS[Violation.INVALID]

    def decide(bps: int) -> None:
        row = astuple(replace(usual, bps=bps))
        call = (people.registry, "set_penalty", (int(Violation.INVALID), row))
        people.decide(call, governance=True)

    decide(0)
    job = create(people, "mallory", TERMS, tiny.published, 100_000)
    crowd.join("ann", "trainer", **({"job_id": job} if configured else {}))
    for _ in range(8):
        crowd.step("ann")
        people.chain.mine()
    assert not any("committed" in did for _, did in crowd.did)
    assert "its terms don't deter cheats: a finding of INVALID takes nothing" in crowd.said("ann")
    decide(usual.bps)
    for name, role in CHECKERS.items():
        crowd.join(name, role)
    crowd.until(lambda: crowd.finalized(job) >= 1)
    assert people.gain(ann) == share(1, 1)


@pytest.mark.parametrize("configured", [False, True])
def test_riders_would_be_paid__a_trainer_stays_away_until_its_operator_accepts_them(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob, tmp_path: Path, configured: bool
) -> None:
    """Nobody else has a node's data, so nobody does its work again. `configured`: ann has no
    choice; who has one says that it may take a job which hides nothing of her data."""
    screened = make_tiny_job(tiny.store, access="local", verify="screening")
    job = create(people, "mallory", TERMS, screened.published, ROUNDS + 2)
    named = {"job_id": job} if configured else {}
    folder = tmp_path / "own"
    own = {"local_data": folder, "accept_no_privacy": not configured}
    folder.mkdir()
    (folder / "a.txt").write_text("ann's own text\n" * 400)
    for name, role in CHECKERS.items():
        crowd.join(name, role)
    crowd.join("ann", "trainer", trainer=own, **named)
    crowd.until(lambda: "nobody does its work again" in crowd.said("ann"))
    for _ in range(8):
        crowd.step("ann")
        people.chain.mine()
    assert not any("committed" in did for _, did in crowd.did)
    assert "set trainer.accept_riders: true to train in it all the same" in crowd.said("ann")
    assert people.gain(ann) == 0
    crowd.join("ann", "trainer", trainer={**own, "accept_riders": True}, **named)
    crowd.until(lambda: crowd.finalized(job) >= 1)
    assert people.gain(ann) == share(1, 1)


@pytest.mark.parametrize("configured", [False, True])
def test_node_that_committed_goes_elsewhere__reveals_first_and_loses_nothing(
    crowd: Crowd, people: People, ann: Node, bob: Node, tiny: TinyJob, configured: bool
) -> None:
    """A better job appears while ann's commitment waits for bob, who never commits. She restarts,
    too; `configured`: with the better job in her settings, so that she has no choice."""
    people.chain.send(bob.operator, people.registry, "set_active", bob.node_id, True)
    free = create(people, "mallory", FREE, tiny.published, 100_000)
    all_work(crowd)

    def committed() -> bool:
        return any(name == "ann" and did.startswith("committed:") for name, did in crowd.did)

    crowd.until(committed)
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    crowd.did.clear()
    crowd.join("ann", "trainer", **({"job_id": paying} if configured else {}))
    crowd.until(committed)
    own = [did for name, did in crowd.did if name == "ann" and ": round" in did]
    first, then = ("", "") if configured else (f" (job {free})", f" (job {paying})")
    assert own[:2] == [f"revealed: round 1{first}", f"committed: round 1{then}"]
    assert people.chain.call(people.rounds, "is_revealed", free, 1, ann.node_id)
    crowd.until(lambda: min(crowd.finalized(free), crowd.finalized(paying)) >= 1)
    assert people.bonded(ann) == ann.stake
    assert people.gain(ann) == share(1, 1, FREE) + share(1, 1)


def test_committee_has_another_job_in_its_settings__decides_a_dispute_here_too(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob
) -> None:
    """Mallory challenges a right result in a job that no member has in its settings, and hopes that
    nobody rules on it. In a third job a result is disputed that nobody can recompute."""
    other = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    broken = create(
        people,
        "heidi",
        TERMS,
        replace(tiny.published, spec_cid=cid_of_bytes(b"published nowhere")),
        ROUNDS + 2,
    )
    job = create(people, "frank", TERMS, tiny.published, ROUNDS + 2)
    mallory = people.person("mallory", 2 * TERMS.challenge_bond)
    people.job = broken
    people.train(ann)
    people.offer({ann: 1})
    people.challenge(mallory)
    crowd.join("ann", "trainer", job_id=job)
    for name in ("abe", "ada"):
        crowd.join(name, "aggregator", job_id=job)
    crowd.until(lambda: int(people.chain.call(people.rounds, "phase", job, 1)) == CHALLENGE)
    people.job, people.round = job, 1
    people.challenge(mallory)
    before = people.wealth(mallory)
    crowd.agents.clear()
    for number in range(3):
        crowd.join_member(number, job_id=other)
    crowd.until(lambda: people.phase != DISPUTED)
    assert people.phase == CHALLENGE
    assert people.wealth(mallory) == before
    assert "cannot_judge" in crowd.said("member 0")


def test_sixty_jobs_that_are_funded_and_open__a_look_asks_about_some_of_them(
    crowd: Crowd, people: People, ann: Node, tiny: TinyJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mallory has her money back when she cancels. Agents asked about each of her jobs at each look
    with news: of a thousand and more the answers that a look keeps were not enough, and each job
    took a request of its own. The job that pays is served all the same, and a better one that
    comes later is found at once."""
    mallory, more = people.person("mallory"), 60
    for _ in range(more):
        people.give(mallory, FREE.reward_per_round)
        job = people.create_job(mallory, FREE.encode(tiny.published), FREE.reward_per_round)
        people.chain.send(people.faucet, people.rounds, "open_round", job)
    paying = create(people, "grace", TERMS, tiny.published, ROUNDS + 2)
    crowd.join("ann", "trainer")
    chain, asked = crowd.running["ann"].chain, []
    call_many = chain.call_many

    def counted(calls: list[Any]) -> list[Any]:
        asked.extend(arguments[0] for _, view, arguments in calls if view == "escrow")
        return call_many(calls)

    monkeypatch.setattr(chain, "call_many", counted)
    before = chain.traffic.requests
    crowd.step("ann")
    assert chain.traffic.requests - before < more // 2, "their rounds come together"
    assert sorted(asked) == [*range(1, paying + 1)]
    for _ in range(6):
        people.chain.mine()
        asked.clear()
        crowd.step("ann")
        assert len(asked) <= 9 + 32  # the best eight, the one it is in, and some in turn
    dear = replace(TERMS, reward_per_round=2 * TERMS.reward_per_round)
    better = create(people, "heidi", dear, tiny.published, ROUNDS + 2)
    asked.clear()
    for _ in range(6):
        people.chain.mine()
        crowd.step("ann")
    assert better in asked
    for job in (paying, better):
        assert ("ann", f"revealed: round 1 (job {job})") in crowd.did


def test_jobs_that_nobody_funds__a_members_look_costs_no_more(
    crowd: Crowd, people: People, tiny: TinyJob
) -> None:
    """It asked the ledger of each of them: 1,000 jobs, which cost gas alone, took 1,021 requests
    and 8 seconds of a member's first look, and 32 calls more of each later one."""

    def asked() -> int:
        """By a member that has just been started, in three looks."""
        crowd.join_member(0)
        for _ in range(3):
            crowd.step("member 0")
            people.chain.mine()
        return sum(crowd.running["member 0"].chain.traffic.calls().values())

    before, more = asked(), 40
    mallory = people.person("mallory")
    for _ in range(more):
        people.create_job(mallory, FREE.encode(tiny.published), 0)
    # Logs of more blocks may take a request more.
    assert asked() < before + more // 4
