# SPDX-License-Identifier: Apache-2.0
"""The process that writes texts: one JSON line in, one out, until its input ends.

python -m scripts._web.writer

Rule: it may take `MEMORY` bytes and no more. What it can't do is an `error`, a sentence.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from itertools import islice
from typing import Any

MEMORY = 16 << 30  # of addresses; torch alone maps several GiB
_MODELS = 2  # networks whose models are kept in memory

_known: dict[tuple[str, str, str], Any] = {}


def main() -> None:
    """Answer requests."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server decides when to end
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # Libraries may print; the answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return _written(request)
    except ImportError as error:
        return {"error": f"This server can't run models: it has no {error.name}."}
    except MemoryError:
        return {"error": "The model is too large for this server."}
    except Exception as error:  # of an artefact that is missing, malformed or not what it should be
        from agents.runtime.logs import scrub

        said = scrub(str(error)).replace(request["store"], "the store")
        return {"error": f"The model can't be run: {said[:400]}"}


def _written(request: dict[str, Any]) -> dict[str, Any]:
    from agents.training.decode import drawn_by_reader, likeliest
    from agents.training.state import model_hash
    from scripts._report.sampling import PROMPT_TOKENS, TEMPERATURE, tokens_of, write

    models = _models(request["rpc"], request["deployment"], request["store"])
    job = models.job(request["job"])
    tokens = tokens_of(job, models.store)
    state = models.current(request["job"])
    began = time.monotonic()
    prompt = tokens.encode(request["prompt"])[-PROMPT_TOKENS:] or [0]
    drawn = request["how"] == "drawn"
    choose = drawn_by_reader(request["seed"], TEMPERATURE) if drawn else likeliest
    new = list(islice(write(job, state, prompt, choose), request["max_tokens"]))
    return {
        "text": tokens.decode(new),
        "model": "0x" + model_hash(state).hex(),
        "tokens": len(new),
        "seconds": round(time.monotonic() - began, 3),
    }


def _models(rpc: str, deployment: str, store: str) -> Any:
    """The models of a network, the last of which are kept."""
    place = rpc, deployment, store
    if place not in _known:
        from agents.protocol.network import Network
        from agents.rounds.models import Models
        from agents.runtime.chain import ChainClient
        from agents.runtime.contracts import load_deployment
        from agents.runtime.logs import open_log
        from agents.storage.content_store import open_store

        chain = ChainClient(rpc, open_log("writer", "error", True, None))
        network = Network(chain, load_deployment(deployment))
        _known[place] = Models(network, open_store(store))
        while len(_known) > _MODELS:
            del _known[next(iter(_known))]
    return _known[place]


if __name__ == "__main__":
    main()
