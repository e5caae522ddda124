# SPDX-License-Identifier: Apache-2.0
"""Sends random signs of an honest norm, with an invented trace that is consistent with them.

All numbers of a tensor are equally large. Among Gaussian ones of that norm some are larger than the
node's steps can have made, and such a payload is refused by its bytes alone
(`agents.rounds.payload_bound`).
"""

from __future__ import annotations

import numpy as np
import torch

from agents.protocol.view import View
from agents.rounds.plan import Plan
from agents.rounds.work import Work
from agents.runtime.context import Context
from agents.storage.several import open_stores
from agents.trainer import Trainer
from agents.training.state import model_hash
from scripts._demo.cheats.forgery import forged


class Noise(Trainer):
    """Never worked for what it sends."""

    def produce(self, view: View, plan: Plan, node: int) -> Work | None:
        """An honest-looking submission of noise."""
        honest = super().produce(view, plan, node)
        if honest is None:
            return None
        job = self.models.job(view.job_id)
        draw = np.random.default_rng()
        invented = {}
        sent = job.codec.decode(honest.payload, job.shapes, plan.codec_seed(job.codec, node))
        for name, tensor in sent.items():
            noise = torch.from_numpy(draw.choice(np.float32([-1, 1]), tuple(tensor.shape)))
            invented[name] = noise * (tensor.norm() / noise.norm())
        payload = job.codec.encode(invented, None, plan.codec_seed(job.codec, node))
        return forged(honest, node, payload, model_hash(invented))


def build(context: Context) -> Noise:
    """The cheat of a started agent."""
    return Noise(context, open_stores(context.settings.store))
