# SPDX-License-Identifier: Apache-2.0
"""What a reported node revealed, kept by who reports it.

Rule: before a verifier says that a node's work is wrong it pins what it read of it: payload, proof,
and trace or log. Else the node could take its proof or its trace down after the conviction, and
appeal. A member of the committee that can't compare what the verifiers compared has no word, and
without three words nobody is slashed (`agents.verify.judging`).
"""

from __future__ import annotations

from collections.abc import Iterator

from agents.rounds.mined import Mined
from agents.rounds.submissions import Submission
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from agents.storage.errors import StoreError, StoreUnavailable
from agents.verify.proofs import Told

# What a finding on bytes alone rests on. What is too large nobody has read.
_BAD_PROOF = "bad proof"
_READ = ("bad payload", _BAD_PROOF)


def keep(submission: Submission, told: Told, store: ContentStore) -> list[str]:
    """Pin what a node revealed; why something could not be pinned, a sentence each.

    ``told``: its proof and trace, as they were found. Raises StoreUnavailable when the store
    itself is down.
    """
    missed = []
    for digest in _revealed(submission, told):
        try:
            store.pin(store.resolve(digest))
        except StoreUnavailable:
            raise
        except StoreError as error:
            missed.append(str(error))
    return missed


def _revealed(submission: Submission, told: Told) -> Iterator[bytes]:
    """The digests, as far as they are known, and their content was small enough to be read.

    A proof that could not be used is left alone, unless something was read in it: it may be one
    that nobody serves, and be searched for as long as a payload.
    """
    reveal = submission.reveal
    if submission.gradient is None and not submission.reason.startswith(_READ):
        return
    yield reveal.content
    if isinstance(submission, Mined):
        yield from submission.beside
        return
    stated = submission.determinism_class or submission.reason.startswith(_BAD_PROOF)
    if stated or not isinstance(told, str):
        yield reveal.proof
    if not isinstance(told, str):
        yield digest_of(told[0].trace)
