# SPDX-License-Identifier: Apache-2.0
"""A validator that scores one node and nobody else (see dishonest.py for how it is started).

FAVOURITE is the node's id. Everything else it does is honest: it evaluates, commits, reveals and
publishes a record, in which only the scores are not those that its own measurements give.
"""

from __future__ import annotations

import os
from typing import Any

from agents.gauntlet.record import ScoreRecord
from agents.gauntlet.validator import Validator
from agents.protocol.network import Network
from agents.protocol.numbers import SCALE
from agents.protocol.scores import Consensus
from agents.runtime.context import Context
from agents.storage.content_store import ContentStore
from agents.storage.several import open_stores
from agents.verifier import Verifier, VerifierInJob

FAVOURITE = "LIAR_FAVOURITE"


class FavouringDuty(Validator):
    """Gives its favourite the whole of every round."""

    def _measure(self, *args: Any, **options: Any) -> ScoreRecord:
        record = super()._measure(*args, **options)
        favourite = int(os.environ[FAVOURITE])
        lines = [
            line.model_copy(update={"score": SCALE if line.node == favourite else 0})
            for line in record.scores
        ]
        return record.model_copy(update={"scores": lines})


class FavouringInJob(VerifierInJob):
    """Validates for a friend."""

    def __init__(self, context: Context, store: ContentStore, network: Network) -> None:
        super().__init__(context, store, network)
        self.validator = FavouringDuty(Consensus(network), context, self.reader)


class Favouring(Verifier):
    """Validates for a friend, in every job."""

    kind = FavouringInJob


def build(context: Context) -> Favouring:
    """The liar of a started agent."""
    return Favouring(context, open_stores(context.settings.store))
