# SPDX-License-Identifier: Apache-2.0
"""Shows an audit to people: a tick for every check that holds, else the exact difference.

A check that was not made has neither.
"""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from agents.audit.sources.findings import CHECKS, Audit, Part


def progress_bar(console: Console) -> Progress:
    """A bar for `audit_job`'s progress: add one task and update it."""
    return Progress(
        SpinnerColumn(),
        BarColumn(bar_width=24),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def print_audit(audit: Audit, console: Console) -> None:
    """Print every round with its ticks and differences, then the verdict."""
    console.print(
        f"Audit of job {audit.job_id} on chain {audit.chain_id}, as of block {audit.block} "
        f"({audit.block_hash[:18]}…){', all work done again' if audit.deep else ''}"
    )
    for part in audit.parts:
        print_part(part, console)
    count = len(audit.differences)
    if audit.holds:
        console.print(f"[bold green]✓ Everything holds[/]: {audit.compared:,} comparisons.")
    else:
        console.print(
            f"[bold red]✗ {count} difference{'s' * (count != 1)}[/] "
            f"in {audit.compared:,} comparisons."
        )


def print_part(part: Part, console: Console) -> None:
    """Print one round, or the job as a whole."""
    title = f"Round {part.round_id}" if part.round_id else "Job"
    mark = "[green]✓[/]" if part.holds else "[red]✗[/]"
    console.print(f"{mark} [bold]{title}[/] {escape(part.status)}{_figures(part)}")
    ticks = [
        f"[{'red' if part.differing(name) else 'green'}]{'✗' if part.differing(name) else '✓'}[/] "
        f"{name} {part.counts[name]}"
        for name in CHECKS
        if name in part.counts
    ]
    if ticks:
        console.print("    " + "  ".join(ticks), soft_wrap=True)
    for difference in part.differences:
        text = f"{difference.check}: {difference}"
        console.print(f"    [red]✗[/] {escape(text)}", soft_wrap=True)
    for remark in part.remarks:
        console.print(f"    [yellow]·[/] {escape(remark)}", soft_wrap=True)


def _figures(part: Part) -> str:
    words = []
    if "val_loss_recomputed" in part.figures:
        words.append(f"validation loss {part.figures['val_loss_recomputed']:.4f}")
    if "privacy" in part.figures:
        spent = [entry["epsilon"] for entry in part.figures["privacy"].values()]
        if spent:
            words.append(f"epsilon spent at most {max(spent):.3g}")
    return f" ({', '.join(words)})" if words else ""
