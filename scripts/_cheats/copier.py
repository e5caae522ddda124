# SPDX-License-Identifier: Apache-2.0
"""Commits to a partner's payload, read from the partner's data folder (CHEAT_PARTNER_DIR)."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agents.rounds.manifests import Plan
from agents.rounds.view import View
from agents.rounds.work import Work
from agents.runtime.context import Context
from agents.storage.content_store import open_store
from agents.trainer import Trainer, submission_name
from agents.training.state import model_hash
from scripts._cheats.forgery import forged

PARTNER = "CHEAT_PARTNER_DIR"
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
        copied = job.codec.decode(payload, job.shapes, plan.codec_seed(job.codec, node))
        return forged(honest, node, payload, model_hash(copied))


def build(context: Context) -> Copier:
    """The cheat of a started agent."""
    return Copier(context, open_store(context.settings.store))
