# SPDX-License-Identifier: Apache-2.0
"""What privacy costs in learning: ten nodes, each with text of its own, and noise by two rules.

Node unit: each node takes plain AdamW steps, clips its whole update and adds noise (`gaussian`).
Example unit: DP-SGD inside the node (`dp_sgd`, the agents' own `run_private_task`). Everything else
is the demo's: byte-level model of 0.1 million parameters, Python's library as text, 10 rounds. The
texts are disjoint and of different kinds, since each node has neighbouring files. Epsilon is that
of the node with the fewest examples, after all rounds, at delta 1e-6.

With `--poisoners 3` the last three nodes send the negative of a noised update, and the share of
them among the updates that Multi-Krum selects is shown (chance: 0.30; none of them: 0), with the
cosine of what is merged to the mean of the honest noised updates.

    python -m tests.measure.studies.privacy                      # the whole table and the plot
    python -m tests.measure.studies.privacy --poisoners 3 --merge multi_krum
    python -m tests.measure.studies.privacy --unit example --noise 1.0

Seen once on two cores, 8 MB of text, loss 5.314 before: no noise 2.738. DP-SGD with lot 32, clip
0.5: 3.130 at epsilon 0.21 (noise 1). Node unit at epsilon 8: 5.309 at best (clip 0.001, nothing
moves), 10.7 and worse with larger clips; it learns only near epsilon 10,000 (3.070, clip 3). With
three poisoners under Multi-Krum, DP-SGD reaches 3.201 (noise 1, 10 % of the selected are
poisoners) and 2.989 (noise 0.5, epsilon 4.17, 8 %); cosines 0.846 and 0.847. Multi-Krum averages 5
of 10; five of seven honest updates that are mostly noise have a cosine of sqrt(5/7) = 0.845 to the
mean of all seven, so this is the rule's ceiling rather than the poisoners' doing.

Prints a table, asserts nothing; the whole one without poisoners also saves
.build/studies/privacy.png.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agents.training.determinism import pin_environment, pin_torch

pin_environment(portable=True)  # as the agents do; before torch is loaded

from rich.console import Console  # noqa: E402

from agents.mechanisms import merge as merge_rules  # noqa: E402
from agents.mechanisms.merge.multi_krum import MultiKrum  # noqa: E402
from agents.mechanisms.privacy import Accountant  # noqa: E402
from agents.mechanisms.privacy.dp_sgd import DpSgd  # noqa: E402
from agents.mechanisms.privacy.gaussian import Gaussian  # noqa: E402
from agents.storage.embedded import EmbeddedStore  # noqa: E402
from agents.training.assignment import WorkOrder, assign, work_order  # noqa: E402
from agents.training.data import DataSource, pack  # noqa: E402
from agents.training.documents import stdlib_corpus  # noqa: E402
from agents.training.evaluate import validation_loss  # noqa: E402
from agents.training.flat import FlatModel  # noqa: E402
from agents.training.local_data import LocalData  # noqa: E402
from agents.training.model import init_state  # noqa: E402
from agents.training.private import run_private_task  # noqa: E402
from agents.training.replay import run_task  # noqa: E402
from agents.training.spec import JobSpec, demo_spec  # noqa: E402
from agents.training.state import State, apply_outer, model_hash  # noqa: E402
from tests.measure.codec_figures import cosine  # noqa: E402
from tests.measure.rows import text_table  # noqa: E402

PLOT = Path(__file__).resolve().parents[3] / ".build" / "studies" / "privacy.png"
NODES, ROUNDS, DELTA = 10, 10, 1e-6
PUBLIC_EVERY = 12  # every 12th file is public: validation and format
NODE_EPSILONS = (8.0, 1000.0, 10_000.0)
NODE_CLIPS = (0.001, 0.1, 3.0)
EXAMPLE_NOISES = (0.5, 1.0, 4.0)


@dataclass(frozen=True)
class Outcome:
    """One run: a row of the table."""

    unit: str
    setting: str
    epsilon: float
    losses: tuple[float, ...]  # before the first round, then after each
    poisoned: float  # share of poisoners among the selected, NaN without
    cosine: float  # of the merged update to the honest mean, median over rounds
    seconds: float  # per round and node


class PrivateNodes:
    """The folders of ten nodes, the public data, the job."""

    def __init__(self, root: Path, arguments: argparse.Namespace) -> None:
        documents = list(stdlib_corpus(int(arguments.megabytes * 2**20)))
        store = EmbeddedStore(root / "store")
        public = pack(documents[::PUBLIC_EVERY], store)
        optimizer = {"lr": arguments.lr, "min_lr_ratio": 0.3, "batch_size": 8, "grad_clip": 1e4}
        self.spec: JobSpec = demo_spec(
            public,
            optimizer=optimizer,
            batches_per_round=NODES * arguments.steps,
            rounds=ROUNDS,
            val_fraction=0.2,
        )
        source = DataSource(store, self.spec)
        self.validation = source.val_batches(16)
        self.net = FlatModel(self.spec.model)
        own = [text for index, text in enumerate(documents) if index % PUBLIC_EVERY]
        self.data = [LocalData(folder, self.spec, source) for folder in _folders(root, own)]
        self.examples = min(data.examples for data in self.data)

    def tasks(self, round_number: int, state: State) -> list[WorkOrder]:
        seed = round_number.to_bytes(32, "big")
        manifest = assign(seed, range(1, NODES + 1), [1] * NODES, self.spec)
        model = model_hash(state)
        return [work_order(manifest, i + 1, self.spec, 1, round_number, model)
                for i in range(NODES)]  # fmt: skip

    def loss(self, state: State) -> float:
        return validation_loss(self.net, state, self.validation)


def _folders(root: Path, documents: Sequence[bytes]) -> Iterator[Path]:
    """Equal shares of the text in order, so that neighbouring files stay together."""
    text = b"\0".join(documents)
    share = len(text) // NODES
    for index in range(NODES):
        folder = root / f"node-{index}"
        folder.mkdir()
        part = text[index * share : (index + 1) * share].decode(errors="replace")
        (folder / "own.txt").write_text(part, encoding="utf-8")
        yield folder


def run(private: PrivateNodes, mechanism: Any, arguments: argparse.Namespace) -> Outcome:
    """Ten rounds; `mechanism` None is no privacy at all."""
    state, merge = init_state(private.spec.model), merge_rules.get(arguments.merge)()
    losses, shares, cosines, busy = [private.loss(state)], [], [], 0.0
    honest = NODES - arguments.poisoners
    for number in range(ROUNDS):
        updates = []
        for task, data in zip(private.tasks(number, state), private.data, strict=True):
            began = time.process_time()
            updates.append(_update(private, task, state, data, mechanism))
            busy += time.process_time() - began
        target = _mean(updates[:honest])
        sent = updates[:honest] + [
            {name: -tensor for name, tensor in update.items()} for update in updates[honest:]
        ]
        merged = merge(sent)
        if arguments.poisoners:
            shares.append(_selected(sent, honest))
        cosines.append(cosine(target, merged))
        state = apply_outer(state, merged, private.spec.optimizer.outer_lr)
        losses.append(private.loss(state))
    epsilon = math.inf
    if mechanism is not None:
        account = Accountant(1e6, DELTA)
        steps, batch = arguments.steps, private.spec.optimizer.batch_size
        account.record_participation(
            mechanism.charge(ROUNDS, steps=steps, batch=batch, examples=private.examples)
        )
        epsilon = account.epsilon()
    return Outcome(
        "none" if mechanism is None else mechanism.unit,
        _describe(mechanism),
        epsilon,
        tuple(losses),
        statistics.mean(shares) if shares else math.nan,
        statistics.median(cosines),
        busy / ROUNDS / NODES,
    )


def _update(
    private: PrivateNodes, task: WorkOrder, state: State, data: LocalData, mechanism: Any
) -> State:
    if isinstance(mechanism, DpSgd):
        return run_private_task(private.net, task, state, data, mechanism).pseudo_gradient
    plain = run_task(private.net, task, state, data).pseudo_gradient
    return plain if mechanism is None else mechanism.release(plain)


def _mean(updates: Sequence[State]) -> State:
    return merge_rules.get("mean")()(updates)


def _selected(updates: Sequence[State], honest: int) -> float:
    """Share of the updates from number `honest` on among those that Multi-Krum selects."""
    chosen = MultiKrum().selected(updates)
    return sum(index >= honest for index in chosen) / len(chosen)


def _describe(mechanism: Any) -> str:
    if mechanism is None:
        return "no noise"
    if isinstance(mechanism, Gaussian):
        return f"clip {mechanism.clip:g}, sigma {mechanism.sigma:.3g}"
    return f"lot {mechanism.lot}, clip {mechanism.clip:g}, noise {mechanism.noise_multiplier:g}"


def mechanisms(arguments: argparse.Namespace) -> Iterator[Any]:
    """Those of the table, or the ones asked for."""
    if arguments.unit in ("both", "node"):
        for epsilon in NODE_EPSILONS:
            for clip in NODE_CLIPS:
                yield Gaussian(
                    clip=clip, epsilon=epsilon, rounds=ROUNDS, delta=DELTA, max_epsilon=1e6,
                    accept_blinding=True,
                )  # fmt: skip
        yield None
    if arguments.unit in ("both", "example"):
        for noise in arguments.noise or EXAMPLE_NOISES:
            yield DpSgd(
                clip=arguments.clip, noise_multiplier=noise, lot=arguments.lot, delta=DELTA,
                max_epsilon=1e6,
            )  # fmt: skip


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    columns = ("unit", "setting", "epsilon", "before", "1 round", "last", "last/before")
    more = ("last/1 round", "poisoned", "cosine", "s/round")
    title = f"{NODES} nodes, {ROUNDS} rounds; loss in nats per byte"
    table = text_table(title, (*columns, *more), left=2)
    for o in outcomes:
        first, second, last = o.losses[0], o.losses[1], o.losses[-1]
        table.add_row(o.unit, o.setting, f"{o.epsilon:.3g}", f"{first:.3f}", f"{second:.3f}",
                      f"{last:.3f}", f"{last / first:.3f}", f"{last / second:.3f}",
                      f"{o.poisoned:.2f}", f"{o.cosine:.3f}", f"{o.seconds:.2f}")  # fmt: skip
    console.print(table)


def plot(outcomes: Sequence[Outcome]) -> None:
    """Last validation loss against epsilon, one line per unit."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for unit, label in (("node", "node unit, local noise"), ("example", "example unit, DP-SGD")):
        best: dict[float, float] = {}
        for o in outcomes:
            if o.unit == unit:
                key = round(o.epsilon, 6)
                best[key] = min(best.get(key, math.inf), o.losses[-1])
        if best:
            axes.plot(*zip(*sorted(best.items()), strict=True), marker="o", label=label)
    first = outcomes[0].losses[0]
    axes.axhline(first, color="grey", linestyle=":", label="before training")
    axes.axhline(0.8 * first, color="grey", linestyle="--", label="0.8 of it")
    for o in outcomes:
        if o.unit == "none":
            axes.axhline(o.losses[-1], color="black", linestyle="-.", label="no noise")
    axes.set(xscale="log", xlabel=f"epsilon at delta {DELTA:g}", ylabel="validation loss (nats)",
             ylim=(0, 1.6 * first))  # fmt: skip
    axes.legend()
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, dpi=120, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--unit", choices=("both", "node", "example"), default="both")
    parser.add_argument("--noise", type=float, action="append", help="multiplier of dp_sgd")
    parser.add_argument("--clip", type=float, default=0.5, help="C of dp_sgd")
    parser.add_argument("--lot", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4, help="local steps per round")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--megabytes", type=float, default=8.0, help="of text, over all nodes")
    parser.add_argument("--merge", default="mean", choices=merge_rules.names())
    parser.add_argument("--poisoners", type=int, default=0, choices=range(4))
    arguments = parser.parse_args()
    pin_torch()
    console, outcomes = Console(width=150), []
    with TemporaryDirectory(prefix="menagerie-privacy-") as root:
        private = PrivateNodes(Path(root), arguments)
        console.print(f"examples of the smallest node: {private.examples}")
        for mechanism in mechanisms(arguments):
            outcomes.append(run(private, mechanism, arguments))
            show(outcomes[-1:], console)
    show(outcomes, console)
    if arguments.unit == "both" and not arguments.poisoners:
        plot(outcomes)
        console.print(f"plot: {PLOT}")


if __name__ == "__main__":
    main()
