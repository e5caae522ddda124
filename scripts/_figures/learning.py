# SPDX-License-Identifier: Apache-2.0
"""Figure 5: loss against tokens, by what crosses between the stages."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes

from agents.mechanisms.boundary import wire_ratio
from scripts._figures.boundary_runs import Run, Setup, build, train_all
from scripts._figures.figure import COLOURS, SOFT, Figure
from scripts._figures.text import SEQ

_SMALL = "code=fp6,gradient=fp4"
# Label -> boundary for a width.
_KINDS = {
    "residual": "residual:width={}",
    "residual-fp6": f"residual:width={{}},{_SMALL}",
    "bottleneck": "bottleneck:width={}",
    "bottleneck-fp6": f"bottleneck:width={{}},{_SMALL}",
    "subspace": "subspace:width={}",
    "subspace-fp6": f"subspace:width={{}},{_SMALL}",
}
_RATIOS = (32, 128)
_VOCABULARY = 256


def boundaries_of(setup: Setup) -> dict[str, str]:
    """Label -> boundary: the two controls, and each kind in each form with the most channels that
    are still 32x and 128x. A form of which one channel is less than that is left out."""
    narrow = {
        f"{label} {ratio}x": widest
        for ratio in _RATIOS
        for label, kind in _KINDS.items()
        if (widest := _widest(kind, ratio, setup))
    }
    return {"none 1x": "none", "cut": "cut", **narrow}


def ratio_of(spelt: str, setup: Setup) -> float:
    """How many times less than the fp32 stream crosses, with header and token ids."""
    return wire_ratio(build(spelt), setup.d_model, _VOCABULARY, setup.batch, SEQ)


def _widest(kind: str, ratio: int, setup: Setup) -> str | None:
    """The boundary with the most channels that is at least so many times less, if one is."""
    widths = range(setup.d_model, 0, -1)
    spelt = (kind.format(width) for width in widths)
    return next((one for one in spelt if ratio_of(one, setup) >= ratio), None)


def figure_5(setup: Setup, seed: int, workers: int, say: Callable[[str], None]) -> Figure:
    """Train every boundary, each once."""
    named = boundaries_of(setup)
    runs: dict[str, Run] = {}
    wanted = [(name, seed) for name in named.values()]
    for name, _, run in train_all(lambda _: setup, wanted, workers):
        runs[name] = run
        say(f"{name}: {run.loss:.3f} nats a byte, {run.seconds:.0f} s of CPU")
    rows: list[tuple[str | int | float, ...]] = []
    for label, spelt in named.items():
        ratio = round(ratio_of(spelt, setup), 1)
        for tokens, loss in runs[spelt].curve:
            rows.append((label, spelt, ratio, tokens, round(loss, 4), ""))
        last = setup.steps * setup.batch * SEQ
        rows.append((label, spelt, ratio, last, "", round(runs[spelt].loss, 4)))
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
            "which nothing passes that is used. A kind has the most channels that are at least 32 "
            "or 128 times less than the stream in fp32, by the longer of code with header and "
            f"token ids and gradient with header: {_counted(setup, named)}. Codes are in bf16 both "
            "ways, or in fp6 with gradients in fp4. One channel of bf16 with its token's id is "
            f"{ratio_of('residual:width=1', setup):.1f}x."
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
        columns=("label", "boundary", "ratio", "tokens", "training loss", "held-out loss"),
        rows=rows,
        draw=draw,
    )


def _counted(setup: Setup, named: dict[str, str]) -> str:
    """Channels and exact ratio of each label; kinds do not differ in either."""
    shown = {
        f"{boundary.code_width(setup.d_model)} of {boundary.codes.form} are {ratio:.1f}x": None
        for label, spelt in named.items()
        if label.endswith("x") and spelt != "none"
        for boundary, ratio in [(build(spelt), ratio_of(spelt, setup))]
    }
    return ", ".join(shown)


def _curve(axis: Axes, label: str, run: Run) -> None:
    kind, _, ratio = label.partition(" ")
    colour = {"none": "black", "cut": SOFT}.get(kind) or COLOURS[list(_KINDS).index(kind)]
    style = {"": ":", "128x": "--"}.get(ratio, "-")
    axis.plot(*zip(*run.curve, strict=True), style, color=colour, label=label, linewidth=1.5)
