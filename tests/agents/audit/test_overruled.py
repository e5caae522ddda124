# SPDX-License-Identifier: Apache-2.0
"""Whether the committee was right to overrule a validator, as the audit sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.audit.chain.scores import Scored, Vector
from agents.audit.sources.artefacts import Artefacts
from agents.audit.sources.findings import Part
from agents.audit.work.ratings import Ratings, RoundFacts
from agents.rounds.report import UNAVAILABLE
from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.training.state import model_hash
from tests.agents.gauntlet.test_remeasure import STEPS, Again
from tests.stage.memory.honest_round import AUDIT_SEED, DEVICE, NODES, make_honest_round
from tests.stage.memory.tiny_specs import GAUNTLET

VERIFIER, CONVICT = 21, 3


def event(**args: Any) -> Any:
    return SimpleNamespace(args=args)


@pytest.mark.parametrize("convicted", [True, False], ids=["convicted", "never"])
def test_who_says_that_a_convict_was_found_invalid_is_overruled_by_mistake(
    tmp_path: Path, convicted: bool
) -> None:
    """Whatever became of the conviction. Of a node that nobody convicted it is a lie."""
    store = EmbeddedStore(tmp_path)
    tiny = make_honest_round(store, **{**GAUNTLET, "optimizer": STEPS})
    again = Again(tiny, {}, invalid={CONVICT})
    sent = tiny.honest()
    record = again.record(sent)
    vector = Vector(tuple(record.vector()), digest_of(store.put_bytes(record.to_bytes())))
    happened = {
        "Committed": [event(node_id=node) for node in NODES],
        "ScoresOverruled": [event(verifier_id=VERIFIER)],
    }
    chain: Any = SimpleNamespace(job_id=1, of=lambda name, *_, **__: happened.get(name, []))
    options: Any = tiny.job.score
    opened: Any = SimpleNamespace(nodes=NODES, prev_model=model_hash(tiny.before))
    invalid = frozenset({CONVICT} if convicted else ())
    facts = RoundFacts(tiny.job, tiny.plan, tiny.before, None, sent, invalid, [])
    part, ratings = Part(1), Ratings(chain, Artefacts(store), options)
    scored = Scored({}, 0, {}, {VERIFIER: vector})
    records = ratings.check(part, opened, scored, AUDIT_SEED, facts)
    ratings.measure(part, records, facts, DEVICE)
    assert part.remarks[0] == f"verifier {VERIFIER}: the committee found its scores false."
    found = [difference.sentence for difference in part.differences]
    mistaken = "the committee overruled it, but its record and its losses are right."
    assert found == ([mistaken] if convicted else [])


@pytest.mark.parametrize(
    "gone", [NODES[:0], NODES[:1], NODES[:2]], ids=["all here", "one gone", "two gone"]
)
@pytest.mark.parametrize("merge", ["demo_sign", "mean"])
def test_a_record_whose_payloads_are_gone_by_now__is_not_denied(
    tmp_path: Path, gone: tuple[int, ...], merge: str
) -> None:
    """What is expected of the others, and what they show, rests on them. It is remarked."""
    store = EmbeddedStore(tmp_path)
    fields = {**GAUNTLET, "optimizer": STEPS}
    tiny = make_honest_round(store, **({**fields, "merge": merge} if merge == "mean" else fields))
    sent = tiny.honest()
    record = Again(tiny, {}).record(sent)
    here = [
        replace(s, gradient=None, reason=f"{UNAVAILABLE}gone") if s.reveal.node in gone else s
        for s in sent
    ]
    chain: Any = SimpleNamespace(job_id=1, of=lambda *_, **__: [])
    options: Any = tiny.job.score
    facts = RoundFacts(tiny.job, tiny.plan, tiny.before, None, here, frozenset(), [])
    part = Part(1)
    Ratings(chain, Artefacts(store), options).measure(part, {VERIFIER: record}, facts, DEVICE)
    assert [difference.sentence for difference in part.differences] == []
    assert len(part.remarks) == (1 if gone else 0)
    line = record.scores[-1]
    assert line.random is not None
    lie = {f"node_{line.node}": {"random": line.random + 10**9}}
    told = Again(tiny, {}).record(sent, **lie)
    Ratings(chain, Artefacts(store), options).measure(part, {VERIFIER: told}, facts, DEVICE)
    believed = bool(gone) and not getattr(tiny.job.merge, "signs", False)
    assert bool(part.differences) is not believed, "what stands alone is judged all the same"
