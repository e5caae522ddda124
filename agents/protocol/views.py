# SPDX-License-Identifier: Apache-2.0
"""Which views of the contracts depend on the block that they are asked of.

All others read storage alone, so their answers hold until a contract logs something. The table is
held against the contracts' sources by its test.
"""

from __future__ import annotations

OF_THE_BLOCK = frozenset(
    {
        "Coordinator.state",
        "DataKeys.is_open",
        "Lens.read",
        "NodeBenchmarks.verdict_digest",
        "NodeRegistry.acting_operator",
        "NodeRegistry.eligible_nodes",
        "NodeRegistry.is_eligible",
        "NodeRegistry.node",
        "RedundantTasks.executor",
        "RedundantTasks.expected",
        "ScoreConsensus.scoring",
        "ScoreConsensus.settlement",
        "TrainingResults.can_finalize",
    }
)
"""Contract and function. They look at the clock, at a block's number or at its hash."""
