# SPDX-License-Identifier: Apache-2.0
"""How far honest nodes of two machines drift apart where the inner optimizer's state lives on.

With `optimizer.inner_state: kept` a verifier finds a node's state by doing its rounds again, in its
own determinism class. All start each round from the same model, but a state comes from one's own
rounds: what two machines differ by in a round is in what the next one starts from. Machines are
those of `class_spread`, each in a process of its own. Prints the relative L2 between the updates of
the portable class and of another, for every round after the last reset, with and without kept
state, and asserts nothing.

    python -m tests.measure.studies.kept_spread  # 20 rounds of 12 steps, 15 min
    python -m tests.measure.studies.kept_spread --rounds 6
    python -m tests.measure.studies.kept_spread --rounds 6 --case "fp32 muon, products bf16"
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.measure.studies.class_spread import BUILD, REFERENCE, SEED, VARIANTS, _prepared

STEPS = 12
OTHERS = ("AVX-512, MKL's own branch", "no vector instructions")
MUON = {"lr_ratio": 5.0}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "fp32 adamw": ("fp32", "adamw", {}),
    "fp32 muon": ("fp32", "muon", MUON),
    "fp32 muon, products bf16": ("fp32", "muon", {**MUON, "newton_schulz": "bf16"}),
    "bf16 adamw": ("bf16", "adamw", {}),
    "bf16 muon": ("bf16", "muon", MUON),
}
"""By name: precision, inner optimizer and its options."""


def names(cases: Sequence[str]) -> list[tuple[str, bool]]:
    """Case, and whether the state is kept."""
    return [(case, kept) for case in cases for kept in (False, True)]


def one(variant: str, rounds: int, cases: Sequence[str], out: Path) -> None:
    """Compute all rounds as this machine and write the updates, flat, by case and round."""
    import torch
    from safetensors.torch import load_file, save_file

    from agents.training.determinism import pin_torch
    from agents.training.flat import FlatModel
    from agents.training.local import train_local
    from agents.training.model import init_state
    from agents.training.spec import Hyperparameters
    from agents.training.state import apply_outer

    pin_torch()
    torch.set_num_threads(1)
    spec, data = _prepared()
    spec = spec.model_copy(update={"rounds": rounds})
    reference = None if variant == REFERENCE else load_file(_file(REFERENCE))
    net, found = FlatModel(spec.model), {}
    for case, keeps in names(cases):
        precision, inner, options = CASES[case]
        state, kept = init_state(spec.model), None
        for number in range(rounds):
            hyper = replace(
                Hyperparameters.of(spec, number),
                inner=inner,
                inner_options=options,
                precision=precision,
                keeps_state=keeps,
            )
            batches = [data.batch(STEPS * number + i) for i in range(STEPS)]
            result = train_local(net, state, batches, hyper, SEED, inner=kept)
            kept, key = result.inner, f"{case} {keeps} {number}"
            own = result.pseudo_gradient
            found[key] = torch.cat([own[name].reshape(-1) for name in sorted(own)])
            # The model is everybody's: the reference's update is what was merged.
            merged = found[key] if reference is None else reference[key]
            parts = merged.split([own[name].numel() for name in sorted(own)])
            update = {
                name: part.view(own[name].shape)
                for name, part in zip(sorted(own), parts, strict=True)
            }
            state = apply_outer(state, update, 1.0)
    save_file(found, out)


def _file(variant: str) -> Path:
    return BUILD / f"kept-{(REFERENCE, *OTHERS).index(variant)}.safetensors"


def run(variant: str, rounds: int, cases: Sequence[str]) -> Path:
    """One machine's process; returns what it wrote."""
    from agents.training.determinism import pinned_environment

    changes = VARIANTS[variant][0]
    env = os.environ | pinned_environment() | changes
    env = {key: value for key, value in env.items() if value or key not in changes}
    module = "tests.measure.studies.kept_spread"
    given = ["--variant", variant, "--rounds", str(rounds), "--case", *cases]
    BUILD.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", module, *given], env=env, check=True)
    return _file(variant)


def study(rounds: int, cases: Sequence[str]) -> None:
    """Print the distance in every round, by case and machine."""
    from safetensors.torch import load_file

    own = load_file(run(REFERENCE, rounds, cases))
    for variant in OTHERS:
        other = load_file(run(variant, rounds, cases))
        print(variant)
        for case, keeps in names(cases):
            far = []
            for number in range(rounds):
                key = f"{case} {keeps} {number}"
                mine = own[key].double()
                far.append(float((mine - other[key].double()).norm() / mine.norm()))
            what = f"{case}, {'kept' if keeps else 'zero'}"
            each = " ".join(f"{one:.0e}" for one in far)
            print(f"  {what:<30} most {max(far):.1e}: {each}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--case", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--variant", choices=(REFERENCE, *OTHERS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.variant:
        one(given.variant, given.rounds, given.case, _file(given.variant))
    else:
        study(given.rounds, given.case)


if __name__ == "__main__":
    main()
