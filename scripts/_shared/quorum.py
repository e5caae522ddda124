# SPDX-License-Identifier: Apache-2.0
"""How many members of a committee may be asked to approve, as `Coordinator` has it."""

from __future__ import annotations

import click


def refuse_quorum(members: int, threshold: int) -> None:
    """Raise click.UsageError unless more than half of the members, and no more than all, approve.

    By half of them two operations that exclude each other could both be approved.
    """
    least = members // 2 + 1
    if not least <= threshold <= members:
        raise click.UsageError(
            f"--threshold {threshold}: a committee of {members} needs {least} to {members} "
            "approvals."
        )
