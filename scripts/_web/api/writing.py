# SPDX-License-Identifier: Apache-2.0
"""Has a job's newest model go on from a reader's words, within bounds.

Rule: the model runs in a process of its own, which may take so much memory and so much time, and
writes one text at a time; it is ended when it takes longer. A client has a few goes a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Request
from pydantic import Field

from agents.runtime.config import PREFIX
from scripts._net.compiled import ROOT
from scripts._web.api.deps import JobId, Look, TheSite
from scripts._web.api.site import Site
from scripts._web.api.turns import Goes
from scripts._web.index import queries
from scripts._web.index.models import Model, Problem

MOST_PROMPT, MOST_TOKENS = 400, 200
SECONDS = 60.0  # of one text, with the model that may have to be read first
EACH, ALL = 6, 30  # goes a minute

router = APIRouter(prefix="/api")


class Words(Model):
    """What a reader begins with. `how`: the likeliest token every time, or drawn by probability
    with the seed."""

    prompt: Annotated[str, Field(min_length=1, max_length=MOST_PROMPT)]
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 100
    how: Literal["likeliest", "drawn"] = "drawn"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


class Written(Model):
    """What the model made of it. `model`: its hash. `tokens`: how many are new."""

    text: str
    model: str
    tokens: int
    seconds: float


@dataclass
class _Writing:
    """The process that writes, which is started at the first text."""

    turn: threading.Lock
    process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The process's answer. `error` holds a sentence."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        late = threading.Timer(SECONDS, process.kill)
        late.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        finally:
            late.cancel()
        if not line.endswith("\n"):
            self.close()
            return {"error": f"The model took more than {SECONDS:g} seconds, or too much memory."}
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the process."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None or self.process.poll() is not None:
            self.close()
            # A stranger's words need none of this machine's settings, least of all a passphrase.
            settings = {k: v for k, v in os.environ.items() if not k.startswith(PREFIX)}
            self.process = subprocess.Popen(
                [sys.executable, "-m", "scripts._web.writer"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**settings, "PYTHONPATH": str(ROOT)},
            )
        return self.process


class Writer:
    """What one site writes with."""

    def __init__(self) -> None:
        self.goes = Goes(EACH, ALL)
        self._writing = _Writing(threading.Lock())

    def write(self, site: Site, job_id: int, words: Words) -> Written:
        """Write a text. Raises HTTPException with a sentence."""
        if site.store is None:
            raise HTTPException(503, "This page has no store to read the model from.")
        if not self._writing.turn.acquire(blocking=False):
            raise HTTPException(503, "The model is writing for another reader; try again soon.")
        try:
            found = self._writing.ask(
                {
                    "rpc": site.chain.url,
                    "deployment": site.deployment.path,
                    "store": site.store.location,
                    "job": job_id,
                    **words.model_dump(),
                }
            )
        finally:
            self._writing.turn.release()
        if "error" in found:
            raise HTTPException(503, str(found["error"])[:600])
        return Written(**found)

    def close(self) -> None:
        """End the process."""
        self._writing.close()


@router.post(
    "/jobs/{job_id}/generate",
    responses={status: {"model": Problem} for status in (404, 422, 429, 503)},
)
def generate(request: Request, site: TheSite, look: Look, job_id: JobId, words: Words) -> Written:
    """Go on from the prompt with the job's newest model. Bounded in length, time and number."""
    queries.job_row(look, job_id)
    writer: Writer = request.app.state.writer
    wait = writer.goes.wait_s(request.client.host if request.client else "")
    if wait:
        again = {"retry-after": str(ceil(wait))}
        raise HTTPException(429, "That were many texts; try again in a moment.", again)
    return writer.write(site, job_id, words)
