# SPDX-License-Identifier: Apache-2.0
"""Attacks on a job that is paid by scores: verifiers' vectors, proposals, and the consensus.

The control of all is the same rounds with the attacker's verifiers saying what they measure. Its
trainers come in both, and their work is worth nothing unless an attack says otherwise. Whoever
reveals what it has not measured is overruled, as the committee's agents do
(`agents/gauntlet/disputes.py`); who reveals nothing is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from agents.protocol.numbers import BPS, SCALE, Phase
from scripts._attacks.attack import Attack, Deed, Outcome, outcome
from scripts._attacks.deeds import double_the_verifiers
from scripts._attacks.embedded import BLOCK_S
from scripts._attacks.market import SPEC, Market, Player
from scripts._attacks.refusal import refused
from scripts._attacks.scoring_round import Scores, ScoringRound, scored

_DIFFER = Fraction(1, 10)
"""By how much, up or down, the honest verifiers measure a node differently where they do."""


def _gang(market: Market) -> list[Player]:
    return [*market.evil, *market.evil_verifiers]


def by_verifiers(
    market: Market, deed: Deed, note: str = "", instead: Deed = scored, staked: int = 1
) -> Outcome:
    """What the attacker's verifiers and trainers win together; nothing where its share is less
    than one verifier. `staked`: how many times the usual stake its verifiers have."""
    if not market.evil_verifiers:
        return Outcome(Fraction(0), Fraction(0), 0, "takes a verifier")
    capital = market.numbers.stake * len(market.evil)
    capital += staked * market.numbers.verifier_stake * len(market.evil_verifiers)
    return outcome(market, deed, instead, _gang(market), capital, note=note)


def vectors(round_: ScoringRound, evil: Scores | None) -> dict[Player, Scores]:
    """The truth of honest verifiers, and what the attacker's say; None: nothing."""
    market = round_.market
    given = dict.fromkeys(market.evil_verifiers, evil) if evil is not None else {}
    return {**given, **dict.fromkeys(market.honest_verifiers, round_.truth)}


def lift_a_friend(market: Market) -> Outcome:
    """Gives all scores to the attacker's trainer: the median is what the others say, the liar's
    cut goes, and a fifth of its stake."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market)
        round_.finish(vectors(round_, round_.lie), market.evil_verifiers)

    return by_verifiers(market, deed)


def score_first(market: Market) -> Outcome:
    """Commits to such a vector in the first second, so that the others are too late: the time to
    commit runs by the round's clock."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market)
        given = vectors(round_, round_.lie)
        for verifier in market.evil_verifiers:
            round_.commit(verifier, round_.digest(verifier, given[verifier]))
        market.chain.wait(market.numbers.terms.score_commit_s + 1)
        for verifier in market.honest_verifiers:
            round_.commit(verifier, round_.digest(verifier, given[verifier]))
        for verifier, scores in given.items():
            round_.reveal(verifier, scores)
        round_.close(given)
        round_.pay()
        round_.overrule(market.evil_verifiers)

    return by_verifiers(market, deed)


def give_next_to_nothing(market: Market) -> Outcome:
    """Gives one unit to one node and nothing to the others, to agree with everybody."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market)
        round_.finish(vectors(round_, {market.honest[0]: 1}), market.evil_verifiers)

    return by_verifiers(market, deed)


def score_a_silent_node(market: Market) -> Outcome:
    """A trainer that was good before does not reveal, and all verifiers score it as they did: it
    has no consensus, and no share that nobody else gets."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market, absent=market.evil[:1])
        known = [market.evil[0], *market.honest]
        given = dict.fromkeys(market.verifiers, dict.fromkeys(known, SCALE // len(known)))
        round_.score(given)
        round_.not_the_consensus(round_.row(given[market.verifiers[0]]))
        round_.close(given)
        round_.pay()

    return by_verifiers(market, deed)


def copy_a_vector(market: Market) -> Outcome:
    """Measures nothing, and sends an honest verifier's commitment and its opening."""

    def deed(market: Market) -> None:
        round_, victim = ScoringRound(market), market.honest_verifiers[0]
        stolen = round_.digest(victim, round_.truth)
        for verifier in (*market.evil_verifiers, victim):
            round_.commit(verifier, stolen)
        for verifier in market.honest_verifiers[1:]:
            round_.commit(verifier, round_.digest(verifier, round_.truth))
        for verifier in market.honest_verifiers:
            round_.reveal(verifier, round_.truth)
        for verifier in market.evil_verifiers:
            opening = round_.opening(verifier, round_.truth)[:-1]
            sender, salt = verifier.operator, round_.salt(victim)
            round_.refused("scores: bad opening", sender, "reveal_scores", *opening, salt)
        round_.wait_for_reveals()
        round_.close(vectors(round_, None))
        round_.pay()

    return by_verifiers(market, deed)


def read_then_commit(market: Market) -> Outcome:
    """Waits for the others' vectors before it commits to its own: it is too late."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market)
        round_.score(vectors(round_, None))
        for verifier in market.evil_verifiers:
            digest = round_.digest(verifier, round_.lie)
            place = (*round_.place, verifier.node, digest)
            round_.refused("scores: too late", verifier.operator, "commit_scores", *place)
        round_.close(vectors(round_, None))
        round_.pay()

    return by_verifiers(market, deed)


def stay_silent(market: Market) -> Outcome:
    """Commits, reads the others' vectors and does not open its own."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market)
        given = vectors(round_, round_.lie)
        for verifier, scores in given.items():
            round_.commit(verifier, round_.digest(verifier, scores))
        for verifier in market.honest_verifiers:
            round_.reveal(verifier, given[verifier])
        round_.wait_for_reveals()
        round_.close(vectors(round_, None))
        round_.pay()

    return by_verifiers(market, deed)


def commit_in_the_last_second(market: Market) -> Outcome:
    """Commits when the time to do so ends, and stays silent, to hold the round up: it waits for
    the reveal window and no longer."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market)
        for verifier in market.honest_verifiers:
            round_.commit(verifier, round_.digest(verifier, round_.truth))
        by = int(round_.state.commit_deadline)
        market.chain.wait(by - market.chain.now)
        for verifier in market.evil_verifiers:
            round_.commit(verifier, round_.digest(verifier, round_.lie))
        market.chain.wait()
        for verifier in market.honest_verifiers:
            round_.reveal(verifier, round_.truth)
        round_.wait_for_reveals()
        if market.chain.now > by + market.numbers.terms.score_reveal_s + 1 + BLOCK_S:
            raise AssertionError("A silent verifier held the round up for longer.")
        round_.close(vectors(round_, None))
        round_.pay()

    return by_verifiers(market, deed)


def hurry_a_result(market: Market) -> Outcome:
    """Has a result proposed and attested before anybody has scored: it is not final before the
    scores are closed."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market)
        arrays = market.propose(round_.number, dict.fromkeys(market.trainers, 1))
        market.attest(round_.number, market.verifiers)
        final = (*round_.place, *arrays)
        sender = market.stranger_address
        refused(market.chain, "scores: open", sender, "TrainingResults", "finalize", *final)
        given = round_.dutiful()
        round_.score(given)
        refused(market.chain, "scores: open", sender, "TrainingResults", "finalize", *final)
        round_.close(given)
        market.finalize(round_.number, arrays)

    return by_verifiers(market, deed)


def bring_another_consensus(market: Market) -> Outcome:
    """Brings a consensus that lifts the attacker's trainer, or that of other nodes."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market)
        given = round_.dutiful()
        round_.score(given)
        right = round_.consensus(given)
        lifted = [a + b for a, b in zip(right, round_.row({market.evil[0]: 1}), strict=True)]
        round_.not_the_consensus(lifted)
        nodes, weights = market.snapshot(round_.number)
        others = (*round_.place, nodes[::-1], weights[::-1], right[::-1])
        sender = market.stranger_address
        round_.refused("scores: wrong snapshot", sender, "close_scoring", *others)
        round_.close(given)
        round_.pay()

    return by_verifiers(market, deed)


def score_a_void_round(market: Market) -> Outcome:
    """Keeps the scores of a round until it is void, so that the next round's merge changes under
    everybody's feet."""

    def void(market: Market) -> ScoringRound:
        round_ = ScoringRound(market)
        round_.score(round_.dutiful())
        for _ in range(2):
            market.pass_phase(round_.number, Phase.AGGREGATE)
        if market.phase(round_.number) != Phase.VOID:
            raise AssertionError("A round without a proposal is not void.")
        return round_

    def unscored(market: Market) -> None:
        void(market)

    def deed(market: Market) -> None:
        round_ = void(market)
        call = (*market.snapshot(round_.number), round_.consensus(round_.dutiful()))
        sender, place = market.stranger_address, round_.place
        round_.refused("scores: round not running", sender, "close_scoring", *place, *call)

    return by_verifiers(market, deed, "nobody proposes", unscored)


# -- proposals and the sponsor -----------------------------------------------------------------


def _proposed(
    market: Market, pay: Mapping[Player, int], attackers: Sequence[Player | str]
) -> Outcome:
    """A round that is scored by all, with this proposal."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market)
        given = round_.dutiful()
        round_.score(given)
        round_.close(given)
        arrays = market.propose(round_.number, pay)
        market.attest(round_.number, market.verifiers)
        market.finalize(round_.number, arrays)

    capital = market.numbers.aggregator_stake
    return outcome(market, deed, scored, attackers, capital, note="the consensus pays all the same")


def omit_a_node(market: Market) -> Outcome:
    """The sponsor's friend proposes a result without a node, so that its share goes back to the
    sponsor."""
    pay = dict.fromkeys((*market.evil, *market.honest[1:]), 1)
    return _proposed(market, pay, [market.sponsor])


def favour_a_friend(market: Market) -> Outcome:
    """A proposer gives its friend nearly all contributions."""
    pay = {**dict.fromkeys(market.trainers, 1), market.evil[0]: 2**127}
    return _proposed(market, pay, market.evil)


def open_the_first_round(market: Market) -> Outcome:
    """Pays for a job's first round and opens it before its sponsor has adopted scoring: what it
    paid is the sponsor's, who cancels the job and makes another."""
    intruder, least = market.stranger, market.settings.least_reward

    def created(market: Market) -> int:
        return market.create_job(market.sponsor, rounds=10, funded=0, reward_per_round=least)

    def deed(market: Market) -> None:
        job, chain = created(market), market.chain
        refused(chain, "pool: escrow too low", intruder, "TrainingRounds", "open_round", job)
        chain.send(intruder, "RewardPool", "fund", job, market.sponsor, SPEC, least)
        chain.send(intruder, "TrainingRounds", "open_round", job)
        windows = market.numbers.terms.score_windows
        late = (market.sponsor, "ScoreConsensus", "adopt", job, *windows)
        refused(chain, "scores: round opened", *late)
        chain.send(market.sponsor, "TrainingJobs", "cancel_job", job)
        chain.wait(market.numbers.terms.commit_s + 2 * 86_400)
        chain.send(market.stranger_address, "TrainingRounds", "advance", job, 1)
        chain.send(market.sponsor, "RewardPool", "refund", job)
        other = created(market)
        chain.send(market.sponsor, "ScoreConsensus", "adopt", other, *windows)

    return outcome(market, deed, lambda market: None, [intruder], least)


# -- what a third of the verifiers can still do ------------------------------------------------


def _at_the_cap(market: Market, play: Callable[[], Outcome]) -> Outcome:
    """The same with the attacker's verifiers at twice the others' stake, which is half of all
    weight if they are a third."""
    with market.attack():
        double_the_verifiers(market)
        return play()


def _rounds(count: int, lies: Callable[[int], bool], silent: bool = False) -> Deed:
    """So many rounds; in those that `lies` names the attacker's verifiers lie, or are `silent`."""

    def deed(market: Market) -> None:
        lied = []
        for place in range(count):
            round_ = ScoringRound(market, adopted=place > 0)
            if not lies(place):
                round_.finish(vectors(round_, round_.truth))
            elif silent:
                round_.finish(vectors(round_, None))
            else:
                round_.finish(vectors(round_, round_.lie))
                lied.append(round_)
        for round_ in lied:  # the committee takes a day, rounds take less
            round_.overrule(market.evil_verifiers)

    return deed


def _tie(market: Market, count: int, lies: Callable[[int], bool], note: str) -> Outcome:
    """The better of a lie, which is overruled, and of silence, which is not."""

    def play() -> Outcome:
        instead = _rounds(count, lambda place: False)
        ways = (_rounds(count, lies, silent) for silent in (True, False))
        found = [by_verifiers(market, deed, note, instead, staked=2) for deed in ways]
        return max(found, key=lambda one: one.profit)

    return _at_the_cap(market, play)


def tie_the_scores(market: Market) -> Outcome:
    """With twice the others' stake it lies, or is silent, in two of three rounds: they have no
    consensus, and the newest one pays."""
    return _tie(market, 3, lambda place: place > 0, "three rounds")


def tie_the_first_scores(market: Market) -> Outcome:
    """The same from a job's first round on: before the first consensus all who are accepted are
    paid alike, also those whose work is worth nothing."""
    return _tie(market, 1, lambda place: True, "half of the weight, until honest stake grows")


def _differing(said: Callable[[int], Scores] | None, false: bool) -> Deed:
    """A round in which the honest verifiers' scores differ by a tenth, up and down; all trainers
    work alike. `said`: the attacker's vector, from what it has measured of each; None: that."""

    def deed(market: Market) -> None:
        round_ = ScoringRound(market)
        fair = SCALE * 9 // 10 // len(market.trainers)

        def measured(first: bool) -> Scores:
            return {
                player: int(fair * (1 + _DIFFER if (place % 2 == 0) == first else 1 - _DIFFER))
                for place, player in enumerate(market.trainers)
            }

        own = dict.fromkeys(market.trainers, fair) if said is None else said(fair)
        given: dict[Player, Scores] = dict.fromkeys(market.evil_verifiers, own)
        for place, verifier in enumerate(market.honest_verifiers):
            given[verifier] = measured(place % 2 == 0)
        round_.finish(given, market.evil_verifiers if false else ())

    return deed


_DIFFERING = f"honest scores differ by {float(_DIFFER):.0%} up and down"


def tilt_the_medians(market: Market) -> Outcome:
    """Where the honest verifiers differ by a tenth, says the lower of their scores for everybody
    but its own trainers, and the higher one for those. Here its trainers work like all others. No
    record of what it has measured gives such a vector."""

    def tilted(fair: int) -> Scores:
        high, low = int(fair * (1 + _DIFFER)), int(fair * (1 - _DIFFER))
        return {p: high if p in market.evil else low for p in market.trainers}

    deed, instead = _differing(tilted, True), _differing(None, False)
    return by_verifiers(market, deed, _DIFFERING, instead)


def repeat_the_last_consensus(market: Market) -> Outcome:
    """Measures nothing and commits to the last round's consensus: where the trainers' work stays
    what it was it agrees, and saves what measuring costs. It has no record that gives these scores:
    it names one that nobody has."""

    def deed(market: Market) -> None:
        scored(market)
        last = market.chain.read("ScoreConsensus", "last_scored", market.job)
        nodes, scores = market.chain.read("ScoreConsensus", "consensus_of", market.job, last)
        standing = dict(zip(nodes, scores, strict=True))
        round_ = ScoringRound(market, adopted=True)
        known = {p: standing[p.node] for p in market.trainers if p.node in standing}
        round_.finish(vectors(round_, known), market.evil_verifiers)

    instead = _rounds(2, lambda place: False)
    found = by_verifiers(market, deed, "one round; it measures nothing", instead)
    saved = cut_of(market) * Fraction(str(market.numbers.compute)) * len(market.evil_verifiers)
    return replace(found, profit=found.profit + saved)


def cut_of(market: Market) -> Fraction:
    """What a verifier earns in a scored round in which all agree."""
    terms = market.numbers.terms
    return Fraction(terms.reward_per_round * terms.verifier_bps, BPS * len(market.verifiers))


_PLAYS = (
    ("lift a friend by one's own vector", lift_a_friend),
    ("score before the others can", score_first),
    ("give next to nothing to anybody", give_next_to_nothing),
    ("score a node that did not reveal", score_a_silent_node),
    ("copy a verifier's vector", copy_a_vector),
    ("read the others' vectors, then commit", read_then_commit),
    ("stay silent after a commitment", stay_silent),
    ("commit in the last second", commit_in_the_last_second),
    ("hurry a result before the scores", hurry_a_result),
    ("bring another consensus", bring_another_consensus),
    ("score a void round", score_a_void_round),
    ("omit a node from the result", omit_a_node),
    ("favour a friend in the result", favour_a_friend),
    ("open the first round before scoring is adopted", open_the_first_round),
    ("tie the scores with stake at the cap", tie_the_scores),
    ("tie the first scores with stake at the cap", tie_the_first_scores),
    ("tilt the medians where honest scores differ", tilt_the_medians),
    ("repeat the last consensus", repeat_the_last_consensus),
)
ATTACKS = tuple(Attack(name, "consensus", play) for name, play in _PLAYS)
