# SPDX-License-Identifier: Apache-2.0
"""The report of a run: one HTML page with plots, readable without a network connection."""

from __future__ import annotations

import html
from collections.abc import Collection
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from agents.protocol.numbers import ZOO, Phase
from scripts._report.history import History, NodeStory
from scripts._report.live import losses
from scripts._report.page import COLOURS, check_list, event_list, head, plots, svg, table
from scripts._report.spent import Spent
from scripts._report.standing import Curves, Standing
from scripts._report.verdict import Check


def write_report(
    directory: Path,
    history: History,
    checks: list[Check],
    facts: dict[str, str],
    checkpoint: tuple[str, bytes] | None,
    spent: Spent | None = None,
    standing: Standing | None = None,
    cheats: Collection[str] = (),
) -> Path:
    """Write index.html and the checkpoint into `directory`; returns the page's path.

    `facts`: figures of the run for the table at the top. `checkpoint`: its CID and bytes.
    `spent`: what the job cost in privacy, None if it promised none. `standing`: what validators
    measured, None if they don't score this job. `cheats`: their names, to be drawn dashed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if checkpoint is not None:
        (directory / "checkpoint.safetensors").write_bytes(checkpoint[1])
    drawn = [_loss(history), _payouts(history), _stakes(history)]
    if spent is not None:
        drawn.append(_privacy(spent))
    if standing is not None:
        drawn += _standing(standing, history, cheats)
    parts = [
        *head("Menagerie: a training run", "A training run", checks),
        *plots(drawn),
        "<h2>What must hold</h2>",
        *check_list(checks),
        "<h2>Figures</h2>",
        table(["", ""], [[key, value] for key, value in facts.items()], numbers=False),
    ]
    if checkpoint is not None:
        parts.append(
            "<h2>The model</h2><p>Final checkpoint: "
            "<a href=checkpoint.safetensors>checkpoint.safetensors</a>, CID "
            f"<code>{html.escape(checkpoint[0])}</code>. Any IPFS node that holds it serves the "
            "same bytes under this CID; its model hash is the last entry of the ledger.</p>"
        )
    parts += ["<h2>Nodes</h2>", _nodes(history), "<h2>Rounds</h2>", _rounds(history)]
    parts += ["<h2>Events</h2>", *event_list(history.happenings, _start(history)), "</html>"]
    page = directory / "index.html"
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


# -- plots -------------------------------------------------------------------------------------


def _loss(history: History) -> str:
    figure, axis = plt.subplots(figsize=(6, 3.6))
    curve = losses(history)
    axis.plot(range(len(curve)), curve, marker="o", color="#0969da")
    axis.set(title="Validation loss", xlabel="finalized rounds", ylabel="nats per token")
    return svg(figure, axis)


def _payouts(history: History) -> str:
    figure, axis = plt.subplots(figsize=(6, 3.6))
    start = _start(history)
    for node in history.nodes.values():
        if node.payouts:
            times = [0, *(time - start for time, _ in node.payouts)]
            amounts = [0.0, *(amount / ZOO for _, amount in node.payouts)]
            axis.step(times, amounts, where="post", label=node.name)
    axis.set(title="Rewards credited", xlabel="chain time, s", ylabel="ZOO")
    return svg(figure, axis, legend=True)


def _stakes(history: History) -> str:
    figure, axis = plt.subplots(figsize=(6, 3.6))
    start = _start(history)
    for node in history.nodes.values():
        first = node.stakes[0][1]
        times = [time - start for time, _ in node.stakes] + [history.now - start]
        shares = [100 * amount / first for _, amount in node.stakes]
        slashed = len(node.stakes) > 1
        axis.step(
            times,
            [*shares, shares[-1]],
            where="post",
            label=node.name if slashed else None,
            color=None if slashed else "#bbb",
            zorder=2 if slashed else 1,
        )
    axis.set(
        title="Stake left (grey: never slashed)", xlabel="chain time, s", ylabel="% of the first"
    )
    axis.set_ylim(-5, 110)
    return svg(figure, axis, legend=True)


def _privacy(spent: Spent) -> str:
    figure, axis = plt.subplots(figsize=(6, 3.6))
    for name, curve in spent.curves.items():
        axis.step(*zip(*curve, strict=True), where="post", marker="o", markersize=3, label=name)
    axis.axhline(spent.budget, color="#cf222e", linestyle="--", label="budget")
    axis.set(
        title=f"Privacy spent, per {spent.unit}",
        xlabel="round",
        ylabel=f"epsilon at delta {spent.delta:g}",
    )
    return svg(figure, axis, legend=True)


def _standing(standing: Standing, history: History, cheats: Collection[str]) -> list[str]:
    """One plot per figure; a node has one colour in all of them."""
    whole = {"loss_scores", "ratings", "mus", "peer_scores", "payouts"}
    nodes = sorted({node for name in whole for node in getattr(standing, name)})
    colours = {node: COLOURS[place % len(COLOURS)] for place, node in enumerate(nodes)}

    def draw(curves: Curves, title: str, unit: str, narrow: bool = False) -> str:
        figure, axis = plt.subplots(figsize=(6, 4.6))
        for node, curve in sorted(curves.items()):
            name = history.label(node)
            axis.plot(
                *zip(*curve, strict=True),
                marker="o",
                markersize=2.5,
                linewidth=1.4,
                linestyle="--" if name in cheats else "-",
                color=colours[node],
                label=name,
            )
        axis.axhline(0, color="#888", linewidth=0.6, zorder=0)
        axis.set(title=title, xlabel="round", ylabel=unit)
        if narrow:
            _cut_off(axis, curves)
        # Below the plot: with a dozen curves there is no free corner in it.
        axis.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))
        return svg(figure, axis)

    return [
        draw(standing.loss_scores, "LossScore on random data", "nats per token", narrow=True),
        draw(standing.ratings, "LossRating (OpenSkill's ordinal)", "skill - 3 sigma"),
        draw(standing.mus, "mu: fits its own batches better", "moving average of signs"),
        draw(standing.peer_scores, "PeerScore", "mu x LossRating, cut at 0"),
        draw(standing.payouts, "Paid per round", "ZOO"),
    ]


def _cut_off(axis: Any, curves: Curves) -> None:
    """Keep one ruinous value from flattening all others: show what 95 % of the points span."""
    figures = sorted(figure for curve in curves.values() for _, figure in curve)
    if len(figures) >= 20:
        edge = len(figures) // 40
        low, high = figures[edge], figures[-1 - edge]
        margin = 0.1 * (high - low) or 1.0
        axis.set_ylim(low - margin, high + margin)


def _start(history: History) -> int:
    return min((r.opened_at for r in history.rounds.values()), default=history.now)


# -- tables ------------------------------------------------------------------------------------


def _nodes(history: History) -> str:
    def row(node: NodeStory) -> list[str]:
        return [
            node.name,
            f"{node.stakes[0][1] / ZOO:,.2f}",
            f"{node.stake / ZOO:,.2f}",
            node.state,
            node.verdict or "-",
            *([node.standing or "-"] if scored else []),
            f"{node.earned / ZOO:,.4f}",
        ]

    scored = any(node.standing for node in history.nodes.values())
    columns = ["node", "stake at first", "stake now", "state", "last verdict"]
    columns += [*(["standing"] if scored else []), "earned ZOO"]
    return table(columns, [row(node) for node in history.nodes.values()])


def _rounds(history: History) -> str:
    rows = []
    for round_ in history.rounds.values():
        loss = f"{round_.report.val_loss:.4f}" if round_.report else "-"
        seconds = str(round_.ended_at - round_.opened_at) if round_.ended_at else "-"
        counts = f"{len(round_.nodes)} / {len(round_.committed)} / {len(round_.revealed)}"
        rows.append([str(round_.round_id), Phase(round_.phase).name, counts, loss, seconds])
    return table(["round", "phase", "expected / committed / revealed", "loss", "seconds"], rows)
