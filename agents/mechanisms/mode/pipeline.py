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
    """Split by layers and by data; takes no options. The spec's block `pipeline` has them all."""

    splits_model = True
