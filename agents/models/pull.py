# SPDX-License-Identifier: Apache-2.0
"""Fetches a job's model into a folder, and checks it against the ledger.

Rule: the ledger's entries are hashed again up to the head that the chain states, the model is
rebuilt from the newest checkpoint and the updates after it, and its hash is that of the round's
entry. What was fetched is kept beside the model until all of it is there, so a pull that was killed
goes on where it stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agents.jobs.job import DataLocked
from agents.models.folder import CONFIG, DATASET, SPEC, TOKENIZER, Files, FolderError, ModelFolder
from agents.models.provenance import Contributor, Provenance
from agents.protocol.formulas import ledger_head
from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST
from agents.protocol.structs import LedgerEntry
from agents.rounds.models import Models
from agents.rounds.report import RoundReport
from agents.storage.cid import cid_of_bytes
from agents.storage.content_store import ContentStore
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import CorruptContent, StoreError
from agents.storage.keeping import KeepingStore
from agents.training.data import MAX_MANIFEST_BYTES, MAX_TOKENIZER_BYTES, Dataset
from agents.training.documents import DataError
from agents.training.spec import MAX_SPEC_BYTES, JobSpec

FETCHED = ".fetched"
Progress = Callable[[str, int, int], None]
"""Hears what is done now, how many steps are done, and how many there are (0: not known)."""


class PullError(ValueError):
    """There is no such model to pull, or the folder is another one's; says what to do."""


@dataclass(frozen=True)
class Pulled:
    """A model that is in its folder now. `fetched`: bytes that came from the store for it."""

    folder: ModelFolder
    fetched: int


def pull(
    network: Network,
    source: ContentStore,
    job_id: int,
    out: Path,
    round_id: int | None = None,
    progress: Progress = lambda text, done, total: None,
) -> Pulled:
    """Fetch the model of a finalized round (default: the newest; 0: the first) into a folder.

    Raises:
        PullError: no such job or round, or the folder holds the model of another job.
        StoreError: an artefact can't be had, or is not what the chain records.
        SpecError, PayloadError, ReportError: an artefact is malformed.
    """
    count = network.job_count()
    if not 1 <= job_id <= count:
        raise PullError(f"There is no job {job_id}; there are {count}.")
    _check_place(out, network, job_id)
    fetched = [0]

    def hear(cid: str, size: int) -> None:
        fetched[0] += size

    copies = out / FETCHED
    store = KeepingStore(EmbeddedStore(copies), source, hear)
    models = Models(network, store)
    progress("reading the ledger", 0, 0)
    entries = _entries(network, job_id, round_id)
    reports = []
    for index, entry in enumerate(entries):
        progress(f"reading the report of round {entry.round_id}", index, len(entries))
        reports.append(models.report(entry.report))
    genesis = models.genesis(job_id)
    wanted = entries[-1].new_model if entries else genesis
    ready = _already(out, wanted, entries)
    if ready is None:
        progress("rebuilding the model", 0, 0)
        state = models.at(job_id, wanted)
        spec = store.get_digest(network.job(job_id).terms.spec, MAX_SPEC_BYTES)
        files = _files(store, spec)
        found = _provenance(network, models, job_id, cid_of_bytes(spec), entries, reports)
        ready = ModelFolder(out, found, files)
        progress("writing it", 0, 0)
        ready.save(state)
    shutil.rmtree(copies)
    return Pulled(ready, fetched[0])


def _check_place(out: Path, network: Network, job_id: int) -> None:
    """Raise PullError if the folder holds the model of another job, or other things."""
    try:
        there = ModelFolder.open(out).provenance
    except FolderError:
        strange = [p.name for p in out.iterdir()] if out.is_dir() else []
        if strange and not (out / FETCHED).is_dir():
            raise PullError(
                f"{out} holds other things ({', '.join(sorted(strange)[:3])}). Name a new folder "
                "with --out."
            ) from None
        return
    if (there.chain_id, there.job) != (network.deployment.chain_id, job_id):
        raise PullError(
            f"{out} holds the model of job {there.job} on chain {there.chain_id}. Name another "
            "folder with --out."
        )


def _already(out: Path, wanted: bytes, entries: list[LedgerEntry]) -> ModelFolder | None:
    """The folder, if the wanted model is in it and intact."""
    number = entries[-1].round_id if entries else 0
    try:
        there = ModelFolder.open(out)
        if (there.provenance.round, there.provenance.model) == (number, wanted.hex()):
            there.state()
            return there
    except (FolderError, StoreError, ValueError):
        pass
    return None


def _entries(network: Network, job_id: int, round_id: int | None) -> list[LedgerEntry]:
    """The ledger up to the round. CorruptContent unless its entries hash to the heads it states."""
    entries: list[LedgerEntry] = []
    head = ZERO_DIGEST
    for index in range(network.ledger_length(job_id)):
        entry = network.ledger_entry(job_id, index)
        if round_id is not None and entry.round_id > round_id:
            break
        head = ledger_head(
            head,
            job_id,
            entry.round_id,
            entry.prev_model,
            entry.new_model,
            entry.contributors_root,
            entry.scores_root,
            entry.report,
            entry.reward,
            entry.timestamp,
        )
        if head != entry.head:
            raise CorruptContent(
                f"the ledger's entry of round {entry.round_id} of job {job_id} does not hash to "
                "the head that the RPC node states; ask another node"
            )
        entries.append(entry)
    if round_id and (not entries or entries[-1].round_id != round_id):
        newest = network.job(job_id).rounds_done
        raise PullError(
            f"Round {round_id} of job {job_id} is not in the ledger: it is void, or not final yet. "
            f"{newest} rounds are final."
        )
    return entries


def _files(store: ContentStore, spec: bytes) -> Files:
    """The small artefacts that a model is run with."""
    parsed = JobSpec.from_bytes(spec)
    manifest = store.get(parsed.data, MAX_MANIFEST_BYTES)
    files = {SPEC: spec, DATASET: manifest}
    if parsed.model.config_cid is not None:
        files[CONFIG] = store.get(parsed.model.config_cid, MAX_MANIFEST_BYTES)
    tokenizer = Dataset.from_bytes(manifest).tokenizer
    if tokenizer is not None:
        files[TOKENIZER] = store.get(tokenizer, MAX_TOKENIZER_BYTES)
    return Files(files)


def _provenance(
    network: Network,
    models: Models,
    job_id: int,
    spec_cid: str,
    entries: list[LedgerEntry],
    reports: list[RoundReport],
) -> Provenance:
    job, facts = models.job(job_id), network.job(job_id)
    spec, genesis = job.spec, models.genesis(job_id)
    try:
        separator: int | None = job.data.separator
    except (DataLocked, DataError):
        separator = None
    newest = entries[-1] if entries else None
    return Provenance(
        chain_id=network.deployment.chain_id,
        jobs_contract=network.deployment["TrainingJobs"].address,
        ledger_contract=network.ledger.address,
        job=job_id,
        round=newest.round_id if newest else 0,
        model=(newest.new_model if newest else genesis).hex(),
        head=(newest.head if newest else ZERO_DIGEST).hex(),
        genesis=genesis.hex(),
        finalized_at=newest.timestamp if newest else 0,
        spec=spec_cid,
        sponsor=facts.sponsor,
        parameters=job.parameters,
        rounds=len(entries),
        val_loss=reports[-1].val_loss if reports else None,
        separator=separator,
        data=spec.data,
        data_access=spec.access,
        data_licence=spec.data_licence,
        contributors=_contributors(network, reports),
    )


def _contributors(network: Network, reports: list[RoundReport]) -> tuple[Contributor, ...]:
    """Nodes whose work was merged, those with the most rounds first."""
    rounds: dict[int, int] = {}
    batches: dict[int, int] = {}
    for report in reports:
        for line in report.nodes:
            if line.merged:
                rounds[line.node] = rounds.get(line.node, 0) + 1
                batches[line.node] = batches.get(line.node, 0) + line.batches
    return tuple(
        Contributor(
            node=node, owner=network.node(node).owner, rounds=rounds[node], batches=batches[node]
        )
        for node in sorted(rounds, key=lambda node: (-rounds[node], node))
    )
