# SPDX-License-Identifier: Apache-2.0
"""`docs/boundaries.json`: runs of one setup, boundary and seed each; the page's tables and the
curves of share against ratio are made from it."""

from __future__ import annotations

import json
import platform
import statistics
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes

from agents.mechanisms.boundary import bytes_per_token, wire_ratio
from scripts._figures.boundary_runs import Run, Setup, build
from scripts._figures.figure import COLOURS, SOFT, Figure
from scripts._figures.text import SEQ, corpus
from tests.measure.rows import put_between

DOCS = Path(__file__).resolve().parents[3] / "docs"
JSON, PAGE = DOCS / "boundaries.json", DOCS / "pipeline.md"
CONTROLS = ("none", "cut")
VOCABULARY = 256
_MUON = Setup(
    tokens=1_048_576, d_model=64, lr=3e-3, inner="muon", inner_options={"lr_ratio": 3}, batch=16
)
SETUPS = {
    "muon": _MUON,
    "muon-0.9": replace(_MUON, inner_options={**_MUON.inner_options, "momentum": 0.9}),
    "muon-128": replace(
        _MUON, d_model=128, lr=2e-3, inner_options={"lr_ratio": 3, "momentum": 0.9}, batch=4
    ),
    "adamw": Setup(tokens=1_048_576, d_model=128, lr=1.5e-3),
}
"""By name, what the recorded runs have in common. The rates are the best of `none`; `muon` has the
usual momentum, 0.95, and the others with Muon one that is better for `none` in so few steps."""
BOUNDARY_RATIO = {"residual": 0.1}
"""By kind, `boundary_ratio` of its runs with Muon; the others' matrices step like all."""


def setup_of(boundary: str, inner: str = "muon") -> Setup:
    """In which a boundary is recorded."""
    setup, kind = SETUPS[inner], boundary.partition(":")[0]
    if setup.inner != "muon" or kind not in BOUNDARY_RATIO:
        return setup
    own = {"boundary_ratio": BOUNDARY_RATIO[kind]}
    return replace(setup, inner_options={**setup.inner_options, **own})


class Records:
    """What the file holds of runs in their boundary's setup; other runs are left as they are.

    A run that is of another machine than the file's has a `machine` of its own.

    Attributes:
        inner: the setup of the runs, a key of `SETUPS`.
        begin: the mark of the page after which their table stands.
    """

    def __init__(self, path: Path = JSON, inner: str = "muon") -> None:
        self.path, self.inner, self.setup = path, inner, SETUPS[inner]
        self.begin = f"<!-- boundaries with {inner} -->"
        self._all: list[dict[str, Any]] = []
        if path.exists():
            self._all = json.loads(path.read_text())["runs"]

    def of(self, boundary: str) -> dict[int, dict[str, Any]]:
        """By seed what was recorded of a boundary."""
        key = {"setup": self._setting(boundary), "boundary": boundary}
        own = [one for one in self._all if {name: one[name] for name in key} == key]
        return {one["seed"]: one["result"] for one in own}

    def _setting(self, boundary: str) -> Any:
        return json.loads(json.dumps(asdict(setup_of(boundary, self.inner))))

    def boundaries(self) -> list[str]:
        """Those with a run: the controls, then by kind, the longest code first."""
        found = {name for one in self._all if self.of(name := one["boundary"])}
        return sorted(
            found,
            key=lambda name: (
                CONTROLS.index(name) if name in CONTROLS else len(CONTROLS),
                name.partition(":")[0],
                -bytes_per_token(build(name), self.setup.d_model),
                name,
            ),
        )

    def add(self, boundary: str, seed: int, run: Run) -> None:
        """Write a run; it replaces one of the same setup, boundary and seed."""
        key = {"setup": self._setting(boundary), "boundary": boundary, "seed": seed}
        self._all = [one for one in self._all if {name: one[name] for name in key} != key]
        result = {
            "loss": round(run.loss, 5),
            "parameters": run.parameters,
            "cpu_s": round(run.seconds, 1),
            "curve": [[tokens, round(loss, 4)] for tokens, loss in run.curve],
        }
        self._all.append({**key, "result": result})
        self._all.sort(key=lambda one: (one["boundary"], one["seed"], str(one["setup"])))
        lines = ",\n".join(json.dumps(one) for one in self._all)
        machine = {
            "corpus_sha256": sha256(corpus()).hexdigest(),
            "python": platform.python_version(),
            "torch": torch.__version__,
        }
        self.path.write_text(f'{{"machine": {json.dumps(machine)},\n"runs": [\n{lines}\n]}}\n')

    # -- what is made of them ----------------------------------------------------------------------

    def ratio(self, boundary: str, ids: bool) -> float:
        """Of the fp32 stream over what crosses, in the direction where that is more; header and
        token ids counted or not."""
        if not ids:
            return 4 * self.setup.d_model / bytes_per_token(build(boundary), self.setup.d_model)
        return wire_ratio(build(boundary), self.setup.d_model, VOCABULARY, self.setup.batch, SEQ)

    def controls(self, boundary: str) -> tuple[str, str]:
        """All crosses, and nothing does: with the context of the boundary, if it has one."""
        context = getattr(build(boundary), "context", 0)
        if not context:
            return CONTROLS
        return f"residual:width={self.setup.d_model},context={context}", f"cut:context={context}"

    def shares(self, boundary: str, controls: tuple[str, str] = CONTROLS) -> dict[int, float]:
        """By seed the part of what depth is worth that is kept, where both controls were run."""
        none, cut = map(self.of, controls)
        return {
            seed: (cut[seed]["loss"] - run["loss"]) / (cut[seed]["loss"] - none[seed]["loss"])
            for seed, run in self.of(boundary).items()
            if seed in none and seed in cut
        }

    def table(self) -> str:
        """Markdown: a line a boundary, the mean over its seeds and each seed beside it."""
        lines = [
            "| boundary | bytes/token | ratio: codes alone, all | seeds | nats a byte | each seed "
            "| over `none` | share | each seed | share with context in the controls |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        none = self.of("none")
        for name in self.boundaries():
            runs, shares = self.of(name), self.shares(name)
            losses = {seed: run["loss"] for seed, run in sorted(runs.items())}
            paired = [seed for seed in losses if seed in none]
            over = statistics.mean(losses[seed] / none[seed]["loss"] for seed in paired) - 1
            width = bytes_per_token(build(name), self.setup.d_model)
            codes = f"{self.ratio(name, ids=False):.0f}" if width else "-"
            lines.append(
                f"| `{name}` | {width:g} | {codes}, {self.ratio(name, ids=True):.1f} "
                f"| {len(losses)} | {statistics.mean(losses.values()):.4f} "
                f"| {', '.join(f'{loss:.3f}' for loss in losses.values())} | {over:+.2%} "
                f"| {self.share(name):.0%} | {', '.join(f'{one:.0%}' for one in shares.values())} "
                f"| {self._like_for_like(name)} |"
            )
        return "\n".join(lines)

    def _like_for_like(self, boundary: str) -> str:
        controls = self.controls(boundary)
        if controls == CONTROLS or not self.shares(boundary, controls):
            return ""
        return f"{self.share(boundary, controls):.0%}"

    def share(self, boundary: str, controls: tuple[str, str] = CONTROLS) -> float:
        """Of the mean losses over the seeds that both controls have too: a ratio of one seed's
        small differences is noisier."""
        seeds = list(self.shares(boundary, controls))
        none, cut, own = (
            statistics.mean(self.of(name)[seed]["loss"] for seed in seeds)
            for name in (*controls, boundary)
        )
        return (cut - own) / (cut - none)

    def write_page(self) -> None:
        """Put the table on the page, and the curve beside it."""
        put_between(PAGE, self.begin, self.table())
        self.figure().write(DOCS)

    def figure(self) -> Figure:
        """Share against ratio, a line a kind."""
        rows = [
            (name, self.ratio(name, ids=False), self.ratio(name, ids=True), seed, share)
            for name in self.boundaries()
            if bytes_per_token(build(name), self.setup.d_model) and name not in CONTROLS
            for seed, share in self.shares(name).items()
        ]

        def draw(axis: Axes) -> None:
            kinds = list(dict.fromkeys(_kind(str(row[0])) for row in rows))
            for place, kind in enumerate(kinds):
                colour, style = COLOURS[place % len(COLOURS)], "-" if place < len(COLOURS) else "--"
                own = [row for row in rows if _kind(str(row[0])) == kind]
                axis.plot([row[1] for row in own], [row[4] for row in own], ".", color=colour)
                means = sorted({(row[1], self.share(str(row[0]))) for row in own})
                axis.plot(*zip(*means, strict=True), style, color=colour, label=kind)
            for share in (0, 1):
                axis.axhline(share, color=SOFT, linewidth=0.8)
            axis.plot([32, 128], [0.8, 0.6], "k_", markersize=16, label="goals")
            axis.set(
                xlabel="times fewer bytes than the fp32 stream, codes alone", xscale="log",
                ylabel="share of what depth is worth: (cut - x) / (cut - none)",
                xlim=(3.5, 150), ylim=(-1, 2),
            )  # fmt: skip
            ticks = (4, 8, 16, 32, 64, 128)
            axis.set_xticks(ticks, [f"{tick}x" for tick in ticks])
            axis.minorticks_off()
            axis.legend(fontsize=8)

        setup = self.setup
        return Figure(
            name="boundaries" if self.inner == "muon" else f"boundaries-{self.inner}",
            title=f"Share against ratio: {setup.tokens:,} tokens, {setup.d_model} channels, "
            f"{self.inner} (dots: seeds)",
            measured="The runs of docs/boundaries.json.",
            formula="None.",
            assumed="The setup.",
            seeds=", ".join(map(str, sorted(self.of("none")))),
            found="See docs/pipeline.md.",
            columns=("boundary", "ratio of codes", "ratio with header and ids", "seed", "share"),
            rows=rows,
            draw=draw,
        )


def _kind(boundary: str) -> str:
    """A kind, and its options but for the width."""
    name, _, options = boundary.partition(":")
    return ", ".join((name, *(one for one in options.split(",") if not one.startswith("width="))))
