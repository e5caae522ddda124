# SPDX-License-Identifier: Apache-2.0
"""Throughput of the codecs: encode, decode, cosine, bytes; two of them beside their published kin.

Prints figures and asserts nothing about time. Codecs take turns within one run, so that a busy
machine slows all of them alike; a throughput is bytes of fp32 over the shortest time. Beside the
published algorithms (`peer_codecs`) both sides get one thread, and CPU time is compared, least of
several runs; peak memory is what a call adds to what was held before (Linux only). Ours includes
packing the bytes and checking them, and the search in C++ where there is a compiler.

    python -m tests.measure.bench_codecs --shapes         # ratios by shape, without any encoding
    python -m tests.measure.bench_codecs --elements 1000000
    python -m tests.measure.bench_codecs --beside 100000000 --repeats 2
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from agents.mechanisms import built
from agents.mechanisms import codec as codecs
from agents.mechanisms.codec import Shapes, ratio
from agents.mechanisms.codec.parts import native
from agents.training.model import init_state
from agents.training.spec import ModelSpec
from tests.measure.bench_merge import cpu_ms, extra_mb
from tests.measure.codec_figures import CodecFigures, measure
from tests.measure.peer_codecs import SIDE, DemoPeer, SparsePeer
from tests.measure.rows import Row, text_table

SEED = bytes(range(32))
CODECS = ("dense", "polytope", "semantic", "sparse", "demo", "cells", "directions")
GOAL = 3.0
SIZES = ((10_000_000, 4), (100_000_000, 1))  # numbers, repeats
OPTIONS: dict[str, dict[str, Any]] = {
    "dense": {},
    "polytope": {},
    "semantic (100)": {"ratio": 100},
    "sparse": {},
    "demo": {},
    "demo (8)": {"per_chunk": 8},
    "cells": {},
    "directions": {},
}
SHAPES: dict[str, Shapes] = {
    "one of 10,000 x 10,000": {"a": (10_000, 10_000)},
    "one of 1,009 x 1,013": {"a": (1_009, 1_013)},
    "one of 257 x 129": {"a": (257, 129)},
    "one of 10,007 x 3": {"a": (10_007, 3)},
    "300 of 4,097": {f"t{i}": (4_097,) for i in range(300)},
    "300 of 8 x 8": {f"t{i}": (8, 8) for i in range(300)},
    "300 of 64": {f"t{i}": (64,) for i in range(300)},
    "300 of 16": {f"t{i}": (16,) for i in range(300)},
    "300 of 4": {f"t{i}": (4,) for i in range(300)},
}
# Ours with the options whose published kin the peer is, at the same numbers per block.
PEERS: tuple[tuple[str, dict[str, Any], Any], ...] = (
    ("demo", {"per_chunk": 32}, DemoPeer(32)),
    ("sparse", {"per_chunk": 64, "block": 64}, SparsePeer(64)),
)


def figures(elements: int, repeats: int) -> dict[str, list[CodecFigures]]:
    """Figures of each codec, `repeats` times; semantic at 100x, clipped at the gradient's norm."""
    generator = torch.Generator().manual_seed(1)
    gradient = {"a": torch.randn(elements, generator=generator)}
    shapes = {"a": (elements,)}
    semantic = {"ratio": 100, "clip": elements**0.5}
    made = {name: codecs.get(name)(**(semantic if name == "semantic" else {})) for name in CODECS}
    found: dict[str, list[CodecFigures]] = {name: [] for name in CODECS}
    for _ in range(repeats):
        for name, codec in made.items():
            found[name].append(measure(codec, gradient, None, SEED, shapes))
    return found


def ratio_table() -> Table:
    """Bytes of fp32 over bytes of a payload, for each codec and model of `SHAPES`."""
    demo = {name: tuple(tensor.shape) for name, tensor in init_state(ModelSpec()).items()}
    table = text_table("ratio by shape", ("tensors", "numbers", *OPTIONS))
    for text, shapes in {**SHAPES, "the demo's model": demo}.items():
        made = [codecs.get(name.split()[0])(**options) for name, options in OPTIONS.items()]
        numbers = sum(math.prod(shape) for shape in shapes.values())
        table.add_row(text, f"{numbers:,}", *(_ratio(codec, shapes) for codec in made))
    return table


def _ratio(codec: Any, shapes: Shapes) -> str:
    try:
        return f"{ratio(codec, shapes):.1f}"
    except ValueError:
        return "-"  # `semantic` has no row to draw


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
        small = name not in ("dense", "demo")
        goal, met = (">= 100x", first.ratio >= 100) if small else ("", None)
        made.append(Row(f"codec {name}, {elements:,} numbers: encode / decode", shown, goal, met))
    return made


def peer_rows(elements: int = 10_000_000, repeats: int = 3) -> Iterator[Row]:
    """Encode and decode of one matrix of about `elements` beside the published algorithms."""
    side = max(SIDE, round(elements**0.5) // SIDE * SIDE)
    across = max(SIDE, elements // side // SIDE * SIDE)
    matrix = torch.randn(side, across, generator=torch.Generator().manual_seed(1))
    gradient, shapes = {"a": matrix}, {"a": (side, across)}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    form = "C++" if built.compiler() and native.CODE.warm() else "eager"
    try:
        for name, options, peer in PEERS:
            codec = codecs.get(name)(**options)
            data, coded = codec.encode(gradient, None, SEED), peer.encode(matrix)
            calls = {
                "encode": (
                    lambda codec=codec: codec.encode(gradient, None, SEED),
                    lambda peer=peer: peer.encode(matrix),
                ),
                "decode": (
                    lambda codec=codec, data=data: codec.decode(data, shapes, SEED),
                    lambda peer=peer, coded=coded: peer.decode(coded),
                ),
            }
            for verb, (own, theirs) in calls.items():
                times = [(cpu_ms(own), cpu_ms(theirs)) for _ in range(repeats)]
                ours, other = (min(column) for column in zip(*times, strict=True))
                memory, taken = extra_mb(own), extra_mb(theirs)
                added = "" if memory is None else f", +{memory:.0f} MB"
                beside = "" if taken is None else f", +{taken:.0f} MB"
                small = memory is None or taken is None or memory <= taken
                yield Row(
                    f"{name} {verb}, {matrix.numel():.0e} numbers, 1 thread, {form}".replace(
                        "e+0", "e"
                    ),
                    f"{other / ours:.1f} x as fast, {ours:.0f} ms{added}, {len(data):,} bytes",
                    f">= {GOAL:g} x, no more memory",
                    other / ours >= GOAL and small,
                    f"published: {other:.0f} ms{beside}, {peer.nbytes(coded):,} bytes",
                )
    finally:
        torch.set_num_threads(threads)


def beside() -> Iterator[Row]:
    """The published algorithms at every size, for the table of `make bench`."""
    for elements, repeats in SIZES:
        yield from peer_rows(elements, repeats)


def main() -> None:
    """Command line: print one line a codec."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--shapes", action="store_true", help="only the ratios by shape")
    parser.add_argument("--beside", type=int, default=0, help="numbers, beside the published ones")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.shapes:
        Console(width=120).print(ratio_table())
        return
    if options.beside:
        for row in peer_rows(options.beside, options.repeats):
            met = {None: "", True: "met", False: "MISSED"}[row.met]
            print(f"{row.figure:<43} {row.measured:<55} {met:<7} {row.peer}", flush=True)
    else:
        for row in rows(options.elements, options.repeats):
            print(f"{row.figure:<55} {row.measured}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
