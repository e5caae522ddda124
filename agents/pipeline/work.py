# SPDX-License-Identifier: Apache-2.0
"""A miner's work of one epoch, entry by entry: the live miner and its verifier call the same class.

Rule: the entries decide everything. Who executes the same ones from the same weights gets the same
messages, log and weights, bit for bit within a determinism class. The inner optimizer starts from
zero in every epoch, so the weights are all that an epoch starts from.

A step takes a number of passes, and as many samples are under way at most. Who begins one more
lets go of the one that waits longest, as a STEP would: it can't come back any more. Else a miner
whose samples all were given up could neither step, without a pass, nor begin anything.

With segments the log's state hashes bind the optimizer too (`agents.pipeline.checkpoint`), and a
verifier goes on from a state in the middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from eth_utils import keccak
from torch import Tensor

from agents.pipeline.checkpoint import joined, state_hash
from agents.pipeline.clasp import loss_digest, stated
from agents.pipeline.epoch import Epoch
from agents.pipeline.inbox import Entry, Received
from agents.pipeline.miner_log import Event, Kind, MinerLog, Origin
from agents.pipeline.stage import Backward, Forward, Passed, StageError, StageRunner, Step
from agents.training.slices import Slices
from agents.training.spec import Hyperparameters
from agents.training.state import State, model_hash

EMPTY = keccak(b"")  # the digest where nothing comes in, or nothing goes out

Keep = Callable[[int, State], None]


class StageWork:
    """One miner of one epoch at work.

    Attributes:
        events: what was executed, as the log has it.
        waiting: samples between their forward and their backward, in the order of their forwards.
        passes: backward passes since the last step.
        losses: by sample, in nats a token; of the last stage only.
    """

    def __init__(
        self,
        slices: Slices,
        epoch: Epoch,
        miner: int,
        state: State,
        hyper: Hyperparameters,
        batch: Callable[[int], Tensor],
        in_flight: int = 8,
        device: str = "cpu",
        recompute: bool = False,
        segment: int = 0,
        keep: Keep | None = None,
    ) -> None:
        """`state`: of the miner's stage, at the epoch's start. `batch`: tokens of a sample, int64
        [batch, seq + 1]. `in_flight`: passes that one step takes, so the samples that may wait.
        `recompute`: as `Stage`. `segment`: steps of one; 0 for an epoch that is one piece. `keep`:
        called with each whole segment's last step, counted from 1, and the state after it, whose
        tensors the next step changes.

        Raises:
            ValueError: the miner holds no stage, or as StageRunner.
        """
        stage = epoch.stage_of(miner)
        if stage is None:
            raise ValueError(f"Miner {miner} holds no stage in this epoch.")
        self.stage, self.slices = stage, slices
        self.epoch, self.miner = epoch, miner
        self.events: list[Event] = []
        self.waiting: dict[int, None] = {}
        self.passes = self.steps = 0
        self.losses: dict[int, float] = {}
        self._batch, self._most = batch, in_flight
        self._runner = StageRunner(slices, stage, state, hyper, in_flight, device, recompute)
        self._segment, self._keep = segment, keep
        first = model_hash(state)
        self._origin = Origin(miner, epoch.number, stage, state_hash(first) if segment else first)
        self._state = self._origin.state

    def go_on(self, weights: State, optimizer: State, steps: int) -> None:
        """Begin in the middle of the epoch, after so many steps.

        Raises:
            PayloadError: this is no state of the stage's optimizer, or of another step.
        """
        self._runner.go_on(weights, optimizer, steps)
        self.steps = steps
        self._state = self.state_hash()

    def coast(self) -> None:
        """Make a step without a gradient, which is not logged; nothing can follow."""
        self._runner.coast()

    def do(self, entry: Entry) -> Passed:
        """Execute the next entry and log it.

        Raises:
            StageError: out of order, not of this epoch, or not of this stage; nothing has changed.
            WireError: its message is none of this sample; nothing has changed, but that the sample
                which would have made room for it is gone, as after the next forward in any case. Or
                this stage's own numbers can't be sent.
            FloatingPointError: the loss or a gradient stopped being finite.
        """
        if entry.kind is Kind.STEP:
            return self._step(entry)
        wrong = out_of_place(self.epoch, self.miner, entry)
        if wrong:
            raise StageError(wrong)
        comes = self.epoch.source_of(self.stage, entry.kind) is not None
        message = entry.message if comes else None
        if entry.kind is Kind.FORWARD:
            self._make_room()
            tokens = self._batch(entry.sample)
            passed = self._runner.do(Forward(entry.sample, tokens, message))
            self.waiting[entry.sample] = None
            if passed.loss is not None:
                self.losses[entry.sample] = passed.loss
        else:
            passed = self._runner.do(Backward(entry.sample, message))
            del self.waiting[entry.sample]
            self.passes += 1
        out = digest(passed.message)
        if passed.loss is not None:
            ((_, loss),) = stated({entry.sample: passed.loss})
            out = loss_digest(loss)
        self.events.append(Event(entry.kind, entry.sample, digest(message), out))
        return passed

    def take_back(self) -> None:
        """Undo the forward that was executed last, which changed no gradient and no weight. What
        made room for it stays gone, as after the next forward. ValueError where the last event is
        none."""
        if not self.events or self.events[-1].kind is not Kind.FORWARD:
            raise ValueError("The last event is no FORWARD.")
        sample = self.events.pop().number
        self._runner.drop(sample)
        del self.waiting[sample]
        self.losses.pop(sample, None)

    def begin_step_again(self) -> None:
        """Undo all since the last step, or the epoch's start, which changed no weight. A step that
        failed may have changed weights, and can't be undone."""
        while self.events and self.events[-1].kind is not Kind.STEP:
            self.losses.pop(self.events.pop().number, None)
        self._runner.begin_step_again()
        self.waiting.clear()
        self.passes = 0

    def _make_room(self) -> None:
        if self.passes + len(self.waiting) < self._most:
            return
        if not self.waiting:
            raise StageError(f"a step takes {self._most} passes, and so many were made")
        oldest = next(iter(self.waiting))
        self._runner.drop(oldest)
        del self.waiting[oldest]

    def _step(self, entry: Entry) -> Passed:
        if entry != Entry(Kind.STEP, self.steps):
            raise StageError(f"this should be step {self.steps}, which comes from nobody")
        passed = self._runner.do(Step())
        self.stepped()
        return passed

    def stepped(self) -> None:
        """Log the step that was just made."""
        before, number = self._state, self.steps
        self.waiting.clear()
        self.passes, self.steps = 0, number + 1
        self._state = self.state_hash()
        self.events.append(Event(Kind.STEP, number, before, self._state))
        if self._keep is not None and self._segment and self.steps % self._segment == 0:
            self._keep(self.steps, joined(self.state(), self.optimizer()))

    def state_hash(self) -> bytes:
        """What the log says of the state now."""
        weights = model_hash(self.state())
        if not self._segment:
            return weights
        return state_hash(weights, model_hash(self.optimizer())) if self.steps else self._state

    def state(self) -> State:
        """The stage's weights now: views, which the next step changes."""
        net = self._runner.net
        return net.split(net.values)

    def optimizer(self) -> State:
        """What the optimizer has gathered: views, which the next step changes."""
        return self._runner.gathered(self.steps)

    def log(self) -> MinerLog:
        """What was executed so far."""
        return MinerLog(self._origin, tuple(self.events))


def replay(work: StageWork, entries: Iterable[Entry]) -> StageWork:
    """The work after these entries. Raises as `StageWork.do`."""
    for entry in entries:
        work.do(entry)
    return work


def since_step(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries behind the last STEP; all where there is none."""
    steps = [place for place, entry in enumerate(entries) if entry.kind is Kind.STEP]
    return entries[steps[-1] + 1 :] if steps else entries


def out_of_place(epoch: Epoch, miner: int, entry: Entry | Received) -> str:
    """Why a pass can't come to this miner from whom it is said to; empty if it can."""
    stage = epoch.stage_of(miner)
    if stage is None:
        return f"miner {miner} holds no stage in this epoch"
    if entry.sample not in epoch.samples:
        return f"sample {entry.sample} is not handed out in this epoch"
    if epoch.source_of(stage, entry.kind) is not None:
        allowed = epoch.may_send(entry.sample, entry.kind, entry.sender, stage)
    else:
        allowed = entry.bare
        if stage == 0 and not epoch.begins(entry.sample, miner):
            return f"sample {entry.sample} begins at another miner"
    return "" if allowed else f"the sender of sample {entry.sample} is not one of the stage beside"


def change(before: State, after: State) -> State:
    """What a miner's payload says: its stage at the epoch's start less the one at the end."""
    return {name: before[name] - after[name] for name in sorted(before)}


def digest(message: bytes | None) -> bytes:
    """keccak256 of a message; of nothing, where none passes."""
    return EMPTY if message is None else keccak(message)
