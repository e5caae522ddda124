# SPDX-License-Identifier: Apache-2.0
"""Each cheat's story: what it did, who caught it, the proof, and what it cost.

Rule: the chain's events tell it. What the demo told a node to do is marked as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import mean

from agents.protocol.numbers import SCALE, Role, Violation
from scripts._report.amounts import zoo
from scripts._report.page.markup import amount, count, definitions, listing, short, text
from scripts._report.run import Run
from scripts._report.story import Accusation, NodeStory, Slash, Story

# What is added to a deed that a report says and no slash follows: nobody is called a cheat for it.
_DOUBT = {
    "": "So a report says that is open.",
    "executed": "So a report says that was carried out.",
    "dismissed": "So a report said, and it did not hold: the node appealed and was cleared.",
    "lapsed": "So a report said that lapsed: nobody is convicted by it.",
}
_SECONDS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def cheats(run: Run) -> list[str]:
    """One card for each node that was slashed, reported or told to cheat."""
    story = run.story
    known = {slash.node_id for slash in story.slashes}
    known |= {accusation.node_id for accusation in story.accusations.values()}
    known |= {node.node_id for node in story.nodes.values() if node.name in run.cheats}
    if not known:
        return ["<p>Nobody was slashed, and nobody was reported.</p>"]
    return ["<div class='cards'>", *(_card(run, node) for node in sorted(known)), "</div>"]


def _card(run: Run, node_id: int) -> str:
    story = run.story
    node = story.nodes[node_id]
    slashes = [slash for slash in story.slashes if slash.node_id == node_id]
    accusations = [a for a in story.accusations.values() if a.node_id == node_id]
    pairs = []
    if does := run.cheats.get(node.name):
        pairs.append(("The demo told it to", text(does)))
    if slashes or accusations:
        pairs += [
            (
                "What it did" if slashes else "What it was reported for",
                _deeds(story, slashes, accusations),
            ),
            (
                "Who caught it" if slashes else "Who reported it",
                _finders(story, slashes, accusations),
            ),
            ("The proof", _proof(story, slashes, accusations)),
            ("What it cost", _cost(story, node, slashes)),
        ]
    else:
        pairs += [
            ("What the chain shows", _conduct(story, node)),
            ("Who caught it", _limits(story, node)),
            ("The proof", "The reports of the rounds: anybody computes each merge again."),
            ("What it cost", _missed(run, node)),
        ]
    return (
        f"<article class='card'><h3>{text(node.name)} <span class='soft small'>node {node_id}"
        f"</span></h3>{definitions(pairs)}</article>"
    )


# -- a node that was slashed or reported -------------------------------------------------------


def _deeds(story: Story, slashes: Sequence[Slash], accusations: Sequence[Accusation]) -> str:
    offences = [(slash.round_id, slash.violation, slash.node_id) for slash in slashes]
    said = [_deed(story, *offence) for offence in offences]
    for one in accusations:
        offence = one.round_id, one.violation, one.node_id
        if offence not in offences:
            said.append(f"{_deed(story, *offence)} {_DOUBT[one.outcome]}")
    return " ".join(said)


def _deed(story: Story, round_id: int, violation: Violation, node_id: int) -> str:
    when = f"In round {round_id} it" if round_id else "It"
    twins = [
        pair.first if pair.second == node_id else pair.second
        for pair in story.duplicates
        if pair.round_id == round_id and node_id in (pair.first, pair.second)
    ]
    if violation == Violation.COPIED and twins:
        others = text(listing([story.label(twin) for twin in twins]))
        return f"{when} revealed the very content of {others} as its own work."
    return {
        Violation.NO_REVEAL: f"{when} committed to work and never showed it.",
        Violation.INVALID: f"{when} revealed work that its own task does not give.",
        Violation.COPIED: f"{when} revealed another node's work as its own.",
        Violation.BAD_RESULT: f"{when} proposed a model that the merge does not give.",
        Violation.FALSE_REPORT: f"{when} reported or approved what was not so.",
    }.get(violation, f"{when} broke the rule {violation.name}.")


def _finders(story: Story, slashes: Sequence[Slash], accusations: Sequence[Accusation]) -> str:
    said = []
    for accusation in accusations:
        voices = [text(story.label(voice.verifier)) for voice in accusation.voices]
        ways = "each by itself, " if len(voices) > 1 else ""
        said.append(f"{listing(voices)} checked its work, {ways}and reported it.")
    for slash in slashes:
        if slash.violation == Violation.NO_REVEAL:
            said.append("The chain: the time to reveal had passed.")
        if slash.reporter_share:
            finder = text(story.who(slash.reporter))
            said.append(f"{finder} got the finder's bounty, {amount(slash.reporter_share)} ZOO.")
    return " ".join(said)


def _proof(story: Story, slashes: Sequence[Slash], accusations: Sequence[Accusation]) -> str:
    items = []
    for accusation in accusations:
        for voice in accusation.voices:
            why = f": <q>{text(voice.reason)}</q>" if voice.reason else ""
            items.append(
                f"{accusation.violation.name}, reported by {text(story.label(voice.verifier))} in "
                f"block {voice.block}{why} (transaction {short(voice.tx)}, evidence "
                f"{short(voice.evidence)})"
            )
        if accusation.confirmed_block:
            appeal = "it appealed" if accusation.appealed else "it did not appeal"
            items.append(
                f"confirmed by two thirds of the verifiers' stake in block "
                f"{accusation.confirmed_block}; {appeal}"
            )
        if accusation.outcome in ("dismissed", "lapsed"):
            items.append(f"the report was {accusation.outcome}: no slash followed from it")
    for slash in slashes:
        items.append(
            f"slashed for {slash.violation.name} in block {slash.block} (transaction "
            f"{short(slash.tx)})"
        )
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _cost(story: Story, node: NodeStory, slashes: Sequence[Slash]) -> str:
    items = []
    for slash in slashes:
        share = slash.amount / slash.stake_before if slash.stake_before else 0.0
        items.append(
            f"{amount(slash.amount)} ZOO of its stake of {zoo(slash.stake_before)} ({share:.0%}), "
            "by the slashing table."
        )
        if slash.banned:
            items.append("It is banned for good.")
        elif slash.suspended_until > slash.time:
            items.append(f"It is suspended for {_span(slash.suspended_until - slash.time)}.")
    for lost in story.forfeits:
        if lost.node_id == node.node_id:
            items.append(
                f"Its share of round {lost.round_id}, {amount(lost.amount)} ZOO, was carried to "
                "the job's next round, or went to the treasury if that was the last."
            )
    rounds = {slash.round_id for slash in slashes} - {0}
    unpaid = [number for number in sorted(rounds) if not _paid(story, node, number)]
    if unpaid:
        where = listing([str(number) for number in unpaid])
        items.append(f"No pay for round{'s' if len(unpaid) > 1 else ''} {where}.")
    items.append(f"It earned {amount(node.earned)} ZOO in all.")
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _paid(story: Story, node: NodeStory, round_id: int) -> int:
    round_ = story.rounds.get(round_id)
    return 0 if round_ is None else round_.paid.get(node.node_id, 0)


def _span(seconds: int) -> str:
    for name, size in _SECONDS:
        if seconds >= size:
            return count(round(seconds / size), name)
    return count(seconds, "second")


# -- a cheat that no rule convicts -------------------------------------------------------------


def _conduct(story: Story, node: NodeStory) -> str:
    revealed = [r for r in story.rounds.values() if node.node_id in r.revealed]
    merged = [r for r in revealed if r.report and node.node_id in r.report.merged()]
    return (
        f"It revealed in {len(revealed)} of {count(len(story.rounds), 'round')}; its update went "
        f"into {len(merged)} of the merges."
    )


def _limits(story: Story, node: NodeStory) -> str:
    """Who kept it out: the merge, for the reasons of its reports, or the validators."""
    reasons = Counter(
        line.reason
        for round_ in story.rounds.values()
        if round_.report
        for line in round_.report.nodes
        if line.node == node.node_id and not line.merged and line.reason
    )
    scored = [r for r in story.rounds.values() if any(r.consensus.values())]
    said = []
    if scored:
        last = max(scored, key=lambda round_: round_.round_id)
        share = last.consensus.get(node.node_id, 0) / SCALE
        said.append(f"The validators, who gave it {share:.1%} of the last round's weight.")
    if reasons:
        ((reason, times),) = reasons.most_common(1)
        said.append(
            f"The merge left it out, {count(times, 'time')} because: <q>{text(reason)}</q>."
        )
    return " ".join([*said, *_share(story, node)]) or "Nobody: it was in no merge."


def _share(story: Story, node: NodeStory) -> list[str]:
    """What merge and score left of its weight, in all rounds in which it revealed."""
    reports = [round_.report for round_ in story.rounds.values() if round_.report]
    reports = [r for r in reports if any(line.node == node.node_id for line in r.nodes)]
    whole = sum(line.contribution for report in reports for line in report.nodes)
    if not whole:
        return []
    lines = [line for report in reports for line in report.nodes if line.node == node.node_id]
    own = sum(line.contribution for line in lines)
    equal = len(lines) / sum(len(report.nodes) for report in reports)
    last = reports[-1]
    return [
        f"Merge {text(last.merge)} and score {text(last.score)}, which gave it {own / whole:.1%} "
        f"of the contributions of its rounds; an equal share is {equal:.1%}."
    ]


def _missed(run: Run, node: NodeStory) -> str:
    honest = [
        other.earned
        for other in run.story.nodes.values()
        if other.roles & Role.TRAINER and other.name not in run.cheats
    ]
    usual = (
        f" An honest trainer earned {zoo(round(mean(honest)))} ZOO on average." if honest else ""
    )
    return f"Its stake was not touched. It earned {amount(node.earned)} ZOO in all.{usual}"
