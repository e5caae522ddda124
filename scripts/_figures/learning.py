# SPDX-License-Identifier: Apache-2.0
"""Figure 5: loss against tokens, by what crosses between the stages."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes

from agents.mechanisms.boundary import wire_ratio
from scripts._figures.boundary_runs import Run, Setup, build, train_all
from scripts._figures.figure import COLOURS, SOFT, Figure
from scripts._figures.text import SEQ

# Label -> boundary for a width, and bits of a channel of its code.
_KINDS = {
    "residual": ("residual:width={}", 16),
    "residual-fp6": ("residual:width={},code=fp6,gradient=fp4", 6),
    "bottleneck": ("bottleneck:width={}", 16),
    "subspace": ("subspace:width={}", 16),
}
_RATIOS = (32, 128)
_VOCABULARY = 256


def boundaries_of(d_model: int) -> dict[str, str]:
    """Label -> boundary: the two controls, and each kind at about 32x and 128x, codes in bf16 but
    where the label says fp6."""
    narrow = {
        f"{label} {ratio}x": kind.format(32 * d_model // ratio // bits)
        for ratio in _RATIOS
        for label, (kind, bits) in _KINDS.items()
    }
    return {"none 1x": "none", "cut": "cut", **narrow}


def figure_5(setup: Setup, seed: int, workers: int, say: Callable[[str], None]) -> Figure:
    """Train every boundary, each once."""
    named = boundaries_of(setup.d_model)
    runs: dict[str, Run] = {}
    wanted = [(name, seed) for name in named.values()]
    for name, _, run in train_all(lambda _: setup, wanted, workers):
        runs[name] = run
        say(f"{name}: {run.loss:.3f} nats a byte, {run.seconds:.0f} s of CPU")
    rows: list[tuple[str | int | float, ...]] = []
    for label, spelt in named.items():
        for tokens, loss in runs[spelt].curve:
            rows.append((label, spelt, tokens, round(loss, 4), ""))
        last = setup.steps * setup.batch * SEQ
        rows.append((label, spelt, last, "", round(runs[spelt].loss, 4)))
    heads = setup.model(seed)

    def draw(axis: Axes) -> None:
        for label, spelt in named.items():
            _curve(axis, label, runs[spelt])
        axis.set(xlabel="tokens", ylabel="training loss, nats a byte")
        axis.grid(alpha=0.25)
        axis.legend(fontsize=8)

    return Figure(
        name="5",
        title=f"Loss against tokens by boundary, {len(setup.layers)} stages (one run each)",
        measured=(
            f"A byte model of {len(setup.layers)} stages with {list(setup.layers)} blocks, "
            f"{heads.d_model} channels and {runs['none'].parameters:,} parameters, trained on "
            f"{setup.tokens:,} tokens of the Python standard library's source. A point is the mean "
            "loss of fresh batches since the last point. All runs start from the same bits and see "
            "the same batches; nothing else differs but the boundary. `cut` is a control through "
            "which nothing passes that is used. Times less is the stream's fp32 bytes over the "
            f"code's. Counted with header and token ids it is {_counted(setup)} in bf16."
        ),
        formula="There is none: this is what was seen, once a boundary.",
        assumed=(
            "The primer trains a model of 1.5 billion parameters with three bottlenecks on up to "
            "400 million tokens of FineWeb. This one is some 2,000 times smaller and sees some "
            f"1,500 times less. Its own choices: rate {setup.lr:g} with warm-up and cosine, AdamW, "
            f"{setup.batch} sequences of {SEQ} tokens a step. The primer names no seed and no "
            "number of runs. `residual` and `subspace` are not the primer's: it has `bottleneck` "
            "alone."
        ),
        seeds=f"{seed}, for the model's first bits and for the batches",
        found="Loss on text that was never trained on: "
        + ", ".join(f"{label} {runs[spelt].loss:.3f}" for label, spelt in named.items())
        + ". Three seeds of `none` alone differ by 0.12 nats at 262,144 tokens, so that one run "
        "each does not rank neighbours.",
        columns=("label", "boundary", "tokens", "training loss", "held-out loss"),
        rows=rows,
        draw=draw,
    )


def _counted(setup: Setup) -> str:
    shown = []
    for ratio in _RATIOS:
        boundary = build(boundaries_of(setup.d_model)[f"residual {ratio}x"])
        counted = wire_ratio(boundary, setup.d_model, _VOCABULARY, setup.batch, SEQ)
        shown.append(f"{counted:.1f} for {ratio}x")
    return " and ".join(shown)


def _curve(axis: Axes, label: str, run: Run) -> None:
    kind, _, ratio = label.partition(" ")
    colour = {"none": "black", "cut": SOFT}.get(kind) or COLOURS[list(_KINDS).index(kind)]
    style = {"": ":", "128x": "--"}.get(ratio, "-")
    axis.plot(*zip(*run.curve, strict=True), style, color=colour, label=label, linewidth=1.5)
