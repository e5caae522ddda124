# SPDX-License-Identifier: Apache-2.0
"""What a node earns under the score `gauntlet` for what it does, by a real round's functions.

Run: `python -m tests.measure.studies.gauntlet_pay [--job signs|plain|sparse] [--rounds 24]
[--seeds 3] [--cases riders,...] [--paper]`.

Nodes train a small model on the standard library's source. Payloads are encoded, decoded and
remembered by the job's codec. Three validators check norms, draw, measure, rate and score with
secrets of their own; the stake-weighted median of their vectors pays the round, and `select` says
who is merged into the next model. Only chain and store traffic are left out.

A strategy sees all that is public before the round's commitments: the model, the merged updates of
all earlier rounds, the plan, every node's data. Printed: the share of all pay of each kind of node,
over the share that its work is of all the work; 1.00 is fair.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from agents.gauntlet.draw import round_seed
from agents.gauntlet.primary_evaluation import Measured, Yardstick, median_norm
from agents.gauntlet.record import NodeScore, ScoreRecord
from agents.gauntlet.replay import digest_of_record, drawn, follow, promise_of, scores_of
from agents.jobs.job import JobContext
from agents.jobs.publish import publish_job
from agents.mechanisms.score.gauntlet import Gauntlet
from agents.protocol.median import stake_median
from agents.rounds.plan import Plan
from agents.storage.embedded import EmbeddedStore
from agents.training.assignment import Ranges, assign, next_carry, unassigned, work_order
from agents.training.data import DataSource
from agents.training.documents import stdlib_corpus
from agents.training.norms import norm
from agents.training.replay import run_task
from agents.training.state import State, apply_outer, load_state, model_hash
from tests.stage.memory.gauntlet_run import LOCAL_STEPS, SPEC

DEVICE = "cpu"
VALIDATORS = 3
PAPER: dict[str, Any] = {"pays": "rank", "history": 0, "power": 2.0}
BATCHES = 4  # a node and round
JOBS: dict[str, dict[str, Any]] = {
    # As in `make demo JOB=gauntlet`, on a smaller model.
    "signs": {
        "codec_options": {"per_chunk": 512, "decay": 0.5},
        "optimizer": {
            **SPEC["optimizer"],
            "batch_size": 2,
            "seq_len": 16,
            "outer_lr": 4e-3,
            "outer_decay": True,
            "warmup_rounds": 2,
            "min_lr_ratio": 0.3,
        },
    },
    # The same without momentum: a payload holds one round's gradient, and past updates add to it.
    "plain": {
        "codec_options": {"per_chunk": 64, "decay": 0.0},
        "optimizer": {**SPEC["optimizer"], "batch_size": 2, "seq_len": 16, "outer_lr": 2e-3},
    },
    "sparse": LOCAL_STEPS,
}


@dataclass
class Market:
    """A job, its nodes and three validators."""

    job: JobContext
    strategies: Mapping[int, Strategy]
    seed: int
    state: State
    number: int = 0
    carry: Ranges = ()
    cursor: int = 0
    records: list[ScoreRecord | None] = field(default_factory=lambda: [None] * VALIDATORS)
    memories: dict[int, State | None] = field(default_factory=dict)
    history: list[State] = field(default_factory=list)  # merged updates, newest first
    standing: dict[int, int] = field(default_factory=dict)
    pay: dict[int, float] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        store: EmbeddedStore,
        strategies: Mapping[int, Strategy],
        seed: int = 0,
        **changes: Any,
    ) -> Market:
        """Before the first round. `changes`: fields of the spec."""
        fields = {**SPEC, "batches_per_round": BATCHES * len(strategies), **changes}
        published = publish_job(store, stdlib_corpus(1 << 18), fields)
        job = JobContext(published.spec, store)
        state = load_state(store.get(published.checkpoint_cid, 1 << 22), job.shapes)
        return cls(job, strategies, seed, state, pay=dict.fromkeys(strategies, 0.0))

    @property
    def options(self) -> Gauntlet:
        assert isinstance(self.job.score, Gauntlet)
        return self.job.score

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted(self.strategies))

    def word(self, what: str) -> bytes:
        return hashlib.sha256(f"{what} {self.seed} {self.number}".encode()).digest()

    def plan(self) -> Plan:
        weights = (10,) * len(self.nodes)
        manifest = assign(
            self.word("round"), self.nodes, weights, self.job.spec, self.carry, self.cursor
        )
        return Plan(manifest, self.number, self.carry, self.cursor)

    def sent(self, plan: Plan) -> dict[int, State]:
        """The decoded payloads of the round."""
        turn = Turn(self, plan)
        found = {}
        for node in self.nodes:
            update = self.strategies[node](turn, node)
            seed, memory = plan.codec_seed(self.job.codec, node), self.memories.get(node)
            payload = self.job.codec.encode(update, memory, seed)
            found[node] = self.job.codec.decode(payload, self.job.shapes, seed)
            self.memories[node] = self.job.codec.remember(update, memory, found[node])
        return found

    def yardstick(self, plan: Plan, sent: Mapping[int, State], secret: bytes) -> Yardstick:
        """The measure of the validator with this secret."""
        return Yardstick(
            job=self.job,
            options=self.options,
            plan=plan,
            before=self.state,
            length=median_norm(sent.values()),
            seed=round_seed(secret, self.word("audit")),
            device=DEVICE,
            history=self.history[: self.options.history],
        )

    def round(self) -> None:
        """Train, measure, agree, pay, merge."""
        plan = self.plan()
        sent = self.sent(plan)
        plausible = self.options.plausible_norms({n: norm(u) for n, u in sent.items()})
        vectors = [self._vector(index, plan, sent, plausible) for index in range(VALIDATORS)]
        shares = stake_median(vectors, [1] * VALIDATORS, VALIDATORS)
        fresh = dict(zip(self.nodes, shares, strict=True))
        merged_by = self.options.select(sorted(plausible), self.standing)
        if any(shares):
            self.standing = fresh
        paying = self.standing or dict.fromkeys(self.nodes, 1)
        total = sum(paying.values())
        for node in self.nodes:
            self.pay[node] += paying[node] / total
        merged = self.job.merge([sent[node] for node in merged_by])
        self.history.insert(0, merged)
        self.state = apply_outer(self.state, merged, self.job.spec.outer_lr_at(self.number))
        self.carry, self.cursor = next_carry(plan.manifest, self.nodes)
        self.number += 1

    def _vector(
        self, index: int, plan: Plan, sent: Mapping[int, State], plausible: set[int]
    ) -> list[int]:
        """What one validator commits to; its record is kept."""
        secret, previous = self.word(f"secret {index}"), self.records[index]
        usable = [node for node in self.nodes if node in plausible]
        others = [node for node in self.nodes if node not in plausible]
        audit_seed = self.word("audit")
        due, last = drawn(secret, audit_seed, previous, usable, others, self.options)
        measure = self.yardstick(plan, {node: sent[node] for node in usable}, secret)
        found = measure.measure({node: sent[node] for node in due})
        lines = [
            self._line(node, node in plausible, node in due or node in last, found.get(node))
            for node in self.nodes
        ]
        ratings = follow(previous, lines, self.options)
        scores = scores_of(lines, ratings, self.options)
        scored = [
            line.model_copy(update={"score": score})
            for line, score in zip(lines, scores, strict=True)
        ]
        self.records[index] = ScoreRecord(
            job=1,
            round=self.number + 1,
            verifier=90 + index,
            position=self.number,
            previous=None if previous is None else digest_of_record(previous.to_bytes()).hex(),
            secret=secret.hex(),
            promise=promise_of(b""),
            renewed=True,
            audit_seed=audit_seed.hex(),
            model=model_hash(self.state).hex(),
            scores=scored,
            ratings=ratings,
        )
        return scores

    def _line(
        self, node: int, plausible: bool, evaluated: bool, measured: Measured | None
    ) -> NodeScore:
        measured = measured or Measured(None, None, None)
        return NodeScore(
            node=node,
            failure=measured.reason if plausible else "norm",
            usable=plausible,
            sync=0,
            evaluated=evaluated,
            assigned=measured.assigned,
            random=measured.random,
            expected=measured.expected,
            shown=measured.shown,
            score=0,
        )


@dataclass
class Turn:
    """What a strategy may use: all that is public, and training for as long as it likes."""

    market: Market
    plan: Plan
    trained: dict[tuple[int, float], State] = field(default_factory=dict)

    def gradient(self, node: int, work: float = 1.0) -> State:
        """The update of training on `work` of the node's batches; above 1 on its extra ones too."""
        if (node, work) not in self.trained:
            market, job = self.market, self.market.job
            manifest = self.plan.manifest
            model = model_hash(market.state)
            task = work_order(manifest, node, job.spec, 1, market.number, model)
            batches = task.batches()
            count = round(work * len(batches))
            if count <= len(batches):
                ranges: Ranges = tuple((index, index + 1) for index in batches[:count])
            else:
                more = unassigned(manifest, node, count - len(batches))
                ranges = (*more, *task.batch_ranges)
            order = replace(task, batch_ranges=ranges)
            result = run_task(job.net(DEVICE), order, market.state, job.data)
            self.trained[node, work] = result.pseudo_gradient
        return self.trained[node, work]

    def skimmed(self, node: int, part: float) -> State:
        """The update of training on the first `part` of every sequence of the node's batches."""
        market = self.market
        model = model_hash(market.state)
        task = work_order(self.plan.manifest, node, market.job.spec, 1, market.number, model)
        data = Skimmed(market.job.data, part)
        return run_task(market.job.net(DEVICE), task, market.state, data).pseudo_gradient

    def past(self, decay: float = 0.8, rounds: int = 8, skip: int = 0) -> State | None:
        """The decayed mean of the published updates; None before the first."""
        return combined(
            [(decay**i, update) for i, update in enumerate(self.market.history[skip:][:rounds])]
        )


@dataclass(frozen=True)
class Skimmed:
    """The batches of `data`, their sequences cut short."""

    data: DataSource
    part: float

    def batch(self, index: int) -> torch.Tensor:
        whole = self.data.batch(index)
        return whole[:, : 1 + max(1, round(self.part * (whole.shape[1] - 1)))]


# What a node sends in a round.
Strategy = Callable[[Turn, int], State]


def combined(parts: Sequence[tuple[float, State]]) -> State | None:
    """The sum of weighted states, None of none."""
    if not parts:
        return None
    return {name: sum(w * s[name] for w, s in parts) for name in sorted(parts[0][1])}


def unit(update: State) -> State:
    """`update` at an L2 norm of 1."""
    length = norm(update) or 1.0
    return {name: tensor / length for name, tensor in update.items()}


def trains(work: float = 1.0) -> Strategy:
    """Honest: trains on its batches; a share of them below 1, unassigned ones too above."""
    return lambda turn, node: turn.gradient(node, work)


def rides(work: float = 1.0, weight: float = 1.0, decay: float = 0.8, rounds: int = 8) -> Strategy:
    """Adds the decayed mean of the published updates, at `weight` of its own update's norm."""

    def send(turn: Turn, node: int) -> State:
        own, past = turn.gradient(node, work), turn.past(decay, rounds)
        if past is None:
            return own
        mixed = combined([(1.0, own), (weight * norm(own), unit(past))])
        assert mixed is not None
        return mixed

    return send


def rides_by_tensor(work: float = 1.0, weight: float = 1.0) -> Strategy:
    """Adds past updates tensor by tensor, each at the norm of its own update's tensor."""

    def send(turn: Turn, node: int) -> State:
        own, past = turn.gradient(node, work), turn.past()
        if past is None:
            return own
        return {
            name: t + weight * past[name] * (t.norm() / past[name].norm().clamp_min(1e-30))
            for name, t in own.items()
        }

    return send


def skims(part: float) -> Strategy:
    """Trains on the first `part` of every sequence, and rides for the rest."""

    def send(turn: Turn, node: int) -> State:
        own, past = turn.skimmed(node, part), turn.past()
        mixed = combined([(1.0, own), (0.5 * norm(own), unit(past))]) if past else own
        assert mixed is not None
        return mixed

    return send


def head_only(turn: Turn, node: int) -> State:
    """Sends what the output layer learns: half of the work, nothing goes back through others."""
    state, job = turn.market.state, turn.market.job
    net = job.net(DEVICE)
    net.load(state)
    last = net.model.get_submodule("norm")
    hook = last.register_forward_hook(lambda module, given, output: output.detach())
    task = work_order(turn.plan.manifest, node, job.spec, 1, turn.market.number, model_hash(state))
    names, parameters = zip(*net.model.named_parameters(), strict=True)
    sent = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    for index in task.batches():
        batch = job.data.batch(index)
        output = net.model(batch[:, :-1])
        logits = output if isinstance(output, torch.Tensor) else output.logits
        loss = cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()) / task.steps
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        for name, gradient in zip(names, found, strict=True):
            if gradient is not None:
                sent[name] += gradient.detach()
    hook.remove()
    return sent


def masked_history(work: float = 0.25) -> Strategy:
    """Past updates where its own update agrees in sign, its own elsewhere."""

    def send(turn: Turn, node: int) -> State:
        own, past = turn.gradient(node, work), turn.past()
        if past is None:
            return own
        scale = norm(own) / (norm(past) or 1.0)
        return {
            name: torch.where(t * past[name] > 0, t + scale * past[name], 0.5 * t)
            for name, t in own.items()
        }

    return send


def old_history(skip: int) -> Strategy:
    """No work: the decayed mean of the published updates older than `skip` rounds."""

    def send(turn: Turn, node: int) -> State:
        past = turn.past(0.95, 64, skip)
        return noise(turn, node) if past is None else past

    return send


def history(turn: Turn, node: int) -> State:
    """No work: the decayed mean of the published updates; noise while there is none."""
    past = turn.past()
    return noise(turn, node) if past is None else past


def noise(turn: Turn, node: int) -> State:
    """No work: random numbers, another draw for each node and round."""
    draw = torch.Generator().manual_seed(1000 * turn.market.number + node)
    return {
        name: torch.randn(shape, generator=draw) * 1e-3
        for name, shape in sorted(turn.market.job.shapes.items())
    }


def zero(turn: Turn, node: int) -> State:
    """No work: nothing."""
    return {name: torch.zeros(shape) for name, shape in turn.market.job.shapes.items()}


def copies(victim: int) -> Strategy:
    """No work of its own: sends what the victim trains."""
    return lambda turn, node: turn.gradient(victim)


def blurs(victim: int, weight: float = 1.0) -> Strategy:
    """No work of its own: sends what the victim trains, with as much noise as `weight` says."""

    def send(turn: Turn, node: int) -> State:
        own = turn.gradient(victim)
        mixed = combined([(1.0, own), (weight * norm(own), unit(noise(turn, node)))])
        assert mixed is not None
        return mixed

    return send


def pools(*members: int, work: float = 1.0) -> Strategy:
    """Identities of one owner: each sends the mean of what all of them train."""

    def send(turn: Turn, node: int) -> State:
        mean = combined([(1 / len(members), turn.gradient(n, work)) for n in members])
        assert mean is not None
        return mean

    return send


def pools_in_part(own: float, *members: int) -> Strategy:
    """As `pools`, with more weight (`own` of 1) on what a member trains itself."""

    def send(turn: Turn, node: int) -> State:
        rest = (1 - own) / (len(members) - 1)
        mean = combined([(own if n == node else rest, turn.gradient(n)) for n in members])
        assert mean is not None
        return mean

    return send


def pools_in_a_ring(*members: int) -> Strategy:
    """Each sends the mean of its own and the next member's update."""

    def send(turn: Turn, node: int) -> State:
        follower = members[(members.index(node) + 1) % len(members)]
        mean = combined([(0.5, turn.gradient(node)), (0.5, turn.gradient(follower))])
        assert mean is not None
        return mean

    return send


def part_pool(*members: int) -> Strategy:
    return pools_in_part(0.6, *members)


@dataclass(frozen=True)
class Case:
    """Who comes: for each kind of node its work, in honest nodes', and how many there are."""

    kinds: Mapping[str, tuple[float, Callable[..., Strategy] | Strategy, int]]

    def population(self) -> dict[int, tuple[str, float, Strategy]]:
        """Kind, work and strategy by node."""
        found, node = {}, 1
        for kind, (work, strategy, count) in self.kinds.items():
            members = tuple(range(node, node + count))
            for _ in range(count):
                made = strategy(*members) if kind.startswith("pool") else strategy
                found[node] = (kind, work, made)
                node += 1
        return found


def crowd(honest: int, **others: tuple[float, Any, int]) -> Case:
    return Case({"honest": (1.0, trains(), honest), **others})


CASES: dict[str, Case] = {
    "equal": crowd(8),
    "rider": crowd(6, rider=(1.0, rides(), 1)),
    "riders": crowd(5, rider=(1.0, rides(), 2)),
    "quarter": crowd(6, rider=(0.25, rides(0.25), 1)),
    "quarters": crowd(5, rider=(0.25, rides(0.25), 2)),
    "plain quarter": crowd(6, quarter=(0.25, trains(0.25), 1)),
    "by tensor": crowd(5, rider=(0.25, rides_by_tensor(0.25), 2)),
    "masked": crowd(5, rider=(0.25, masked_history(), 2)),
    "little": crowd(5, rider=(0.25, rides(0.25, 0.3), 2)),
    "skims": crowd(5, rider=(0.25, skims(0.25), 2)),
    "head": crowd(5, rider=(0.5, head_only, 2)),
    "history": crowd(6, history=(0.0, history, 1)),
    "histories": crowd(5, history=(0.0, history, 2)),
    "pool": crowd(6, pool=(1.0, pools, 3)),
    "pool in part": crowd(5, pool=(1.0, part_pool, 3)),
    "ring": crowd(5, pool=(1.0, pools_in_a_ring, 3)),
    "sizes": crowd(5, twice=(2.0, trains(2.0), 1), half=(0.5, trains(0.5), 1)),
    "blur": crowd(5, blur=(0.0, blurs(1), 2)),
    "idle": crowd(6, noise=(0.0, noise, 1), zero=(0.0, zero, 1), copier=(0.0, copies(1), 1)),
}


def played(case: Case, store: EmbeddedStore, rounds: int, seed: int, **fields: Any) -> Market:
    """The market of a case after so many rounds."""
    people = case.population()
    market = Market.open(store, {n: p[2] for n, p in people.items()}, seed, **fields)
    for _ in range(rounds):
        market.round()
    return market


def report(case: Case, markets: Sequence[Market]) -> str:
    """Per kind its share of the pay over its share of the work, each seed, and the spread."""
    people = case.population()
    work = {node: person[1] for node, person in people.items()}
    cells = []
    for kind in case.kinds:
        members = [node for node, person in people.items() if person[0] == kind]
        fair = sum(work[n] for n in members) / sum(work.values())
        shares = [sum(m.pay[n] for n in members) / sum(m.pay.values()) for m in markets]
        text = " ".join(f"{share / (fair or 1):.2f}" for share in shares)
        cells.append(f"{kind} {text}" + ("" if fair else " (of all)"))
    equal = [n for n, person in people.items() if person[0] == "honest"]
    spreads = [
        statistics.pstdev(m.pay[n] for n in equal) / statistics.mean(m.pay[n] for n in equal)
        for m in markets
    ]
    return "; ".join(cells) + "; spread " + " ".join(f"{s:.2f}" for s in spreads)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", choices=sorted(JOBS), action="append")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--evaluated", type=int, default=16)
    parser.add_argument("--eval-batches", type=int, default=6)
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--paper", action="store_true", help="pay as the paper does")
    parser.add_argument("--options", default="{}", help="more score options, JSON")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    options = {"evaluated": chosen.evaluated, "eval_batches": chosen.eval_batches}
    if chosen.paper:
        options |= PAPER
    options |= json.loads(chosen.options)
    for job in chosen.job or JOBS:
        for name in chosen.cases.split(","):
            markets = []
            for seed in range(chosen.seeds):
                with tempfile.TemporaryDirectory() as folder:
                    store = EmbeddedStore(Path(folder) / "store")
                    people = len(CASES[name].population())
                    fields = {
                        **JOBS[job],
                        "score_options": options,
                        "batches_per_round": chosen.batches * people,
                    }
                    markets.append(played(CASES[name], store, chosen.rounds, seed, **fields))
            print(f"{job} | {name} | {report(CASES[name], markets)}", flush=True)


if __name__ == "__main__":
    main()
