# SPDX-License-Identifier: Apache-2.0
"""A trainer publishes bytes of which an error can't be written down: it names a lone surrogate.

What is wrong with a stranger's bytes becomes a sentence in records and reports, which are UTF-8. A
sentence that holds half of a UTF-16 pair, which JSON may spell, has no such form: the document was
refused by whoever was to publish it. So one trainer kept all validators from scoring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.protocol.median import stake_median
from agents.protocol.scores import Consensus
from agents.rounds.proof import ProofOfComputation
from agents.rounds.report import NodeLine
from agents.rounds.sync_sample import read_samples
from agents.storage.canonical import dumps
from agents.storage.cid import digest_of
from agents.training.state import PayloadError, load_state
from agents.training.trace import Trace
from tests.attacks.test_validators import TRAINERS, VERIFIERS, ScoredJob
from tests.stage.chain.agents import PASSPHRASE
from tests.stage.chain.people import People, verifier_cut
from tests.stage.memory.honest_round import TinyJob

# An infinite number under a name that is half of a pair: JSON, and not canonical.
UNWRITABLE = b'{"\\ud800":1e999}'


@pytest.fixture
def scored(
    people: People, tiny: TinyJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ScoredJob]:
    monkeypatch.setenv("MENAGERIE_PASSPHRASE", PASSPHRASE)
    with ExitStack() as stack:
        yield ScoredJob(people, tiny, tmp_path, stack)


def test_sample__its_node_is_unpaid_and_all_others_are_scored(scored: ScoredJob) -> None:
    """cat shows such a sample. No validator could score anybody: cat, which had shown nothing, was
    paid like the others (316.7 of 1,000 ZOO), and each verifier lost its cut of 33.3."""
    people, cat = scored.people, scored.node("cat")
    scored.play("ann", "bob")
    digest = digest_of(scored.store.put_bytes(UNWRITABLE))
    place = (people.job, 1, cat.node_id)
    people.chain.send(cat.operator, people.scores, "post_samples", *place, digest)
    people.chain.mine()  # a commitment names the sample's block, which a later one knows
    scorers = {name: scored.verifier(name) for name in VERIFIERS}
    for _ in ("commit", "reveal"):
        for name, verifier in scorers.items():
            scored.step(verifier, name)
    line = scored.line(scorers["vic"], "cat")
    assert line.failure.startswith("bad sync sample")
    assert line.score == 0

    consensus, view = Consensus(scorers["vic"].network), scored.view(scorers["vic"])
    snapshot = view.snapshot
    vectors = consensus.vectors(people.job, 1, int(view.round.opened_block), snapshot)
    stakes = snapshot.verifiers
    rows = [list(vectors[verifier].scores.values()) for verifier in stakes]
    median = stake_median(rows, list(stakes.values()), sum(stakes.values()))
    arrays = (list(snapshot.nodes), list(snapshot.weights), median)
    people.chain.send(people.faucet, people.scores, "close_scoring", people.job, 1, *arrays)
    people.confirm(people.offer({scored.node(name): 1 for name in TRAINERS}), *VERIFIERS)
    assert people.gain(cat) == 0
    # In one round of so small a job chance may say that one of them has shown nothing.
    assert not any(scored.line(scorers["vic"], name).failure for name in ("ann", "bob"))
    scores = dict(zip(snapshot.nodes, median, strict=True))
    for node in map(scored.node, ("ann", "bob")):
        assert (people.gain(node) > 0) == (scores[node.node_id] > 0)
    assert [people.gain(scored.node(name)) for name in VERIFIERS] == [verifier_cut(3)] * 3


def header(dtype: str = '"F32"', shape: str = "[2]", offsets: str = "[0,8]") -> bytes:
    """A file of one tensor, with these values in its header."""
    text = f'{{"a":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}'.encode()
    return len(text).to_bytes(8, "little") + text + bytes(8)


HALF = '"\\ud800"'
SHAPES = {"a": (2,)}
READERS: dict[str, Callable[[], object]] = {
    "sample": lambda: read_samples(UNWRITABLE, bytes(32), SHAPES, bytes(32), 1),
    "proof": lambda: ProofOfComputation.from_bytes(UNWRITABLE),
    "trace": lambda: Trace.from_bytes(UNWRITABLE, 1, 3),
    "dtype": lambda: load_state(header(dtype=HALF), SHAPES),
    "shape": lambda: load_state(header(shape=HALF), SHAPES),
    "offsets": lambda: load_state(header(offsets=HALF), SHAPES),
}


@pytest.mark.parametrize("what", READERS)
def test_error__can_be_written_down(what: str) -> None:
    """The first is what stopped validators. In a job that lists classes the second stood in the
    aggregator's report, which had no bytes either, so each round was void."""
    with pytest.raises(PayloadError) as caught:
        READERS[what]()
    line = NodeLine(
        node=1,
        content="00" * 32,
        accepted=False,
        merged=False,
        reason=str(caught.value)[:300],
        batches=0,
        quality_ppm=0,
        gain_ppm=0,
        contribution=0,
    )
    assert dumps(line.model_dump(mode="json"))
