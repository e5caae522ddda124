# SPDX-License-Identifier: Apache-2.0
"""Time the merge rules and the score on 32 payloads of a million numbers, beside torch.median.

Prints figures and asserts nothing about time. Measurements alternate within one run, so that a busy
machine slows all of them alike; the ratio is the median of the paired ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from agents import aggregation, scoring

GOAL = "merge of 32 payloads of 1e6 elements no slower than torch.median over the stack"


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(nodes: int, elements: int, repeats: int) -> dict[str, float]:
    """Median seconds per operation, and the paired ratio merge / torch.median."""
    generator = torch.Generator().manual_seed(1)
    payloads = [{"a": torch.randn(elements, generator=generator)} for _ in range(nodes)]
    stack = torch.stack([payload["a"] for payload in payloads])
    median, mean = aggregation.get("median")(), aggregation.get("mean")()
    score = scoring.get("shares")()
    calls: dict[str, Callable[[], object]] = {
        "merge_median_s": lambda: median(payloads),
        "torch_median_s": lambda: torch.median(stack, dim=0),
        "merge_mean_s": lambda: mean(payloads),
        "score_shares_s": lambda: score(payloads, [1] * nodes),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call))
    result = {name: statistics.median(found) for name, found in times.items()}
    pairs = zip(times["merge_median_s"], times["torch_median_s"], strict=True)
    result["ratio"] = statistics.median(own / plain for own, plain in pairs)
    return result


def main() -> None:
    """Command line: print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    result = measure(options.nodes, options.elements, options.repeats)
    print(f"{options.nodes} payloads x {options.elements} fp32, {torch.get_num_threads()} threads")
    for name, value in result.items():
        if name.endswith("_s"):
            print(f"  {name[:-2]:<14} {1000 * value:8.1f} ms")
    print(f"  merge_median / torch_median = {result['ratio']:.2f} (goal: at most 1; {GOAL})")


if __name__ == "__main__":
    main()
