# SPDX-License-Identifier: Apache-2.0
"""The mode `pipeline`: every node holds one stage of the model, and samples pass through all.

The seed of a round gives each node its stage. Once a round the updates of a stage's nodes are
merged into one (docs/pipeline.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.mechanisms.mode import Mode, register


@register("pipeline")
@dataclass(frozen=True, kw_only=True)
class Pipeline(Mode):
    """Split by layers and by data; takes no options of its own.

    The spec's block `pipeline` (`agents.training.spec.PipelineSpec`) has what only a split model
    needs: layers, boundary, quorum, shards, paths, sharing, segments. What jobs of both modes have
    stands where it does for all: the inner optimizer in `optimizer`, gamma in `score_options` (it
    belongs to the scores `backward_passes` and `clasp`), the samples of an epoch in
    `batches_per_round`, and how long an epoch may take in the windows of the job's terms on chain.
    """

    splits_model = True
