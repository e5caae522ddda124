# SPDX-License-Identifier: Apache-2.0
"""The trainer: trains its own batches, commits, reveals. The cold wallet claims what it earns.

    before the first round   register (or wait for the owner to), do the benchmark
    COMMIT                   train the assigned batches, or hold one stage of a model that is split
                             (`agents.rounds.mining`); journal the secret, commit its hash
    REVEAL                   open the commitment; beside it, publish payload, trace and proof
    AGGREGATE                in a job that leaves training to its nodes: show some of the parameters
                             it started from, at places that nobody knew when it committed; in one
                             with a butterfly: merge the shards that it owns of its stage
    reported                 do the work of that round again, and appeal if it was right
                             (`agents.verify.appealing`)
    any phase                permissionless duties, after everybody else; beside all of it, with
                             `executor.with_training`, the tasks that the node is drawn for

It trains in one job at a time (`agents.jobs.following`). Work that it has begun in another one it
brings to its end first: what was committed there is revealed before any other training begins.

What a commitment hides (salt, payload) is on disk before the commitment is sent: a crash at any
line costs no stake. A commitment names a block of the chain that its work was made on, so it counts
on that chain only: after a reorganisation the node commits to what the new seed asks for.
"""

from __future__ import annotations

import time
from functools import partial

from torch import Tensor

from agents.executor import Executor
from agents.jobs.classes import barred
from agents.jobs.following import Following
from agents.jobs.hidden_riders import riders_hidden
from agents.jobs.judgeable import unjudgeable
from agents.jobs.outer_step import weights_of
from agents.jobs.own_data import shown_openly
from agents.jobs.riders import riders_paid
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.nodes.membership import Membership
from agents.pipeline.checkpoint import States
from agents.protocol.formulas import commit_place, opened, round_commitment
from agents.protocol.network import Network
from agents.protocol.numbers import ZERO_DIGEST, Phase, ScorePhase
from agents.protocol.scores import Consensus
from agents.protocol.structs import read
from agents.protocol.view import View, observe
from agents.rounds.carried import Carried
from agents.rounds.data_access import DataAccess
from agents.rounds.mining import Mining
from agents.rounds.plan import Plan
from agents.rounds.privacy_budget import Budget
from agents.rounds.publication import STATES, Publication
from agents.rounds.sharing import Sharing
from agents.rounds.sync_sample import open_samples, sync_root
from agents.rounds.uncharged import Uncharged
from agents.rounds.upkeep import Upkeep
from agents.rounds.work import Producer, Work
from agents.runtime.beside import Beside
from agents.runtime.chain import Head
from agents.runtime.commitments import Commitments, Entry
from agents.runtime.context import Context
from agents.runtime.errors import AgentError
from agents.runtime.faults import crashpoint
from agents.runtime.turns import Duty, Turns
from agents.storage.cid import cid_of_bytes, digest_of
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.storage.several import open_stores
from agents.training.assignment import input_root
from agents.training.determinism import determinism_class
from agents.training.inner_state import shapes_for
from agents.training.local import device_name, device_of
from agents.training.spec import SpecError
from agents.training.state import PayloadError, Shapes, State, load_state
from agents.verify.appealing import OwnAppeals

_PATIENCE_S = 4.0
_ROUNDS_KEPT = 3
_REORG_BLOCKS = 64  # after which a round that ended is not looked at again
_OVER = (Phase.FINALIZED, Phase.VOID)
_ARTEFACTS = ("payload", "trace", "proof", "inbox")  # published, where there is such a file
_KEPT = ("memory", "inner")  # kept for the next round, where there is such a file
_COMMITTED = ("input_root", "content", "trace_root", "salt")


class Trainer:
    """One trainer node, as a function of the chain."""

    def __init__(self, context: Context, store: ContentStore) -> None:
        self.context = context
        self.store = store
        self.network = Network(context.chain, context.deployment)
        self.access = DataAccess(self.network, store, context)
        self.device = device_of(context.settings.device)
        self._class = determinism_class(self.device, context.settings.trainer.compile)
        context.log.info("device", device=self.device, name=device_name(self.device))
        self.reader = self.access.reader(self.device)
        self.models, self.plans = self.reader.models, self.reader.plans
        self._looked_ahead = (0, 0)  # the last job and round after which the budget was looked at
        self._lost_in = 0  # the round in which a lost secret was reported
        self._refused_in = (0, 0)  # the last job and round in which the job's terms were refused
        self._published_in = (0, 0)  # the last job and round whose artefacts are on their way
        self._shown_in = (0, 0)  # the last job and round whose sync sample needs no more thought
        self.consensus = Consensus(self.network)
        self.commitments = Commitments(context.journal, context.artefacts, "trainer")
        self.publication = Publication(context, store, self.commitments, _ARTEFACTS)
        self.membership = Membership(self.network, context, store, self.device)
        self.producer = Producer(context, self.reader.memories, self.access.sealing, self.device)
        self.uncharged = Uncharged(
            *(self.network, self.plans, context.log, self.producer.charge, submission_name)
        )
        self.mining = Mining(
            *(context, self.network, self.models, self.reader.memories, self.device),
            self.outgoing,
        )
        self.sharing = Sharing(
            *(context, self.network, store, self.models, self.plans),
            lambda epoch, own, opened: self.mining.post_of(epoch, own, opened),
            self.outgoing_shards,
        )
        self.following = Following(self.network, context, self.models.job, self.models.fetch)
        self.appeals = OwnAppeals(self.network, context, store, self.reader, self._publish_again)
        self.turns = Turns(context.log, context.metrics)
        self._upkeeps: dict[int, Upkeep] = {}
        self._over: dict[tuple[int, int], int] = {}  # rounds with own work that ended: when seen
        # Training holds the loop up for longer than a task's executors have to reveal.
        self.tasks: Beside | None = None
        if context.settings.executor.with_training:
            self.tasks = Beside(Executor(context, store), context, (StoreError,))

    def step(self, head: Head) -> str | None:
        """The single next action."""
        if self.tasks is not None:
            self.tasks.start()
        self.publication.step()
        node = self.membership.node_id
        did = self.membership.step(head, free=not self.begun(head, node))
        if did:
            return did
        node = self.membership.node_id
        views = {job: observe(self.network, job, head) for job in self.begun(head, node)}
        busy = {job for job, view in views.items() if self._to_open(view, node)}
        did = self.appeals.step(head, node, free=not busy)
        if did:
            return did
        revealing = any(views[job].phase == Phase.REVEAL for job in busy)
        job_id = self.following.job(head, node, busy, revealing)
        # First what is due elsewhere: a reveal must not wait for the training of another job.
        duties = {job: partial(self._finish, view, node) for job, view in views.items()}
        duties.pop(job_id, None)
        if job_id:
            view = views.get(job_id) or observe(self.network, job_id, head)
            # What is committed to now would wait for the benchmark to be revealed.
            elsewhere = bool(busy - {job_id}) or self.membership.measuring
            duties[job_id] = partial(self._work, view, node, elsewhere)
        for left in self._upkeeps.keys() - duties.keys():
            del self._upkeeps[left]
            self.context.metrics.forget_job(left)
        named = {job: partial(self._named, job, duty) for job, duty in duties.items()}
        return self.turns.step(named)

    def _named(self, job_id: int, duty: Duty) -> str | None:
        """What a duty did, with the job where the settings leave it open."""
        did = duty()
        return did if did is None or self.context.settings.job_id else f"{did} (job {job_id})"

    def _work(self, view: View, node: int, elsewhere: bool) -> str | None:
        """The next action in the job that the node trains in. `elsewhere`: it has work to open in
        another one, or measures its machine, so it begins none here."""
        self.context.metrics.see_round(view.job_id, view.round_id, view.phase)
        did = None
        if node and view.phase == Phase.COMMIT:
            did = None if elsewhere else self._begin(view, node)
        elif node:
            did = self._open(view, node)
        if node and not did:
            did = self.access.step(view.job_id, node)
        return did or self.upkeep(view.job_id).step(view)

    def _finish(self, view: View, node: int) -> str | None:
        """The next action in a round that the node has work in, of a job that it has left."""
        return self._open(view, node) or self.upkeep(view.job_id).step(view)

    def _open(self, view: View, node: int) -> str | None:
        if view.phase == Phase.REVEAL:
            return self.reveal(view, node)
        if view.phase in (Phase.AGGREGATE, Phase.CHALLENGE, Phase.DISPUTED):
            self._publish(view, node)
            return self.show(view, node) or self.sharing.step(view, node)
        return None

    def _publish(self, view: View, node: int) -> None:
        """What was revealed and is not published yet, such as after a restart, is published."""
        if self._published_in != (view.job_id, view.round_id):
            self._published_in = (view.job_id, view.round_id)
            found = self._secret_of(view, node) if self._revealed(view, node) else None
            if found is not None:
                self.publication.want(found[0])

    def _publish_again(self, view: View, node: int) -> None:
        """Who is to judge a reported round needs what this node published of it."""
        found = self._secret_of(view, node)
        if found is not None:
            self.publication.again(found[0])

    # -- jobs ----------------------------------------------------------------------------------

    def begun(self, head: Head, node: int) -> list[int]:
        """Jobs whose running round the node has journalled work of, from this run or another."""
        if not node:
            return []
        found = []
        for job_id in sorted(self.commitments.numbers("submission-")):
            numbers = sorted(self.commitments.numbers(f"submission-{job_id}-"))
            place = job_id, numbers[-1]
            if head.number > self._over.get(place, head.number) + _REORG_BLOCKS:
                continue
            phase = self.network.round(*place).phase
            if phase == Phase.NONE:
                continue  # a node that lags behind: whether the round is over is not known
            if phase not in _OVER:
                self._over.pop(place, None)
                found.append(job_id)
            elif place not in self._over:
                self._over[place] = head.number
                rounds, chain = self.network.rounds, self.context.chain
                calls = [(rounds, "commitment_of", (job_id, n, node)) for n in numbers]
                late = [
                    number
                    for number, commitment in zip(numbers, chain.call_many(calls), strict=True)
                    if commitment == ZERO_DIGEST
                ]
                self.following.was_late(job_id, numbers, late)
        return found

    def _to_open(self, view: View, node: int) -> bool:
        """Whether a commitment of the node waits for its reveal, and time is left for it."""
        if view.overdue or view.phase not in (Phase.COMMIT, Phase.REVEAL):
            return False
        return self._commitment(view, node) != ZERO_DIGEST and not self._revealed(view, node)

    def upkeep(self, job_id: int) -> Upkeep:
        """The permissionless duties of a job."""
        if job_id not in self._upkeeps:
            self._upkeeps[job_id] = Upkeep(
                self.network, self.context.sender, _PATIENCE_S, self.context.settings.jitter_s
            )
        return self._upkeeps[job_id]

    # -- COMMIT --------------------------------------------------------------------------------

    def _begin(self, view: View, node: int) -> str | None:
        """As `commit`; a job whose work can't be done here is left for another one."""
        try:
            return self.commit(view, node)
        except (AgentError, StoreUnavailable):
            raise
        except Exception as error:  # a stranger's job, whose files may be anything
            # What is missing may be on its way; anything else stays as it is.
            why, comes = f"{type(error).__name__}: {error}"[:300], isinstance(error, StoreError)
            did = self._leave(view, why, comes)
            if did is None:
                raise
            return did

    def _leave(self, view: View, why: str, comes: bool = True) -> str | None:
        """Leave a job for a while, in which work can't be begun; None if the node stays. `comes`:
        what it lacks may come yet, and is waited for a little."""
        within_s = view.job.terms.commit_s if comes else 0
        left = self.following.unable(view.job_id, within_s, view.now, why)
        return f"left: job {view.job_id} for a while" if left else None

    def commit(self, view: View, node: int) -> str | None:
        """Train if that has not been done, then commit."""
        if node not in view.snapshot.nodes:
            return self._rejoin(view, node)
        if self._commitment(view, node) != ZERO_DIGEST:
            return self._look_ahead(view, node)
        broken = self._refusal(view)
        if broken is not None:
            if self._refused_in != (view.job_id, view.round_id):
                self._refused_in = (view.job_id, view.round_id)
                self.context.log.warning("job_refused", job=view.job_id, why=broken)
            return None
        plan = None if view.overdue else self.plans.of(view)
        # Asked for now: training takes long, and the chain may move meanwhile.
        seen = None if plan is None else self.network.seen(view.round.seed_block, view.block)
        if plan is None or seen is None:
            return None
        name = submission_name(view.job_id, view.round_id, plan.manifest.seed)
        secret = self.commitments.get(name)
        if secret is None:
            if not self.access.may_train(view.job_id, plan, node):
                return self._leave(view, "nobody has given this node the keys of its data")
            if not self._affords(view, plan, node, name):
                return self._rest(view, node)
            self.commitments.sweep(f"submission-{view.job_id}-", name)
            work = self.produce(view, plan, node)
            if work is None:
                return self._leave(view, "there is no stage for this node, or too few others came")
            secret = self._remember(name, view, plan, node, work)
            self.following.able(view.job_id)
        self.publication.check()
        crashpoint("trainer-before-commit")
        self.context.sender.ensure(
            lambda: self._commitment(view, node) != ZERO_DIGEST,
            self.network.rounds,
            "commit_on",
            commit_place(view.job_id, view.round_id, node, seen),
            self._digest(view, node, secret),
        )
        crashpoint("trainer-after-commit")
        # At once: where everyone is quick, the next round opens a few blocks from now.
        resting = self._look_ahead(view, node, plan)
        return f"committed: round {view.round_id}{f', then {resting}' if resting else ''}"

    def _refusal(self, view: View) -> str | None:
        """Why this node does not train in a job, also where the operator named it: its terms, what
        it pays for, or the class that the node computes in."""
        terms = view.job.terms
        if broken := self.network.bounds().broken_by(terms):
            return broken
        job = self.models.job(view.job_id)
        if undeterred := self.following.stakes.now().undeterred(terms, job.spec):
            return undeterred
        if too_long := unjudgeable(job, terms):
            return too_long
        settings = self.context.settings.trainer
        if paid := riders_paid(job.spec, settings) or riders_hidden(job, settings):
            return paid
        if shown := shown_openly(job, self.context.settings):
            return shown
        return barred(job, self.device, settings.compile)

    def produce(self, view: View, plan: Plan, node: int) -> Work | None:
        """Do the task: local steps, privacy, payload, trace and proof of computation."""
        job = self.models.job(view.job_id)
        if job.slices is not None:
            name = submission_name(view.job_id, view.round_id, plan.manifest.seed)
            states = States(self.commitments.path(name, STATES))
            return self.mining.produce(job, view, plan, node, self._carried, states)
        before = self.starting_state(view)
        extra = self.extra_batches(view, plan, node) if job.verification.extra_batches else 0
        return self.producer.produce(
            job, view, plan, node, before, self.outgoing, self._carried, extra
        )

    def starting_state(self, view: View) -> State:
        """The parameters to train from: the round's model."""
        return self.models.at(view.job_id, view.round.prev_model)

    def extra_batches(self, view: View, plan: Plan, node: int) -> int:
        """How many unassigned batches to train on as well, where the job leaves that to nodes."""
        handed_out = sum(assignment.batches for assignment in plan.manifest.assignments)
        return min(self.context.settings.trainer.extra_batches, handed_out)

    def outgoing(self, update: State, memory: State | None) -> State:
        """The update that privacy and codec are applied to: the one that training gave."""
        return update

    def outgoing_shards(self, owner: int, shards: dict[int, Tensor]) -> dict[int, Tensor]:
        """The merged shards that the node publishes: those that merging gave."""
        return shards

    def _carried(self, job_id: int, round_id: int, seed: bytes) -> Carried | None:
        """This node's own copy of what it takes out of a round: its codec's memory and the state of
        its inner optimizer.

        A copy that has changed since counts as lost, because nobody could redo what is made with
        it. So does one that was made in another determinism class, where work is redone: a verifier
        of the present one would find other bits.
        """
        job, name = self.models.job(job_id), submission_name(job_id, round_id, seed)
        secret = self.commitments.get(name)
        if secret is None:
            return None
        if job.verification.redone and secret.get("class", self._class) != self._class:
            return None
        shapes: Shapes | None = job.shapes
        if job.slices is not None:
            epoch = self.plans.past(job_id, round_id).epoch
            stage = None if epoch is None else epoch.stage_of(self.membership.node_id)
            shapes = None if stage is None else job.stage_shapes(stage)
        owed = inner = None
        if job.slices is not None or job.codec.has_memory:
            owed = None if shapes is None else self._copy(name, secret, "memory", shapes)
            if owed is None:
                return None
        if job.inner_rounds:
            inner = self._copy(name, secret, "inner", shapes_for(job.net(self.device), job.spec))
            if inner is None:
                return None
        return Carried(owed, inner)

    def _copy(self, name: str, secret: Entry, what: str, shapes: Shapes) -> State | None:
        """A kept file; None if it is gone, or is no longer what the journal says."""
        path = self.commitments.path(name, what)
        if not path.exists():
            return None
        raw = path.read_bytes()
        if secret.get(what) != _digest_of(raw):
            self.context.metrics.resyncs.inc()
            self.context.log.warning("resynced", damaged=path.name)
            return None
        return load_state(raw, shapes)

    # -- privacy -------------------------------------------------------------------------------

    def budget(self, job_id: int) -> Budget:
        """This node's account of what it has told about its data in a job."""
        limit = self.context.settings.trainer.max_epsilon
        return Budget(self.context.journal, job_id, self.models.job(job_id).privacy, limit)

    def _affords(self, view: View, plan: Plan, node: int, name: str = "") -> bool:
        """Whether the budget has room for a round like this one. `name`: its submission's."""
        job, budget = self.models.job(view.job_id), self.budget(view.job_id)
        charge = self.producer.charge(job, plan, node)
        if charge is not None:
            self.uncharged.charge(job, budget, view, node)
        return budget.allows(charge, name)

    def _look_ahead(self, view: View, node: int, plan: Plan | None = None) -> str | None:
        """Once committed: leave before a round opens that the budget could not pay for."""
        place = (view.job_id, view.round_id)
        plan = None if self._looked_ahead == place else plan or self.plans.of(view)
        if plan is None:
            return None
        if self._affords(view, plan, node):
            self._looked_ahead = place
            return None
        return self._rest(view, node)

    def _rest(self, view: View, node: int) -> str | None:
        """Stop by itself: go to another job, or else be in no round from the next on."""
        if not self.network.node(node).active:
            return None
        budget = self.budget(view.job_id)
        spent, left, other = budget.spent(), budget.remaining(), budget.elsewhere()
        self.context.log.warning(
            "privacy_budget_spent", epsilon=spent, left=left, elsewhere=other, node_id=node
        )
        said = f"epsilon {spent:.3f} is spent" + (f" and {other:.3f} elsewhere" if other else "")
        if self.following.leave(view.job_id, f"its privacy budget is used up: {said}"):
            return f"left: job {view.job_id}, where {said}"
        self.context.sender.send(self.network.registry, "set_active", node, False)
        return f"resting: {said}; the {left:.3f} left are too little for more"

    def _remember(self, name: str, view: View, plan: Plan, node: int, work: Work) -> Entry:
        """Put the secret and the artefacts on disk; only then may the commitment be sent.

        The privacy budget is charged first: what a crash leaves uncommitted is done again under the
        same name, which counts once.
        """
        fields = {
            "input_root": self._input_root(view, plan, node),
            "content": _digest_of(work.payload),
            "trace_root": work.trace_root.hex(),
            "proof": _digest_of(work.proof),
            "time": str(int(time.time())),
            "class": self._class,
        }
        kept = {what: getattr(work, what) for what in _KEPT}
        fields |= {what: _digest_of(raw) for what, raw in kept.items() if raw is not None}
        charge = self.producer.charge(self.models.job(view.job_id), plan, node)
        if charge is not None:
            budget = self.budget(view.job_id)
            budget.record(name, charge)
            self.context.metrics.epsilon.labels(view.job_id).set(budget.spent())
            self.context.log.info(
                "privacy",
                round=view.round_id,
                epsilon=budget.spent(),
                epsilon_rdp=budget.spent_rdp(),
                left=budget.remaining(),
            )
        files = {artefact: getattr(work, artefact) for artefact in _ARTEFACTS} | kept
        secret = self.commitments.keep(name, fields, files)
        self.commitments.forget_until(f"submission-{view.job_id}-", view.round_id - _ROUNDS_KEPT)
        return secret

    def _rejoin(self, view: View, node: int) -> str | None:
        """Come back to a job that stopped expecting this node."""
        chain, rounds = self.context.chain, self.network.rounds
        if not chain.call(rounds, "is_absent", view.job_id, node):
            return None
        self.context.sender.send(rounds, "rejoin", view.job_id, node)
        return f"rejoined: job {view.job_id}"

    # -- REVEAL --------------------------------------------------------------------------------

    def reveal(self, view: View, node: int) -> str | None:
        """Open the commitment, and begin to publish what it hid."""
        committed = self._commitment(view, node) != ZERO_DIGEST
        if not committed or view.overdue or self._revealed(view, node):
            return self._look_ahead(view, node) if committed else None
        found = self._secret_of(view, node)
        if found is None:
            why = "the journal has no secret of this commitment; it can't be revealed"
            self._say_lost(view, "secret_lost", why)
            return None
        name, secret = found
        changed = self._task_changed(view, node, name, secret)
        if changed is None:
            return None
        if changed:
            # Revealed, it would count as INVALID, which costs far more than silence.
            why = "the chain moved after the commitment: the task it was made for is another one"
            self._say_lost(view, "task_changed", why)
            return None
        self.publication.want(name)
        self.publication.step()
        crashpoint("trainer-before-reveal")
        self.context.sender.ensure(
            lambda: self._revealed(view, node),
            self.network.rounds,
            "reveal",
            view.job_id,
            view.round_id,
            node,
            *(bytes.fromhex(secret[key]) for key in (*_COMMITTED, "proof")),
        )
        crashpoint("trainer-after-reveal")
        return f"revealed: round {view.round_id}"

    def _task_changed(self, view: View, node: int, name: str, secret: Entry) -> bool | None:
        """Whether the chain moved after the commitment, to another task; None: not known yet.

        The seed comes from a block after all that a task follows from, and the submission bears it
        in its name. So where it is the same the task is, and nothing of the sponsor's is read: a
        spec that comes slowly must not hold up the reveal. Where it is another one and the task
        can't be derived, that counts as another task.
        """
        seed = self.network.seed(view.job_id, view.round_id, view.round)
        if seed is None:
            return None
        if submission_name(view.job_id, view.round_id, seed) == name:
            return False
        try:
            if not self.models.job(view.job_id).verification.input_enforced:
                return False
            plan = self.plans.of(view)
        except (StoreError, SpecError, PayloadError):
            return True
        return None if plan is None else secret["input_root"] != self._input_root(view, plan, node)

    def _say_lost(self, view: View, what: str, why: str) -> None:
        """Once a round: the stake at risk is the operator's, and nothing else can be done."""
        if self._lost_in != view.round_id:
            self._lost_in = view.round_id
            self.context.log.error(what, round=view.round_id, why=why)

    def _secret_of(self, view: View, node: int) -> tuple[str, Entry] | None:
        """The journalled secret of the commitment on chain (a reorg may leave several)."""
        place = f"submission-{view.job_id}-{view.round_id}-", self._commitment(view, node)
        found = self.commitments.behind(*place, lambda secret: self._digest(view, node, secret))
        # With the reveal, the chain replaces the commitment by a hash of what it opened.
        return found or self.commitments.behind(*place, _opened)

    # -- AGGREGATE -----------------------------------------------------------------------------

    def show(self, view: View, node: int) -> str | None:
        """Open the committed root of the starting parameters where the audit seed says, once.

        All it needs is the chain and the model, so a restart at any point changes nothing. Whether
        it was done is asked of the chain until it is too late.
        """
        try:
            return self._open_sample(view, node)
        except (SpecError, StoreError, PayloadError) as error:
            # Tried again at the next head; until then nothing else should wait for it.
            self.context.log.debug("cannot_show_yet", round=view.round_id, why=str(error))
            return None

    def _open_sample(self, view: View, node: int) -> str | None:
        place = (view.job_id, view.round_id)
        if self._shown_in == place or node not in view.snapshot.nodes:
            return None
        job = self.models.job(view.job_id)
        rule = job.score
        if not isinstance(rule, Gauntlet) or not self.consensus.adopted(view.job_id):
            return None
        if not self._revealed(view, node) or self._too_late(view):
            self._shown_in = place
            return None
        audit_seed = self.network.seed(view.job_id, view.round_id, view.round, audit=True)
        if audit_seed is None or self._shown(view, node):
            return None
        reveals = self.network.reveals(view.job_id, view.round_id, view.round.opened_block)
        state = weights_of(self.starting_state(view), job.shapes)
        if node not in reveals or sync_root(state) != reveals[node].trace_root:
            self._shown_in = place
            why = "the parameters at hand are not those that were committed to"
            self.context.log.error("cannot_show", round=view.round_id, why=why)
            return None
        sample = self.store.put_bytes(open_samples(state, audit_seed, rule.samples))
        self.store.pin(sample)
        crashpoint("trainer-before-samples")
        self.context.sender.ensure(
            lambda: self._shown(view, node),
            self.network.scores,
            "post_samples",
            view.job_id,
            view.round_id,
            node,
            digest_of(sample),
        )
        crashpoint("trainer-after-samples")
        return f"shown: starting parameters of round {view.round_id}"

    def _shown(self, view: View, node: int) -> bool:
        scores, chain = self.network.scores, self.context.chain
        found = chain.call(scores, "samples_of", view.job_id, view.round_id, node)
        return read(bytes, found) != ZERO_DIGEST

    def _too_late(self, view: View) -> bool:
        """Whether the validators' time to commit their scores is over."""
        scoring = self.consensus.scoring(view.job_id, view.round_id)
        return scoring.phase > ScorePhase.COMMIT or view.now > scoring.commit_deadline

    # -- small things --------------------------------------------------------------------------

    def _commitment(self, view: View, node: int) -> bytes:
        rounds, chain = self.network.rounds, self.context.chain
        return read(bytes, chain.call(rounds, "commitment_of", view.job_id, view.round_id, node))

    def _input_root(self, view: View, plan: Plan, node: int) -> str:
        """What the node's commitment must bind, as hex."""
        return input_root(plan.manifest, node, view.round.prev_model).hex()

    def _digest(self, view: View, node: int, secret: Entry) -> bytes:
        """The commitment to a secret.

        Made here and not by the contract's view: whoever serves the chain would learn the payload's
        digest and the salt, and could commit to the same payload.
        """
        input_root, content, trace_root, salt = (bytes.fromhex(secret[key]) for key in _COMMITTED)
        return round_commitment(
            self.network.deployment.chain_id,
            self.network.rounds.address,
            (view.job_id, view.round_id, node),
            self.context.wallet.address,
            (input_root, content, trace_root, salt),
        )

    def _revealed(self, view: View, node: int) -> bool:
        rounds, chain = self.network.rounds, self.context.chain
        return read(bool, chain.call(rounds, "is_revealed", view.job_id, view.round_id, node))


def _opened(secret: Entry) -> bytes:
    return opened(bytes.fromhex(secret["content"]), bytes.fromhex(secret["trace_root"]))


def _digest_of(content: bytes) -> str:
    return digest_of(cid_of_bytes(content)).hex()


def submission_name(job_id: int, round_id: int, seed: bytes) -> str:
    """The journal key of a round's submission; a reorg that changes the seed changes it."""
    return f"submission-{job_id}-{round_id}-{seed.hex()[:16]}"


def build(context: Context) -> Trainer:
    """The trainer of a started agent."""
    return Trainer(context, open_stores(context.settings.store))
