# SPDX-License-Identifier: Apache-2.0
"""The methods of the quality study: a name for each row, with all it needs to be run again.

Peak rates, outer rates and sizes were chosen on seed 0; the other seeds are held out. Those of
`cells-muon-quarter` were chosen on the seeds 0, 3, 4 and 5. Beside each method stands whether it is
published or ours.
"""

from __future__ import annotations

from dataclasses import replace

from tests.measure.quality.trainer import Method

_LONG = 65_536  # rounds: the memory is never emptied
_CELLS = {"fine": "head.weight", "memory_rounds": _LONG}

METHODS: dict[str, Method] = {
    # The anchors' reference: one AdamW on all eight batches.
    "adamw": Method("central"),
    # Muon (arXiv 2502.16982) in its place, at the same rate and decay.
    "muon": Method("central", inner=("muon", {})),
    # Both at the better or best rate of those tried first, on seed 0: of 3e-3, 6e-3; of 3e-3 x 1,
    # x 3, x 8. On the later grid (`grid.py`) AdamW is best at 15e-3, and Muon at x 8 as here.
    "adamw-tuned": Method("central", lr=6e-3),
    "muon-tuned": Method("central", inner=("muon", {"lr_ratio": 8.0})),
    # DiLoCo, arXiv 2311.08105, with the anchors' settings.
    "diloco": Method("diloco", outer_lr=0.7),
    # SparseLoCo, arXiv 2508.15706: 64 of 4096 in true 64 x 64 blocks, 2 bits, EF 0.95, outer 1.
    "sparseloco": Method(
        "local",
        codec=(
            "sparse",
            {"per_chunk": 64, "block": 64, "gain": 1.0, "decay": 0.95, "memory_rounds": _LONG},
        ),
    ),
    # Ours: an exchange every 5 steps, median-norm clipping, a longer outer step.
    "sparse": Method(
        "local",
        every=5,
        outer_lr=3.0,
        codec=("sparse", {"per_chunk": 43, "gain": 1.0, "decay": 0.95, "memory_rounds": _LONG}),
        merge=("norm_clip", {}),
    ),
    # Ours with Muon inside, whose momentum lives on, and a memory that forgets faster.
    "sparse-muon": Method(
        "local",
        every=5,
        outer_lr=4.0,
        codec=("sparse", {"per_chunk": 43, "gain": 1.0, "decay": 0.8, "memory_rounds": _LONG}),
        merge=("norm_clip", {}),
        inner=("muon", {"lr_ratio": 8.0}),
    ),
    # The same with the codec `cells`, at as many bytes, and at a quarter.
    "cells-muon": Method(
        "local",
        every=5,
        outer_lr=7.0,
        codec=("cells", {**_CELLS, "cell": 64, "fine_share": 0.33, "decay": 0.6}),
        merge=("norm_clip", {}),
        inner=("muon", {"lr_ratio": 8.0}),
    ),
    "cells-muon-quarter": Method(
        "local",
        low=0.25,
        every=5,
        outer_lr=10.0,
        codec=("cells", {**_CELLS, "cell": 256, "share": 0.7, "fine_share": 0.125, "decay": 0.5}),
        merge=("norm_clip", {}),
        inner=("muon", {"lr_ratio": 8.0}),
    ),
    # A quarter with the codec `directions`. Gain and memory were chosen on seed 0.
    "directions-muon-quarter": Method(
        "local",
        low=0.25,
        every=5,
        outer_lr=10.0,
        codec=(
            "directions",
            {
                **_CELLS,
                "cell": 512,
                "directions": 32_768,
                "share": 0.787,
                "fine_share": 0.125,
                "decay": 0.4,
                "gain": 1.3,
            },
        ),
        merge=("norm_clip", {}),
        inner=("muon", {"lr_ratio": 8.0}),
    ),
    # DeMo, arXiv 2411.19870: gradients, k = 8, 8-bit values, sign, an exchange at every step.
    "demo-published": Method(
        "gradient",
        every=1,
        outer_lr=2e-3,
        outer_decays=True,
        codec=("demo", {"per_chunk": 8}),
        merge=("demo_sign", {}),
    ),
    # Ours: the codec under inner AdamW steps, no sign.
    "demo": Method(
        "local",
        every=5,
        outer_lr=2.0,
        codec=("demo", {"per_chunk": 88, "value_bits": 2, "decay": 0.95}),
        merge=("norm_clip", {}),
    ),
    # The same with Muon inside, as `sparse-muon` has it.
    "demo-muon": Method(
        "local",
        every=5,
        outer_lr=4.0,
        codec=("demo", {"per_chunk": 88, "value_bits": 2, "decay": 0.8}),
        merge=("norm_clip", {}),
        inner=("muon", {"lr_ratio": 8.0}),
    ),
}

# Where a run is longer than the one that `muon-tuned` was tuned on, a lower rate is better.
MUON_X3 = replace(METHODS["muon"], inner=("muon", {"lr_ratio": 3.0}))
