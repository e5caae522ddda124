# SPDX-License-Identifier: Apache-2.0
"""An aggregator that proposes a model of its own (see dishonest.py for how it is started).

It doubles everybody's update. What it publishes agrees with itself (update, model hash and report
belong together, of a model in stages too), so only who recomputes the merge can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agents.aggregator import Aggregator, AggregatorInJob
from agents.jobs.model_files import hash_of, pack_change, pack_model
from agents.jobs.outer_step import stepped
from agents.pipeline.shards import Statement
from agents.protocol.network import Network
from agents.protocol.view import View
from agents.rounds.gathering import Gathering
from agents.rounds.outcome import Outcome
from agents.rounds.proposer import Proposer
from agents.rounds.reader import RoundReader
from agents.rounds.report import RoundReport
from agents.rounds.submissions import Submission
from agents.runtime.context import Context
from agents.storage.cid import cid_of_bytes
from agents.storage.content_store import ContentStore
from agents.storage.several import open_stores


class DoublingReader(RoundReader):
    """Outcomes whose merge is twice the honest one."""

    def outcome(
        self,
        view: View,
        submissions: Sequence[Submission],
        report: RoundReport | None = None,
        said: Iterable[Statement] = (),
    ) -> Outcome | None:
        """The honest outcome, falsified consistently."""
        honest = super().outcome(view, submissions, report, said)
        if honest is None:
            return None
        job = self.models.job(view.job_id)
        merged = {name: 2 * tensor for name, tensor in honest.merged.items()}
        rate = job.spec.outer_lr_at(honest.report.step)
        state = stepped(job.spec, self.before(view), merged, rate)
        update = pack_change(job, merged, state)
        checkpoint = None if honest.checkpoint is None else pack_model(job, state)
        report = honest.report.model_copy(
            update={
                "model": hash_of(job, state).hex(),
                "update": cid_of_bytes(update.main),
                "checkpoint": None if checkpoint is None else cid_of_bytes(checkpoint.main),
            }
        )
        return replace(
            honest,
            state=state,
            merged=merged,
            update=update.main,
            checkpoint=None if checkpoint is None else checkpoint.main,
            report=report,
            parts=(
                *honest.parts,  # among them the record of shards, which is true
                *update.parts,
                *(() if checkpoint is None else checkpoint.parts),
            ),
        )


class LiarInJob(AggregatorInJob):
    """Proposes a doubled result whenever it is on duty."""

    def __init__(self, context: Context, store: ContentStore, network: Network) -> None:
        super().__init__(context, store, network)
        models, sealing = self.access.models, self.access.sealing
        place = {"models": models, "sealing": sealing, "folder": context.artefacts}
        reader = DoublingReader(network, store, "cpu", **place)
        gathering = Gathering(context, network, reader)
        self.proposer = Proposer(network, reader, context.sender, 0.0, gathering)


class Liar(Aggregator):
    """Lies in every job."""

    kind = LiarInJob


def build(context: Context) -> Liar:
    """The liar of a started agent."""
    return Liar(context, open_stores(context.settings.store))
