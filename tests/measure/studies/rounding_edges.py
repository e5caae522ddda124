# SPDX-License-Identifier: Apache-2.0
"""How often a lossy codec's codes flip where machines differ by rounding, and what is tolerated.

An update of twelve steps of the demo's model is moved by what unlike machines were measured to
differ by (`class_spread.py`), in directions drawn at random, and encoded again. Told are the share
of the payload's bytes that differ, how far the decoded update is then (which is what was compared
before, against 0.1 in fp32 and 0.3 in bf16), what `least_change` says, and how many of the honest
moves are found wrong. Then the update is made longer, as a cheat would who wants more weight: by
how much at least it is found.

    python -m tests.measure.studies.rounding_edges          # a minute
"""

from __future__ import annotations

import argparse
from typing import Any

CODECS: dict[str, dict[str, Any]] = {
    "sparse": {},
    "demo": {},
    "polytope": {},
    "semantic": {"ratio": 100, "clip": 6},
    "cells": {},
    "directions": {},
}
SPREADS = (("fp32", 4.9e-5), ("fp32", 2.4e-3), ("bf16", 0.025))
LONGER = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
STEPS = 12


def _update() -> Any:
    """A settled round's update of the demo's model."""
    from agents.training.flat import FlatModel
    from agents.training.local import train_local
    from agents.training.spec import Hyperparameters
    from tests.measure.studies.class_spread import ROUND, SEED, _prepared, _start

    spec, data = _prepared()
    batches = [data.batch(index) for index in range(STEPS)]
    state, hyper = _start("no warm-up", spec, data), Hyperparameters.of(spec, ROUND)
    return dict(train_local(FlatModel(spec.model), state, batches, hyper, SEED).pseudo_gradient)


def _moved(update: Any, share: float, number: int) -> Any:
    import torch

    from agents.training.norms import norm

    source = torch.Generator().manual_seed(number)
    drawn = {name: torch.randn(part.shape, generator=source) for name, part in update.items()}
    far = share * norm(update) / norm(drawn)
    return {name: part + far * drawn[name] for name, part in update.items()}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=8, help="honest moves of each case")
    times = parser.parse_args().times
    import torch
    from rich.console import Console

    from agents.mechanisms import codec as codecs
    from agents.training.norms import distance, norm
    from agents.training.spec import EDGE_FLOOR, tolerances_for
    from agents.verify.reexecution import Comparison, Encoding, compare_encoded
    from tests.measure.rows import text_table
    from tests.measure.studies.class_spread import SEED

    torch.set_num_threads(1)
    update = _update()
    shapes = {name: tuple(part.shape) for name, part in update.items()}
    none = Comparison(False, False, 0.0, 0.0, "")
    console = Console(width=150)
    heads = ("codec", "spread", "bytes that flip", "decoded, apart", "change", "found wrong")
    table = text_table(f"an update moved by rounding, {times} times each (worst)", heads)
    for name, options in CODECS.items():
        codec: Any = codecs.get(name)(**options)
        own = codec.encode(update, None, SEED)
        decoded = codec.decode(own, shapes, SEED)
        for precision, spread in SPREADS:
            limit = tolerances_for(precision, True).rel_l2_max
            how = Encoding(codec, None, SEED, limit, EDGE_FLOOR[precision])
            flips, apart, change, wrong = 0.0, 0.0, 0.0, 0
            for number in range(times):
                sent = codec.encode(_moved(update, spread, number), None, SEED)
                other = codec.decode(sent, shapes, SEED)
                differing = sum(a != b for a, b in zip(own, sent, strict=True))
                flips = max(flips, differing / len(own))
                apart = max(apart, distance(decoded, other) / norm(decoded))
                least = codec.least_change(update, None, sent, SEED)
                change = max(change, least / norm(update))
                wrong += not compare_encoded(update, sent, how, none).ok
            cells = (f"{flips:.2%}", f"{apart:.1e}", f"{change:.1e}", f"{wrong} of {times}")
            table.add_row(name, f"{precision}, {spread:.1e}", *cells)
    console.print(table)
    lengths = ("codec", "fp32", "bf16")
    table = text_table("an update made longer is found from", lengths)
    for name, options in CODECS.items():
        codec = codecs.get(name)(**options)
        row = []
        for precision in ("fp32", "bf16"):
            limit = tolerances_for(precision, True).rel_l2_max
            how = Encoding(codec, None, SEED, limit, EDGE_FLOOR[precision])
            found = [
                share
                for share in LONGER
                if not compare_encoded(
                    update,
                    codec.encode({n: p * (1 + share) for n, p in update.items()}, None, SEED),
                    how,
                    none,
                ).ok
            ]
            row.append(f"{found[0]:.1%} on" if found else f"more than {LONGER[-1]:.0%}")
        table.add_row(name, *row)
    console.print(table)


if __name__ == "__main__":
    main()
