# SPDX-License-Identifier: Apache-2.0
"""A pool of executors beside the market, and what its people do with redundant tasks.

The market's trainers sit in the pool of the first determinism class, its verifiers judge appeals.
A draw is played as it falls: where an attack needs the attacker's nodes in certain lanes, its
request waits for a block whose seed gives them. How often that is the case is a matter of
`task_endings`, never of the blocks that were waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from eth_utils import keccak

from agents.protocol import formulas
from agents.protocol.numbers import LaneState, TaskStatus
from agents.runtime.config import VerifierSettings
from scripts._attacks.embedded import CHAIN_ID, Refused
from scripts._attacks.market import EMPTY, Market, Player
from scripts._attacks.refusal import refused

SPEC = keccak(text="a task's spec")
RIGHT, FAKE, OTHER_FAKE = (keccak(text=f"result {name}") for name in ("right", "fake", "other"))
CLASS = 0
_TRIES = 20_000  # blocks that a draw is waited for
_BRIEF_S = 2  # that two blocks take where nothing depends on it: it leaves time to executors
_TOO_FEW = "verdicts: too few verifiers"

Answer = Callable[[Player], bytes | None]
"""The result that a node commits to and reveals; None: it is silent."""


@dataclass(frozen=True)
class TaskNumbers:
    """What attacks on tasks are played at, beside the market's numbers. Amounts in 1e-18 ZOO.

    Attributes:
        fee: of a task; None for the greatest that the deployment allows.
        run_s: that a task asks for; no more than the deployment allows.
        audit_rate: share of outcomes that each verifier of the class runs again, in private.
        judges: verifiers who declare the class, of the market's; None for all. The attacker's
            are the first of them. Others do not vote: they can't run the task.
        appeals: whether an honest executor that is outvoted appeals.
    """

    fee: int | None = None
    run_s: int = 600
    audit_rate: Fraction = Fraction(str(VerifierSettings().task_audit_rate))
    judges: int | None = None
    appeals: bool = True

    def fee_of(self, market: Market) -> int:
        """A task's fee."""
        return market.settings.tasks.max_fee if self.fee is None else self.fee

    def run_s_of(self, market: Market) -> int:
        """A task's time to run, seconds."""
        return min(self.run_s, market.settings.tasks.max_run_s)

    def compute_of(self, market: Market) -> int:
        """What running a task costs one node: the market's share of what it is paid."""
        return int(Fraction(str(market.numbers.compute)) * self.fee_of(market) / 2)

    def honest_judges(self, market: Market) -> list[Player]:
        """The honest verifiers who declare the class and vote."""
        able = market.verifiers if self.judges is None else market.verifiers[: self.judges]
        return [player for player in able if player not in market.evil_verifiers]

    def found_of(self, market: Market) -> Fraction:
        """The chance that at least one of them has a task in its sample."""
        return 1 - (1 - self.audit_rate) ** len(self.honest_judges(market))


class TaskPool:
    """The pool, while an attack is played. It begins with everybody's seat taken."""

    def __init__(
        self, market: Market, numbers: TaskNumbers, members: Sequence[Player] | None = None
    ) -> None:
        """Seat `members`, all trainers by default; let the honest judges declare the class."""
        self.market, self.numbers, self.chain = market, numbers, market.chain
        self.members = list(market.trainers if members is None else members)
        self.judges = numbers.honest_judges(market)
        self.fee = numbers.fee_of(market)
        for player in self.members:
            self.sit(player)
        for player in self.judges:
            declared = (player.node, 1 << CLASS)
            self.chain.send(player.operator, "TaskAppeals", "declare_classes", *declared)
        self.chain.wait()

    def sit(self, player: Player, class_id: int = CLASS) -> None:
        """Take a seat in a pool. Raises Refused."""
        self.chain.send(player.operator, "RedundantTasks", "join", player.node, class_id)
        if player not in self.members:
            self.members.append(player)

    def refused(self, reason: str, sender: str, function: str, *args: Any) -> None:
        """RedundantTasks does not do this; see `refusal.refused`."""
        refused(self.chain, reason, sender, "RedundantTasks", function, *args)

    @property
    def evil(self) -> list[Player]:
        """The attacker's executors."""
        return [player for player in self.members if player in self.market.evil]

    # -- reading -------------------------------------------------------------------------------

    def state(self, task: int) -> Any:
        """The task, as the contract has it."""
        return self.chain.read("RedundantTasks", "task", task)

    def status(self, task: int) -> TaskStatus:
        return TaskStatus(self.state(task).status)

    def runners(self, task: int) -> list[Player]:
        """The executors by lane."""
        return [self._player(node) for node in self.state(task).nodes]

    def expected(self, task: int) -> list[Player]:
        """Whom a draw would take now; nobody while the seed is unknown."""
        return [self._player(n) for n in self.chain.read("RedundantTasks", "expected", task)]

    def _player(self, node: int) -> Player:
        return next(player for player in self.members if player.node == node)

    # -- a task --------------------------------------------------------------------------------

    def create(
        self,
        creator: str | None = None,
        fee: int | None = None,
        class_id: int = CLASS,
        run_s: int | None = None,
    ) -> int:
        """A new task, of the sponsor unless told. Raises Refused."""
        time = self.numbers.run_s_of(self.market) if run_s is None else run_s
        terms = (class_id, SPEC, self.fee if fee is None else fee, time)
        sender = creator or self.market.sponsor
        return int(self.chain.send(sender, "RedundantTasks", "create_task", *terms))

    def requested(
        self, request: Callable[[], Any], wanted: Callable[[list[Player]], bool], task: int
    ) -> None:
        """Do what requests a draw, in the first block from which those are drawn that are wanted;
        then go to where the draw may be captured. Raises RuntimeError if no block gives them."""
        for _ in range(_TRIES):
            with self.chain.undone():
                request()
                self.chain.wait(_BRIEF_S, 2)
                fits = wanted(self.expected(task))
            if fits:
                request()
                self.chain.wait(_BRIEF_S, 2)
                return
            self.chain.wait(0)
        raise RuntimeError("No block draws the nodes that the attack is about.")

    def new(
        self,
        wanted: Callable[[list[Player]], bool] = bool,
        creator: str | None = None,
        **terms: Any,
    ) -> int:
        """A new task whose first two are as wanted, not captured. `terms`: of `create`."""
        task = int(self.chain.read("RedundantTasks", "task_count")) + 1
        self.requested(lambda: self.create(creator, **terms), wanted, task)
        return task

    def drawn(self, evil: int, creator: str | None = None) -> int:
        """A new task of whose first two so many are the attacker's."""

        def wanted(drawn: list[Player]) -> bool:
            return len(drawn) == 2 and sum(player in self.evil for player in drawn) == evil

        return self.new(wanted, creator)

    def beside_honest(self) -> tuple[int, Player, Player]:
        """A new task that one of the attacker's nodes and an honest one were drawn for; they."""
        task = self.drawn(1)
        first, second = self.draw(task)
        return (task, first, second) if first in self.evil else (task, second, first)

    def draw(self, task: int) -> list[Player]:
        """Anyone captures the draw, which is due; all executors by lane. Raises Refused."""
        self.chain.send(self.market.stranger_address, "RedundantTasks", "draw", task)
        return self.runners(task)

    def tag(self, task: int, result: bytes) -> bytes:
        """What stands for a result until two agree."""
        at = self.chain["RedundantTasks"].address
        return formulas.task_tag(CHAIN_ID, at, task, result)

    def digest(self, task: int, player: Player, tag: bytes) -> bytes:
        """What the player commits to."""
        at = self.chain["RedundantTasks"].address
        parts = (SPEC, tag, self.salt(task, player))
        return formulas.task_commitment(CHAIN_ID, at, (task, player.node), player.operator, parts)

    @staticmethod
    def salt(task: int, player: Player) -> bytes:
        return keccak(text=f"salt of {player.name} in {task}")

    def lane(self, task: int, player: Player) -> int:
        return self.runners(task).index(player)

    def commit(
        self, task: int, player: Player, result: bytes = RIGHT, digest: bytes | None = None
    ) -> None:
        """Commit to a result, or to the digest that is given. Raises Refused."""
        word = digest or self.digest(task, player, self.tag(task, result))
        place = (task, self.lane(task, player), word)
        self.chain.send(player.operator, "RedundantTasks", "commit", *place)

    def opening(self, task: int, player: Player, result: bytes) -> tuple[Any, ...]:
        """The arguments that open the player's commitment to a result."""
        state, tag = self.state(task), self.tag(task, result)
        lanes = zip(state.states, map(bytes, state.answers), strict=True)
        shown = result if (LaneState.REVEALED, tag) in lanes else EMPTY
        return task, self.lane(task, player), tag, shown, self.salt(task, player)

    def reveal(self, task: int, player: Player, result: bytes = RIGHT) -> None:
        """Open the player's commitment. Raises Refused."""
        opening = self.opening(task, player, result)
        self.chain.send(player.operator, "RedundantTasks", "reveal", *opening)

    def advance(self, task: int) -> None:
        """Anyone moves the task on when its deadline has passed."""
        self._wait_out(int(self.state(task).time))
        self.chain.send(self.market.stranger_address, "RedundantTasks", "advance", task)

    def finalize(self, task: int) -> None:
        """Anyone carries a decision out that nobody appealed."""
        self._wait_out(int(self.state(task).time))
        self.chain.send(self.market.stranger_address, "RedundantTasks", "finalize", task)

    def _wait_out(self, deadline: int) -> None:
        self.chain.wait(max(1, deadline + 1 - self.chain.now))

    def run(self, task: int, answer: Answer, evil: Sequence[bool] = ()) -> TaskStatus:
        """Take a task, from wherever it is, as far as executors can.

        Args:
            answer: by node; None if it is silent.
            evil: of each lane from the third on, whether the attacker's node is drawn for it. What
                is beyond is drawn as it falls.
        """
        while (status := self.status(task)) in (
            TaskStatus.DRAWING,
            TaskStatus.RUNNING,
            TaskStatus.REVEALING,
        ):
            if status == TaskStatus.DRAWING:
                self.draw(task)
                continue
            state, lanes = self.state(task), self.runners(task)
            due = LaneState.RUNNING if status == TaskStatus.RUNNING else LaneState.COMMITTED
            late = [p for p, at in zip(lanes, state.states, strict=True) if at == due]
            acts = [self._act(task, p, found, due) for p in late if (found := answer(p))]
            if len(acts) < len(late):
                acts.append(lambda: self.advance(task))
            for act in acts[:-1]:
                act()
            place = len(lanes) - 2
            if place < len(evil):
                self._as_wanted(task, acts[-1], evil[place])
            else:
                acts[-1]()
                self.chain.wait(_BRIEF_S, 2)
        return status

    def _act(self, task: int, player: Player, result: bytes, due: LaneState) -> Callable[[], None]:
        does = self.commit if due == LaneState.RUNNING else self.reveal
        return lambda: does(task, player, result)

    def _as_wanted(self, task: int, act: Callable[[], None], evil: bool) -> None:
        """Do what may request one more node, so that it is the attacker's or not."""
        with self.chain.undone():
            act()
            asks = self.status(task) == TaskStatus.DRAWING
        if not asks:
            act()
            return
        self.requested(act, lambda drawn: [p in self.evil for p in drawn] == [evil], task)

    # -- appeals -------------------------------------------------------------------------------

    def appeal(self, task: int, appellant: str) -> tuple[list[int], list[int]]:
        """Bond an appeal; who may vote on it, and what each weighs. Raises Refused."""
        self.chain.send(appellant, "TaskAppeals", "appeal", task)
        (asked,) = self.chain.events("TaskAppeals", "VerdictRequested")
        return list(asked["verifiers"]), list(asked["weights"])

    def attest(
        self, task: int, voters: tuple[list[int], list[int]], judge: Player, result: bytes
    ) -> None:
        """A verifier names the task's result. Raises Refused."""
        place = voters[0].index(judge.node)
        vote = (task, place, *voters, result)
        self.chain.send(judge.operator, "TaskAppeals", "attest", *vote)

    def verdict(self, task: int) -> bytes:
        """What verifiers with two thirds of the weight named; EMPTY while there is none."""
        return bytes(self.chain.read("TaskAppeals", "appeal_of", task).result)

    def judged(
        self,
        task: int,
        appellant: str,
        lies: Mapping[Player, bytes] | None = None,
        judges: Sequence[Player] | None = None,
    ) -> bytes:
        """Appeal, and let verifiers vote: those who lie first. The verdict, EMPTY without one."""
        voters = self.appeal(task, appellant)
        for liar, result in (lies or {}).items():
            self.attest(task, voters, liar, result)
        for judge in self.judges if judges is None else judges:
            if self.verdict(task) == EMPTY:
                self.attest(task, voters, judge, RIGHT)
        return self.verdict(task)

    def end_appeal(self, task: int) -> None:
        """Anyone carries the verdict out, or ends an appeal, or an objection, without one."""
        appeal = self.chain.read("TaskAppeals", "appeal_of", task)
        self._wait_out(int(appeal.deadline))
        sleeps = bytes(appeal.result) == EMPTY or int(appeal.objector, 16) != 0
        call = "lapse" if sleeps else "finalize"
        self.chain.send(self.market.stranger_address, "TaskAppeals", call, task)

    def review(self, task: int, appellant: str, lies: Mapping[Player, bytes] | None = None) -> None:
        """An appeal to its end, if there are verifiers who may be asked."""
        try:
            self.judged(task, appellant, lies)
        except Refused as error:
            if str(error) != _TOO_FEW:
                raise
            return
        self.end_appeal(task)

    def close(
        self, task: int, audited: bool = False, lies: Mapping[Player, bytes] | None = None
    ) -> None:
        """What honest people do about an outcome: whoever is outvoted appeals, a verifier who has
        the task in its sample appeals a fake, and else time passes."""
        state = self.state(task)
        found = bytes(self.chain.read("RedundantTasks", "result_of", task))
        wrong = found not in (RIGHT, EMPTY) and state.status != TaskStatus.CLOSED
        right = self.tag(task, RIGHT)
        victims = [
            self._player(node)
            for node, at, answer in zip(state.nodes, state.states, state.answers, strict=True)
            if at == LaneState.REVEALED and bytes(answer) == right
        ]
        mixed = state.status == TaskStatus.UNDECIDED and LaneState.REVEALED in state.states
        if (wrong or mixed) and victims and self.numbers.appeals:
            self.review(task, victims[0].owner, lies)
        elif (wrong or mixed) and audited and self.judges:
            self.review(task, self.judges[0].operator, lies)
        if self.status(task) == TaskStatus.DECIDED:
            self.finalize(task)
