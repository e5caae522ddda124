# SPDX-License-Identifier: Apache-2.0
"""Commits to a partner's payload, read from the partner's data folder (CHEAT_PARTNER_DIR).

With CHEAT_PERTURB=0.05 each number it sends differs from the partner's by about 5 %, so that the
contents differ and only a comparison of what they hold gives the copy away.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import torch

from agents.protocol.view import View
from agents.rounds.plan import Plan
from agents.rounds.work import Work
from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.trainer import Trainer, submission_name
from agents.training.state import State, model_hash
from scripts._demo.cheats.forgery import forged

PARTNER = "CHEAT_PARTNER_DIR"
PERTURB = "CHEAT_PERTURB"
_WAIT_S = 20.0


class Copier(Trainer):
    """Lets somebody else do the work."""

    def produce(self, view: View, plan: Plan, node: int) -> Work | None:
        """The partner's payload under this node's name; its own work if the partner has none."""
        honest = super().produce(view, plan, node)
        if honest is None:
            return None
        name = f"{submission_name(view.job_id, view.round_id, plan.manifest.seed)}.payload"
        path = Path(os.environ[PARTNER]) / "artefacts" / name
        until = time.monotonic() + _WAIT_S
        while not path.exists():
            if time.monotonic() > until:
                return honest
            time.sleep(0.1)
        job = self.models.job(view.job_id)
        payload = path.read_bytes()
        seed = plan.codec_seed(job.codec, node)
        copied = job.codec.decode(payload, job.shapes, seed)
        share = float(os.environ.get(PERTURB, "0"))
        if share:
            payload = job.codec.encode(perturbed(copied, share), None, seed)
            copied = job.codec.decode(payload, job.shapes, seed)
        return forged(honest, node, payload, model_hash(copied))


def perturbed(update: State, share: float) -> State:
    """Each number times a Gaussian one of mean 1 and spread `share`."""
    draw = np.random.default_rng()
    return {
        name: tensor
        * torch.from_numpy(draw.normal(1.0, share, tuple(tensor.shape)).astype(np.float32))
        for name, tensor in update.items()
    }


def build(context: Context) -> Copier:
    """The cheat of a started agent."""
    return Copier(context, open_stores(context.settings.store))
