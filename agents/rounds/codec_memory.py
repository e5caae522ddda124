# SPDX-License-Identifier: Apache-2.0
"""What any node takes from round to round, re-created from what is public: the memory of its codec
(error feedback) and, where `optimizer.inner_state` is "kept", the state of its inner optimizer.

Rule: memory starts empty every `codec.memory_rounds` finalized rounds and advances only in rounds
that were finalized with the node's payload accepted and not invalid (`Plan.invalid`), by
`codec.remember` of the node's recomputed gradient and of the payload it revealed. So it is a
function of the chain and the store: a verifier finds the trainer's memory by doing the rounds since
the last reset again, and a trainer that lost its own does the same. At most `memory_rounds` tasks
are redone, and each once.

The inner state starts from zero every `optimizer.inner_state_rounds` finalized rounds and advances
in the same rounds, to what the node's recomputed steps have gathered. One of the two numbers
divides the other (`agents.jobs.combinations.machines`), so where the longer period starts the
shorter does too. No node says what its state is, and none publishes it, because nobody could tell
one that withholds it from a store that lost it. A node that starts from another state has another
update.
One that skipped the steps of a round has to take them after all, or else it is wrong in every round
up to the next reset.

Where nobody else has a node's data, nobody can redo its rounds. The node doesn't redo them either,
because its noise was drawn for one release only. Where nodes train as they like, nobody checks
their memory. In both cases a node that lost its own copy starts with an empty memory. An accepted
payload counts whether it was merged or not, because the node has sent what it contains.

Of a model that is split, `agents.rounds.stage_memory` has the rule.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from agents.jobs.job import JobContext
from agents.protocol.network import Network
from agents.rounds.carried import Carried, Kept
from agents.rounds.models import Models
from agents.rounds.payload import max_payload_bytes, read_payload
from agents.rounds.plan import Plan, Plans
from agents.rounds.report import RoundReport
from agents.rounds.stage_memory import StageMemories
from agents.storage.content_store import ContentStore
from agents.training import last_bits
from agents.training.assignment import work_order
from agents.training.replay import run_task
from agents.training.state import State, model_hash

_KEPT = 64
_KEPT_OF_ONE = 2  # a reorg may take the newest back
_MOST_NUMBERS = 2**29  # that are kept of all nodes together, 2 GiB; the newest is kept anyway

_Counted = tuple[int, int, RoundReport, bytes]
"""Place in the ledger, round, report and its digest."""


class Memories:
    """What nodes take into a round; keeps the latest."""

    def __init__(
        self, network: Network, store: ContentStore, models: Models, plans: Plans, device: str
    ) -> None:
        self._network = network
        self._store = store
        self._models = models
        self._plans = plans
        self._device = device
        self._found: OrderedDict[tuple[int, tuple[bytes, ...]], Carried] = OrderedDict()
        self._stages = StageMemories(network, store, models, plans, device)

    def before(self, job_id: int, plan: Plan, node: int, kept: Kept | None = None) -> State | None:
        """The memory of the node's codec before the round of `plan`; None when it is empty.

        As `carried`, and of a model that is split too.
        """
        if self._models.job(job_id).slices is not None:
            return self._stages.before(job_id, plan, node, kept)
        return self.carried(job_id, plan, node, kept).owed

    def moved(self, job_id: int, plan: Plan, node: int, seed: bytes) -> State | None:
        """As `before`, from weights that this seed moved in their last bits. Of a split model."""
        return self._stages.before(job_id, plan, node, moved_by=seed)

    def carried(
        self,
        job_id: int,
        plan: Plan,
        node: int,
        kept: Kept | None = None,
        moved_by: bytes = b"",
    ) -> Carried:
        """All that the node takes into the round of `plan`, where the model is not split.

        `kept` gives the node's own copies, which save it from doing its rounds again. `moved_by`: a
        seed by which the weights of these rounds are moved in their last bits, to see whether
        rounding decides what is carried; empty for the weights as they are.

        Raises StoreError or PayloadError when an artefact of an earlier round can't be had.
        """
        job = self._models.job(job_id)
        reset = plan.step - plan.step % max(1, job.carried_rounds)
        if job.verification.own_memory_rounds is not None:
            reset = max(reset, plan.step - job.verification.own_memory_rounds)
        rounds = self._counted(job_id, plan, node, reset)
        found, last = Carried(), reset
        todo: list[_Counted] = []  # newest first
        counted: list[_Counted] = []
        while (one := _at(counted, rounds, len(todo))) is not None:
            index, number, _, _ = one
            seed = self._network.round(job_id, number).seed
            mine = kept(job_id, number, seed) if kept is not None else None
            if mine is not None:
                found, last = mine, index
                break
            if not job.verification.redone:
                break
            counted += rounds  # a node that has its own copy asks of its newest round alone
            history = _history(counted[len(todo) :])
            known = None if moved_by else self._found.get((node, history))
            if known is not None:
                found, last = known, index
                break
            todo.append(one)
        for place in reversed(range(len(todo))):
            index, number, report, _ = todo[place]
            carried = found.into(job, last, index)
            found = self._advance(job_id, job, number, report, node, carried, moved_by)
            if not moved_by:  # nobody asks by a seed again
                self._keep(node, _history(counted[place:]), found)
            last = index
        return found.into(job, last, plan.step)

    def _counted(self, job_id: int, plan: Plan, node: int, reset: int) -> Iterator[_Counted]:
        """The node's rounds since the reset that count, newest first.

        A convicted node is locked, so it is in no round before its report has an end: it was
        slashed and its mark stays, or the mark is gone. So a node's own copy of its newest round
        rests on the same rounds as what others find by doing them again.
        """
        for index in range(plan.step - 1, reset - 1, -1):
            entry = self._network.ledger_entry(job_id, index)
            report = self._models.report(entry.report)
            if node not in report.accepted():
                continue
            if (entry.round_id, node) in plan.invalid:
                continue
            yield index, entry.round_id, report, entry.report

    def _advance(
        self,
        job_id: int,
        job: JobContext,
        number: int,
        report: RoundReport,
        node: int,
        carried: Carried,
        moved_by: bytes,
    ) -> Carried:
        """What the node has after a finalized round, by doing its work of that round again."""
        plan = self._plans.past(job_id, number)
        before = self._models.at(job_id, bytes.fromhex(report.prev_model))
        task = work_order(
            plan.manifest, node, job.spec, job_id, plan.step, bytes.fromhex(report.prev_model)
        )
        if moved_by:
            before = last_bits.moved(before, moved_by)
            task = replace(task, model_id=model_hash(before))
        try:
            own = run_task(job.net(self._device), task, before, job.data, inner=carried.inner)
        except FloatingPointError:
            return carried  # what was accepted there was no training: it leaves nothing behind
        if not job.codec.has_memory:
            return Carried(inner=own.inner)
        line = next(line for line in report.nodes if line.node == node)
        raw = self._store.get_digest(
            bytes.fromhex(line.content), max_payload_bytes(job.codec, job.shapes)
        )
        decoded = read_payload(raw, job.codec, job.shapes, plan.codec_seed(job.codec, node))
        released = job.privacy.release(own.pseudo_gradient)
        return Carried(job.codec.remember(released, carried.owed, decoded), own.inner)

    def _keep(self, node: int, history: tuple[bytes, ...], carried: Carried) -> None:
        """Of one node the newest are kept, so that many rounds of one push out no other's."""
        self._found[node, history] = carried
        mine = [key for key in self._found if key[0] == node]
        for key in mine[:-_KEPT_OF_ONE]:
            del self._found[key]
        numbers = sum(one.numbers() for one in self._found.values())
        while len(self._found) > _KEPT or (numbers > _MOST_NUMBERS and len(self._found) > 1):
            numbers -= self._found.popitem(last=False)[1].numbers()


def _at(counted: list[_Counted], rounds: Iterator[_Counted], place: int) -> _Counted | None:
    """The round at this place; it is fetched if none at or after it was."""
    if place == len(counted):
        counted += islice(rounds, 1)
    return counted[place] if place < len(counted) else None


def _history(counted: Sequence[_Counted]) -> tuple[bytes, ...]:
    """What a node's state after the first of these rounds rests on: their reports' digests."""
    return tuple(digest for *_, digest in counted)
