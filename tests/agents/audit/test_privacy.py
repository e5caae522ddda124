# SPDX-License-Identifier: Apache-2.0
"""Privacy charges replayed over real commitments: every commit counts, revealed or not."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.audit.work.privacy import Charges, spent
from agents.jobs.job import JobContext
from agents.mechanisms.privacy import Accountant
from agents.rounds.models import Models
from agents.rounds.plan import Plans
from agents.rounds.proof import MAX_PROOF_BYTES, ProofOfComputation
from agents.runtime.contracts import EventType
from agents.runtime.printable import printable
from agents.storage.canonical import dumps
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from scripts.status import privacy
from tests.stage.chain.finished_job import JOB, FinishedJob
from tests.stage.chain.lying_sources import Lie, kinds_of, lying_network, relogged

EXAMPLES = {"privacy": "dp_sgd", "access": "local", "verify": "screening", "merge": "mean"}


class Layered:
    """A store over another that has some more, and says that one digest is that of something."""

    def __init__(self, below: ContentStore, more: EmbeddedStore) -> None:
        self._below, self._more = below, more
        self.location = below.location
        self.instead: dict[bytes, str] = {}

    def resolve(self, digest: bytes) -> str:
        """The CID of a digest."""
        try:
            return self.instead.get(digest) or self._more.resolve(digest)
        except NotFound:
            return self._below.resolve(digest)

    def get(self, cid: str, max_bytes: int) -> bytes:
        """The content."""
        return (self._more if self._more.has(cid) else self._below).get(cid, max_bytes)

    def get_digest(self, digest: bytes, max_bytes: int) -> bytes:
        """The content of a digest."""
        return self.get(self.resolve(digest), max_bytes)


def layered(finished: FinishedJob, folder: Path, **fields: Any) -> Any:
    """The finished's store, as if job 1's spec had these fields."""
    more = EmbeddedStore(folder)
    store = Layered(finished.store, more)
    spec = finished.published.spec
    changed = spec.from_dict({**spec.model_dump(mode="json"), **fields})
    store.instead[digest_of(finished.published.spec_cid)] = more.put_bytes(changed.to_bytes())
    return store


def stating(finished: FinishedJob, folder: Path, examples: dict[tuple[int, int], int]) -> Lie:
    """The finished's chain, as if proofs by (round, node) had stated so many examples."""
    more, kinds = EmbeddedStore(folder), kinds_of(finished.network.deployment)

    def restated(kind: EventType, log: Any) -> Any:
        args = kind.decode(log).args
        place = (args["round_id"], args["node_id"])
        if args["job_id"] != JOB or place not in examples:
            return log
        raw = finished.store.get_digest(bytes(args["proof"]), MAX_PROOF_BYTES)
        proof = ProofOfComputation.from_bytes(raw).model_copy(update={"examples": examples[place]})
        return relogged(kind, log, {**args, "proof": digest_of(more.put_bytes(proof.to_bytes()))})

    def lie(method: str, params: list[Any], result: Any) -> Any:
        if method != "eth_getLogs":
            return result
        found = []
        for log in result:
            kind = kinds.get((log["address"].lower(), log["topics"][0]))
            named = kind is not None and kind[1].abi["name"] == "Revealed"
            found.append(restated(kind[1], log) if kind is not None and named else log)
        return found

    return lie


def charged(finished: FinishedJob, **options: Any) -> tuple[JobContext, list[Part]]:
    """The parts of all rounds of job 1 as if its spec had asked for noise."""
    fields = finished.published.spec.model_dump(mode="json")
    changes = {"privacy": "gaussian", "privacy_options": options, "merge": "mean"}
    job = JobContext(finished.published.spec.from_dict({**fields, **changes}), finished.store)
    record = Record(lying_network(finished.provider, finished.network.deployment), JOB)
    charges, parts = Charges(job, record, finished.store), []
    for number in record.current:
        parts.append(Part(number))
        charges.replay(parts[-1], None)
    return job, parts


def test_each_node_is_charged_for_the_rounds_it_committed_in(finished: FinishedJob) -> None:
    """bob is charged for round 3, where he kept silent; eve for 3 rounds, nobody for the void."""
    job, parts = charged(finished, noise_multiplier=4.0)
    assert all(part.holds for part in parts)
    spent = parts[-1].figures["privacy"]
    for name, rounds in {"ann": 4, "bob": 4, "cat": 4, "eve": 3}.items():
        account = Accountant(job.privacy.max_epsilon, job.privacy.delta)
        for _ in range(rounds):
            charge = job.privacy.charge()
            assert charge is not None
            account.record_participation(charge)
        assert spent[str(finished.node(name))] == account.summary()
    assert [part.counts.get("privacy", 0) for part in parts] == [4, 4, 4, 0, 3]


def test_the_first_commitment_beyond_the_budget_is_named(finished: FinishedJob) -> None:
    _, parts = charged(finished, noise_multiplier=4.0, max_epsilon=1.9)
    over = {part.round_id: [d.subject for d in part.differences] for part in parts}
    assert over[1] == [] and over[4] == []
    first = next(number for number, found in over.items() if found)
    assert over[first] == [f"node {finished.node(name)}" for name in ("ann", "bob", "cat", "eve")]
    assert "it committed beyond its budget" in parts[first - 1].differences[0].sentence
    assert "the budget is 1.9" in parts[first - 1].differences[0].sentence


def test_a_job_without_privacy_charges_nobody(finished: FinishedJob) -> None:
    network = lying_network(finished.provider, finished.network.deployment)
    record = Record(network, JOB)
    part = Part(1)
    job = JobContext(finished.published.spec, finished.store)
    Charges(job, record, finished.store).replay(part, None)
    assert part.counts == {} and part.figures == {}
    assert spent(network, finished.store, JOB) is None
    assert "promises no differential privacy" in privacy(network, finished.store, JOB)


def test_the_command_shows_the_figures_of_the_audit(finished: FinishedJob, tmp_path: Path) -> None:
    network = lying_network(finished.provider, finished.network.deployment)
    options = {"noise_multiplier": 4.0, "max_epsilon": 1.9}
    fields = {"privacy": "gaussian", "privacy_options": options, "merge": "mean"}
    store = layered(finished, tmp_path, **fields)
    found = spent(network, store, JOB)
    assert found is not None
    _, parts = charged(finished, **options)
    for node, account in parts[-1].figures["privacy"].items():
        assert {name: found[int(node)][name] for name in account} == account
    ann, eve = found[finished.node("ann")], found[finished.node("eve")]
    assert (ann["rounds"], eve["rounds"]) == (4, 3)
    assert ann["problems"] and "beyond its budget" in ann["problems"][0]
    out = StringIO()
    Console(width=240, file=out).print(privacy(network, store, JOB))
    shown = out.getvalue()
    assert f"Privacy spent in job {JOB}" in shown and "of 1.9" in shown
    assert ann["problems"][0] in " ".join(shown.split())


@pytest.mark.parametrize("words", ["[/x]", "[link=http://evil]pay", "\x1b]0;t\x07", "\u202e"])
def test_a_strangers_spec_is_shown_as_text(
    finished: FinishedJob, tmp_path: Path, words: str
) -> None:
    """The field's name is the stranger's: no markup, no escape, no change of direction."""
    store = layered(finished, tmp_path)
    digest = digest_of(finished.published.spec_cid)
    store.instead[digest] = EmbeddedStore(tmp_path).put_bytes(dumps({words: 1}))
    out = StringIO()
    console = Console(width=500, file=out, force_terminal=True)
    console.print(
        privacy(lying_network(finished.provider, finished.network.deployment), store, JOB)
    )
    assert printable(words) in out.getvalue()
    assert not {"\x1b", "\x07", "\u202e"} & set(out.getvalue())


def test_nodes_are_charged_by_the_examples_their_proofs_state(
    finished: FinishedJob, tmp_path: Path
) -> None:
    """ann's 500 examples amplify; bob's silent round costs what the fewest he ever said cost;
    cat never said and gets no amplification."""
    ann, bob, cat = (finished.node(name) for name in ("ann", "bob", "cat"))
    said = {(1, bob): 400, (2, bob): 300, (5, bob): 350, **{(n, ann): 500 for n in (1, 2, 3, 5)}}
    options = {"noise_multiplier": 6.0, "max_epsilon": 20.0}
    store = layered(finished, tmp_path, **{**EXAMPLES, "privacy_options": options})
    lie = stating(finished, tmp_path, said)
    network = lying_network(finished.provider, finished.network.deployment, lie)
    found = spent(network, store, JOB)
    assert found is not None
    models = Models(network, store)
    job, plans = models.job(JOB), Plans(network, models)
    expected = {
        ann: {1: 500, 2: 500, 3: 500, 5: 500},
        bob: {1: 400, 2: 300, 3: 300, 5: 350},
        cat: {1: 1, 2: 1, 3: 1, 5: 1},
    }
    for node, rounds in expected.items():
        account = Accountant(20.0, job.privacy.delta)
        for number, examples in rounds.items():
            assignment = plans.past(JOB, number).manifest.of(node)
            assert assignment is not None
            steps, batch = assignment.batches, job.spec.optimizer.batch_size
            charge = job.privacy.charge(steps=steps, batch=batch, examples=examples)
            assert charge is not None
            account.record_participation(charge)
        assert {name: found[node][name] for name in account.summary()} == account.summary()
    assert found[ann]["epsilon"] < found[bob]["epsilon"] < found[cat]["epsilon"]
    assert [account["problems"] for account in found.values()] == [[]] * 4


def test_without_proofs_a_commitment_beyond_the_budget_is_a_remark(
    finished: FinishedJob, tmp_path: Path
) -> None:
    options = {"noise_multiplier": 1.0, "max_epsilon": 1.0}
    store = layered(finished, tmp_path, **{**EXAMPLES, "privacy_options": options})
    network = lying_network(finished.provider, finished.network.deployment)
    record = Record(network, JOB)
    record.events["Revealed"] = []
    charges, part = Charges(Models(network, store).job(JOB), record, store), Part(1)
    charges.replay(part, Plans(network, Models(network, store)).past(JOB, 1))
    assert part.holds and len(part.remarks) == 4
    assert "can't be known" in part.remarks[0]
