# SPDX-License-Identifier: Apache-2.0
"""The top of the page: what happened, in one sentence, and what that proves.

Rule: the sentence is made from the run's facts. If a check failed, it says that and nothing good.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.protocol.numbers import Phase, Role
from scripts._report.amounts import zoo
from scripts._report.page.markup import count, text
from scripts._report.run import Run
from scripts._report.story import losses
from scripts._report.verdict import Check

PROVES = (
    "It proves that each model, payment and penalty of this run follows from the chain and from "
    "published files. Nobody's word is needed for that."
)
PROVES_NOTHING = "It proves nothing until the reason is found. What was seen stands below."


def opening(title: str, headline: str, meaning: str, checks: Sequence[Check]) -> list[str]:
    """The first lines of any page. `title`: what kind of run it is."""
    kind = "verdict" if all(check.holds for check in checks) else "verdict fails"
    return [
        f"<header><p class='kicker'>{text(title)}</p>",
        f"<h1>{text(headline)}</h1>",
        f"<p class='{kind}'>{text(meaning)}</p></header>",
    ]


def failure(checks: Sequence[Check]) -> str:
    """The sentence of a run in which a check failed; empty if none did."""
    failed = [check for check in checks if not check.holds]
    if not failed:
        return ""
    return (
        f"This run is not what it should be: {len(failed)} of {count(len(checks), 'check')} "
        f"failed. The first: {failed[0].sentence}."
    )


def headline(run: Run) -> str:
    """What happened."""
    if failed := failure(run.checks):
        return failed
    story = run.story
    final = sum(story_.phase == Phase.FINALIZED for story_ in story.rounds.values())
    trainers = sum(bool(node.roles & Role.TRAINER) for node in story.nodes.values())
    curve = losses(story)
    done = f"In {count(final, 'round')} {count(trainers, 'trainer')}, strangers to each other,"
    if len(curve) > 1:
        clauses = [
            f"{done} brought a model's validation loss from {curve[0]:.2f} down to {curve[-1]:.2f}"
        ]
    else:
        clauses = [f"{done} trained a model"]
    clauses += [*_cheats(run), *_claim(run), *_replay(run)]
    return f"{'; '.join(clauses)}."


def meaning(run: Run) -> str:
    """What that proves."""
    if failure(run.checks):
        return PROVES_NOTHING
    return f"{PROVES} {run.limits}".strip()


def _cheats(run: Run) -> list[str]:
    story = run.story
    guilty = {slash.node_id for slash in story.slashes}
    amount = sum(slash.amount for slash in story.slashes)
    names = {story.label(node) for node in guilty}
    free = [node for node in story.nodes.values() if node.name in set(run.cheats) - names]
    clauses = []
    if guilty:
        who = count(len(guilty), "cheat")
        verb = "was" if len(guilty) == 1 else "were"
        clauses.append(f"{who} {verb} caught and slashed {zoo(amount)} ZOO")
    if free:
        who = f"{len(free)} more" if guilty else count(len(free), "cheat")
        earned = zoo(sum(node.earned for node in free))
        clauses.append(f"{who} broke no rule that is slashed and earned {earned} ZOO in all")
    return clauses or ["nobody was slashed"]


def _claim(run: Run) -> list[str]:
    if run.claim is None or not run.claim.arrived:
        return []
    return [f"{run.claim.owner} claimed {zoo(run.claim.received)} ZOO, and it arrived"]


def _replay(run: Run) -> list[str]:
    if run.replay is None or run.replay.differences:
        return []
    return [f"a stranger's replay of {run.replay.compared:,} facts found no difference"]
