# SPDX-License-Identifier: Apache-2.0
"""How far honest re-executions differ between machines, and how many steps fit into that.

Machines are stood in for by settings of this one, each in a process of its own: instruction set,
branch of the BLAS, oneDNN, threads, the order of a batch's sum, and float64 throughout, which shows
the whole rounding of fp32. None of them is a GPU. Each trains one assignment from the genesis model
with and without a warm-up and from a trained one. `agents.verify.reexecution.compare` compares its
pseudo-gradient with that of the portable class, as it is and as each codec sends it.

How many of them a verifier of the portable class would find wrong at the tolerances of a spec that
names none is the third table.

Then a node skips k of its H steps and states another class than the verifier's, so that only the
tolerances speak. It sends the update that it has reached, longer by one factor, or goes on along
its last steps. The factor is the best one there is, which no cheat knows: the real share is less.

    python -m tests.measure.studies.class_spread --steps 12 96 384     # half an hour
    python -m tests.measure.studies.class_spread --steps 12            # two minutes
    python -m tests.measure.studies.class_spread --steps 12 --only muon "muon, products bf16"

`--only` names inner optimizers, `--beside` the machines that stand beside the portable class.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

BUILD = Path(__file__).resolve().parents[3] / ".build" / "studies"
SEED = hashlib.sha256(b"class spread").digest()
LATE_ROUNDS, ROUND = 40, 5
REFERENCE = "portable"
OPEN = {"ATEN_CPU_CAPABILITY": "", "MKL_CBWR": "", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# Machines: environment over the pinned one (empty: not set), and what is chosen after the start.
VARIANTS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    REFERENCE: ({}, {}),
    "again": ({}, {}),
    "AVX-512, MKL's own branch": (OPEN, {}),
    "the same, oneDNN": (OPEN, {"onednn": True}),
    "the same, two threads": (OPEN | {"OMP_NUM_THREADS": "2"}, {"onednn": True, "threads": 2}),
    "no vector instructions": ({"ATEN_CPU_CAPABILITY": "default"}, {}),
    "batch in two halves": ({}, {"parts": 2}),
    "float64": ({}, {"double": True}),
}
CODECS: dict[str, dict[str, Any]] = {
    "dense": {},
    "polytope": {},
    "sparse": {},
    "semantic": {"ratio": 100, "clip": 6},
    "demo": {},
    "cells": {},
    "directions": {},
}
# Which model an assignment starts from, and the round whose rate it takes: the demo job warms up.
STARTS = {"first round": 0, "no warm-up": ROUND, "trained": ROUND}
# By name: an inner optimizer and its options. Muon's products in bf16 are looked at in fp32 alone:
# a job in bf16 has its own tolerances.
INNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "adamw": ("adamw", {}),
    "muon": ("muon", {}),
    "muon, products bf16": ("muon", {"newton_schulz": "bf16"}),
    "muon x5, products bf16": ("muon", {"lr_ratio": 5.0, "newton_schulz": "bf16"}),
    "gradient": ("gradient", {}),
}
# The tolerances of every spec that named none, whatever its precision and codec.
OLD = (0.99, 0.1)
SKIPPERS = ("dense", "polytope", "sparse", "semantic")


@dataclass(frozen=True)
class Case:
    """One assignment: H steps of one of `INNERS` in a precision, from a model."""

    start: str
    inner: str
    steps: int
    precision: str

    @property
    def name(self) -> str:
        return f"{self.inner}, H = {self.steps}, {self.precision}, {self.start}"

    @property
    def numbers(self) -> str:
        """What its numbers are held in, where that is not one thing: products too."""
        products = INNERS[self.inner][1].get("newton_schulz", self.precision)
        return self.precision if products == self.precision else f"fp32, products {products}"


def cases(steps: Sequence[int], only: Sequence[str]) -> Iterator[Case]:
    for precision in ("fp32", "bf16"):
        for inner in only:
            if precision == "bf16" and INNERS[inner][1]:
                continue
            for count in steps:
                if (inner == "gradient" and count > 12) or (
                    count > 96 and (inner, precision) != ("adamw", "fp32")
                ):
                    continue  # one gradient more or less is the same; and what would take an hour
                for start in STARTS:
                    yield Case(start, inner, count, precision)


# -- in a process of its own -------------------------------------------------------------------


def _prepared() -> Any:
    """The demo's spec and data; the corpus is packed once."""
    from agents.storage.content_store import open_store
    from agents.training.data import DataSource, pack
    from agents.training.documents import stdlib_corpus
    from agents.training.spec import demo_spec

    BUILD.mkdir(parents=True, exist_ok=True)
    store = open_store(str(BUILD / "store"))
    cid = BUILD / "corpus.cid"
    if not cid.exists():
        cid.write_text(pack(stdlib_corpus(), store))
    spec = demo_spec(cid.read_text())
    return spec, DataSource(store, spec)


def _start(name: str, spec: Any, data: Any) -> Any:
    """The genesis model, or the one after some rounds of twelve steps."""
    from agents.training.flat import FlatModel
    from agents.training.local import train_local
    from agents.training.model import init_state
    from agents.training.spec import Hyperparameters
    from agents.training.state import apply_outer, load_state, save_state

    state = init_state(spec.model)
    if name != "trained":
        return state
    shapes = {key: tuple(tensor.shape) for key, tensor in state.items()}
    path = BUILD / f"class-spread-{LATE_ROUNDS}.safetensors"
    if not path.exists():
        net = FlatModel(spec.model)
        for number in range(LATE_ROUNDS):
            batches = [data.batch(10_000 + 12 * number + i) for i in range(12)]
            hyper = Hyperparameters.of(spec, min(number, ROUND))
            update = train_local(net, state, batches, hyper, SEED).pseudo_gradient
            state = apply_outer(state, update, 1.0)
        path.write_bytes(save_state(state))
    return load_state(path.read_bytes(), shapes)


def _updates(case: Case, spec: Any, data: Any, chosen_: dict[str, Any]) -> Any:
    """theta_0 - theta_i for i = 1..H, fp32 [H, n]. The lines of `train_local` where a batch is cut
    or the numbers are float64, else itself."""
    import torch

    from agents.training.flat import FlatModel
    from agents.training.local import train_local
    from agents.training.model import next_token_loss
    from agents.training.optimizers import chosen
    from agents.training.spec import Hyperparameters

    rate = Hyperparameters.of(spec, STARTS[case.start])
    inner, options = INNERS[case.inner]
    hyper = replace(rate, inner=inner, inner_options=options, precision=case.precision)
    state = _start(case.start, spec, data)
    batches = [data.batch(index) for index in range(case.steps)]
    double, parts = chosen_.get("double", False), chosen_.get("parts", 1)
    if double:
        torch.set_default_dtype(torch.float64)
    try:
        net = FlatModel(spec.model)
        net.load(state)
        names = sorted(state)
        theta = torch.cat([state[name].reshape(-1).to(net.values.dtype) for name in names])
        reached: list[Any] = []

        def note(*_: Any) -> None:
            views = net.views(steps.reached)
            now = torch.cat([views[name].reshape(-1) for name in names])
            reached.append((theta - now).float())

        if parts == 1 and not double:
            kept: list[Any] = []

            def keep(*_: Any) -> None:
                views = net.views(net.values)
                kept.append(theta - torch.cat([views[name].reshape(-1) for name in names]))

            result = train_local(net, state, batches, hyper, SEED, keep).pseudo_gradient
            final = torch.cat([result[name].reshape(-1) for name in names])
            return torch.stack([*kept[:-1], final])
        torch.manual_seed(0)
        steps = chosen(inner, options).start(net, hyper, len(batches))
        begun = net.values.clone()
        for batch in batches:
            net.grads.zero_()
            for piece in batch.chunk(parts):
                with torch.autocast("cpu", torch.bfloat16, enabled=case.precision == "bf16"):
                    loss = next_token_loss(net.model, piece) * (len(piece) / len(batch))
                loss.backward()
            steps.step()
            note()
        views = net.views(steps.update(begun))
        reached[-1] = torch.cat([views[name].reshape(-1) for name in names]).float()
        return torch.stack(reached)
    finally:
        torch.set_default_dtype(torch.float32)


def one(variant: str, steps: Sequence[int], only: Sequence[str], out: Path) -> None:
    """Compute all cases as this machine and write them."""
    import torch
    from safetensors.torch import save_file

    from agents.training.determinism import determinism_class, pin_torch

    chosen_ = VARIANTS[variant][1]
    pin_torch()
    torch.set_num_threads(chosen_.get("threads", 1))
    torch.backends.mkldnn.set_flags(chosen_.get("onednn", False))
    spec, data = _prepared()
    found = {}
    for case in cases(steps, only):
        if chosen_.get("double") and case.precision == "bf16":
            continue
        made = _updates(case, spec, data, chosen_)
        found[case.name] = (made if variant == REFERENCE else made[-1:]).contiguous()
    save_file(found, out, {"class": determinism_class()})


# -- beside each other -------------------------------------------------------------------------


def run(variant: str, steps: Sequence[int], only: Sequence[str]) -> Path:
    """One machine's process; returns what it wrote."""
    from agents.training.determinism import pinned_environment

    out = BUILD / f"class-{hashlib.sha256(variant.encode()).hexdigest()[:8]}.safetensors"
    changes = VARIANTS[variant][0]
    env = os.environ | pinned_environment() | changes
    env = {key: value for key, value in env.items() if value or key not in changes}
    module = "tests.measure.studies.class_spread"
    given = ["--variant", variant, "--out", str(out), "--steps", *map(str, steps), "--only", *only]
    subprocess.run([sys.executable, "-m", module, *given], env=env, check=True)
    return out


def skipping(track: Any, skipped: int) -> list[Any]:
    """What a node may send that makes all but `skipped` of its steps; fp32 [n] each."""
    total, whole = len(track), track[-1].double()
    done = track[total - skipped - 1].double()
    sent = [done, done * (total / (total - skipped))]
    for last in (1, 2, 4, 8):
        if last < total - skipped:
            before = track[total - skipped - 1 - last].double()
            sent.append(done + (done - before) * (skipped / last))
    best = [one * float((whole @ one) / (one @ one)) for one in sent]
    return [one.float() for one in (*sent, *best)]


def far(own: Any, other: Any, codec: Any, shapes: Any, limits: Any) -> Any:
    """`compare` of two updates, fp32 [n], as a codec sends them, by nodes of two classes."""
    from agents.verify.reexecution import compare

    states = (named(own, shapes), named(other, shapes))
    mine, theirs = (codec.decode(codec.encode(one, None, SEED), shapes, SEED) for one in states)
    return compare(mine, theirs, False, limits)


def named(vector: Any, shapes: Any) -> Any:
    """The tensors of an update, fp32 [n]."""
    parts = vector.split([math.prod(shapes[name]) for name in sorted(shapes)])
    return {name: part.view(shapes[name]) for name, part in zip(sorted(shapes), parts, strict=True)}


def convicted(own: Any, other: Any, codec: Any, shapes: Any, precision: str) -> bool:
    """Whether a verifier that reaches `own` would find a node of another class that sends `other`
    wrong, as `agents.verify.spot_checks` asks it, in a job that leaves its tolerances out."""
    from agents.mechanisms.codec import EdgedCodec
    from agents.training.spec import EDGE_FLOOR, tolerances_for
    from agents.verify.reexecution import Encoding, Tolerances, compare_encoded

    given = tolerances_for(precision, codec.lossless)
    found = far(own, other, codec, shapes, Tolerances(given.cosine_min, given.rel_l2_max))
    if isinstance(codec, EdgedCodec) and not found.exact:
        limit = tolerances_for(precision, True).rel_l2_max
        how = Encoding(codec, None, SEED, limit, EDGE_FLOOR[precision])
        data = codec.encode(named(other, shapes), None, SEED)
        found = compare_encoded(named(own, shapes), data, how, found)
    return not found.ok


def most_skipped(track: Any, codec: Any, shapes: Any, limits: Any) -> int:
    """The largest k that passes, looked for until three in a row do not."""
    passed = 0
    for skipped in range(1, len(track)):
        found = (far(track[-1], sent, codec, shapes, limits) for sent in skipping(track, skipped))
        if any(one.ok for one in found):
            passed = skipped
        elif skipped - passed > 2:
            break
    return passed


def study(steps: Sequence[int], only: Sequence[str], others: Sequence[str]) -> None:
    """Print the spread by machine and codec, and the steps that may be skipped within it.
    `others`: the machines beside the portable class."""
    import torch
    from rich.console import Console
    from safetensors.torch import load_file

    from agents.mechanisms import codec as codecs
    from agents.training.model import init_state
    from agents.training.spec import tolerances_for
    from agents.verify.reexecution import Tolerances
    from tests.measure.rows import text_table

    torch.set_num_threads(1)
    spec, _ = _prepared()
    shapes = {key: tuple(tensor.shape) for key, tensor in init_state(spec.model).items()}
    made = {variant: load_file(run(variant, steps, only)) for variant in (REFERENCE, *others)}
    console = Console(width=170)
    loose = Tolerances(0.0, 1e9)
    kinds = {name: codecs.get(name)(**options) for name, options in CODECS.items()}
    table = text_table("relative L2 to the portable class, codec dense", ("case", *others))
    # Largest distance and angle by precision, steps, codec and whether the round was settled.
    worst: dict[tuple[Any, ...], tuple[float, float]] = {}
    wrong: Counter[tuple[str, str, int]] = Counter()
    compared: Counter[tuple[str, str, int]] = Counter()
    for case in cases(steps, only):
        own, row = made[REFERENCE][case.name][-1], []
        for variant in others:
            other = made[variant].get(case.name)
            if other is None:
                row.append("-")
                continue
            for name, codec in kinds.items():
                found = far(own, other[-1], codec, shapes, loose)
                key = (case.numbers, name, case.steps, case.start == "no warm-up")
                rel, angle = worst.get(key, (0.0, 0.0))
                worst[key] = (max(rel, found.rel_l2), max(angle, 1 - found.cosine))
                if case.start != "no warm-up" and variant != "again":
                    compared[key[:3]] += 1
                    wrong[key[:3]] += convicted(own, other[-1], codec, shapes, case.precision)
                if name == "dense":
                    row.append(f"{found.rel_l2:.1e}")
        table.add_row(case.name, *row)
    console.print(table)
    heads = ("numbers", "codec", "H", "warmed up or trained", "no warm-up", "default")
    table = text_table("largest relative L2 (and 1 - cosine) over machines and cases", heads)
    for numbers, name, count, cold in worst:
        if not cold:
            both = (worst.get((numbers, name, count, one)) for one in (False, True))
            cells = ("-" if one is None else f"{one[0]:.1e} ({one[1]:.0e})" for one in both)
            limit = tolerances_for(numbers[:4], kinds[name].lossless).rel_l2_max
            table.add_row(numbers, name, str(count), *cells, f"{limit:g}")
    console.print(table)
    columns = ("numbers", "codec", "H", "found wrong, warmed up or trained")
    table = text_table("honest nodes of another class that are found wrong", columns)
    for kind, count in compared.items():
        table.add_row(*map(str, kind), f"{wrong[kind]} of {count}")
    console.print(table)
    table = text_table("steps skipped that pass, of H", ("case", *SKIPPERS))
    for case in cases(steps, only):
        if case.inner == "gradient" or case.steps > 96:
            continue
        track, row = made[REFERENCE][case.name], []
        for name in SKIPPERS:
            limits = tolerances_for(case.precision, kinds[name].lossless)
            ways = (Tolerances(*OLD), Tolerances(limits.cosine_min, limits.rel_l2_max))
            before, now = (most_skipped(track, kinds[name], shapes, way) for way in ways)
            row.append(f"{before} ({before / case.steps:.0%}), now {now} ({now / case.steps:.0%})")
        table.add_row(case.name, *row)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, nargs="+", default=[12, 96])
    parser.add_argument("--only", nargs="+", default=list(INNERS), choices=list(INNERS))
    others = [variant for variant in VARIANTS if variant != REFERENCE]
    parser.add_argument("--beside", nargs="+", default=others, choices=others)
    parser.add_argument("--variant", choices=list(VARIANTS), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.variant:
        one(given.variant, given.steps, given.only, given.out)
        return
    study(given.steps, given.only, given.beside)


if __name__ == "__main__":
    main()
