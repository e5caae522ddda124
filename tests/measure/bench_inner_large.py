# SPDX-License-Identifier: Apache-2.0
"""What a step of Muon costs beside AdamW's on 125 million parameters, by the tokens of a step.

At this size Newton-Schulz does not depend on the batch, and the gradient does. So the parts of a
step are measured apart, the least of two each, in CPU time on one thread: the gradient of one
sequence, both optimizers' update, the hash of the state. The ratio of whole steps follows for any
number of tokens, and so does the least number at which it is within the goal. A token of a single
sequence costs somewhat more than one of many, so the ratios are somewhat too low.

    python -m tests.measure.bench_inner_large  # about 2 minutes of CPU, 3 GB
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from agents.training.determinism import pin_torch
from agents.training.flat import FlatModel
from agents.training.model import init_state, next_token_loss
from agents.training.optimizers import chosen
from agents.training.spec import Hyperparameters, JobSpec
from agents.training.state import model_hash
from tests.measure.bench_inner import GOAL
from tests.measure.bench_trainer import specs
from tests.measure.rows import Row

_SIZE = "125M"
_LENGTH = 512
_SHOWN = (4_096, 8_192, 32_768)  # tokens of a step


@dataclass(frozen=True)
class Parts:
    """CPU seconds: `gradient` of a token, `update` by optimizer, `hashed` of the state."""

    gradient: float
    update: dict[str, float]
    hashed: float

    def ratio(self, tokens: int) -> float:
        """A step of Muon over one of AdamW."""
        rest = tokens * self.gradient + self.hashed
        return (rest + self.update["muon"]) / (rest + self.update["adamw"])

    def least(self, goal: float) -> float:
        """Tokens from which on the ratio is at most `goal`."""
        more = self.update["muon"] - goal * self.update["adamw"] - (goal - 1) * self.hashed
        return max(0.0, more / ((goal - 1) * self.gradient))


def parts(spec: JobSpec) -> Parts:
    """Measured here and now; the first of two calls makes buffers, so the lesser one counts."""
    net, state = FlatModel(spec.model), init_state(spec.model)
    net.load(state)
    batch = torch.randint(0, spec.model.vocab_size, (1, _LENGTH + 1))
    gradient = _seconds(lambda: next_token_loss(net.model, batch).backward())
    hyper = Hyperparameters.of(spec, 5)
    update = {}
    for name in ("adamw", "muon"):
        steps = chosen(name, {}).start(net, hyper, 1)
        update[name] = _seconds(steps.step)
        del steps
    hashed = _seconds(lambda: model_hash(net.split(net.values)))
    return Parts(gradient / _LENGTH, update, hashed)


def _seconds(call: Callable[[], object]) -> float:
    found = []
    for _ in range(2):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


def rows() -> list[Row]:
    """The parts, the ratio by tokens, and from where on it is within the goal."""
    pin_torch()
    torch.set_num_threads(1)
    found = parts(specs()[_SIZE])
    shown = ", ".join(f"{name} {1000 * cost:.0f}" for name, cost in found.update.items())
    ratios = ", ".join(f"{found.ratio(tokens):.2f} at {tokens:,} tokens" for tokens in _SHOWN)
    return [
        Row(f"inner step of {_SIZE}: update, ms of CPU", shown),
        Row(f"inner step of {_SIZE}: gradient of 1,000 tokens", f"{1e6 * found.gradient:.0f} ms"),
        Row(f"inner step of {_SIZE}: hash of the state", f"{1000 * found.hashed:.0f} ms"),
        Row(f"inner step of {_SIZE}: muon over adamw", ratios),
        Row(
            f"inner step of {_SIZE}: muon within {GOAL} of adamw",
            f"from {found.least(GOAL):,.0f} tokens a step on",
        ),
    ]


def main() -> None:
    for row in rows():
        print(f"{row.figure:<50} {row.measured}")


if __name__ == "__main__":
    main()
