# SPDX-License-Identifier: Apache-2.0
"""Throughput of the codecs on a million normal numbers: encode, decode, cosine, bytes.

Prints figures and asserts nothing about time. Codecs take turns within one run, so that a busy
machine slows all of them alike; a throughput is bytes of fp32 over the shortest time.

    python -m tests.benchmarks.bench_codecs --elements 1000000
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import torch

from agents import compression
from agents.compression.figures import CodecFigures, measure
from tests.benchmarks.rows import Row

SEED = bytes(range(32))
CODECS = ("dense", "polytope", "semantic", "sparse")


def figures(elements: int, repeats: int) -> dict[str, list[CodecFigures]]:
    """Figures of each codec, `repeats` times; semantic at 100x, clipped at the gradient's norm."""
    generator = torch.Generator().manual_seed(1)
    gradient = {"a": torch.randn(elements, generator=generator)}
    shapes = {"a": (elements,)}
    semantic = {"ratio": 100, "clip": elements**0.5}
    codecs = {
        name: compression.get(name)(**(semantic if name == "semantic" else {})) for name in CODECS
    }
    found: dict[str, list[CodecFigures]] = {name: [] for name in CODECS}
    for _ in range(repeats):
        for name, codec in codecs.items():
            found[name].append(measure(codec, gradient, None, SEED, shapes))
    return found


def throughput(elements: int, times: Sequence[float]) -> float:
    """MB/s of fp32 numbers at the shortest time."""
    return 4 * elements / min(times) / 1e6


def rows(elements: int = 1_000_000, repeats: int = 5) -> list[Row]:
    """One line a codec for the table of `make bench`."""
    made = []
    for name, found in figures(elements, repeats).items():
        encode = throughput(elements, [item.encode_s for item in found])
        decode = throughput(elements, [item.decode_s for item in found])
        first = found[0]
        shown = (
            f"{encode:.0f} / {decode:.0f} MB/s, {first.wire_bytes:,} bytes "
            f"({first.ratio:.1f}x), cosine {first.cosine:.3f}"
        )
        goal, met = (">= 100x", first.ratio >= 100) if name != "dense" else ("", None)
        made.append(Row(f"codec {name}, {elements:,} numbers: encode / decode", shown, goal, met))
    return made


def main() -> None:
    """Command line: print one line a codec."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for row in rows(options.elements, options.repeats):
        print(f"{row.figure:<55} {row.measured}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
