# SPDX-License-Identifier: Apache-2.0
"""What `docs/data.md` quotes: how much of encrypted data a trainer comes to hold keys of.

python -m tests.measure.studies.shards_seen
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from agents.jobs.job import JobContext
from agents.jobs.publish import publish_job
from agents.jobs.seen import seen
from agents.storage.embedded import EmbeddedStore
from agents.storage.sealed import new_key
from agents.training.documents import stdlib_corpus

ROUNDS = (1, 10, 100, 400)
TRAINERS = (6,)
SIZES = (16 * 1024, 64 * 1024)


def main() -> None:
    """Print one line for each number of trainers and way of sealing."""
    key, documents = new_key(), list(stdlib_corpus())
    for trainers in TRAINERS:
        fields = {"rounds": max(ROUNDS), "batches_per_round": 12 * trainers}
        for one_key, size in ((False, SIZES[0]), (False, SIZES[1]), (True, SIZES[1])):
            with TemporaryDirectory() as folder:
                store = EmbeddedStore(Path(folder))
                options = {"data_key": key, "one_key": one_key, "shard_bytes": size}
                published = publish_job(store, documents, fields, **options)  # type: ignore[arg-type]
                data = JobContext(published.spec, store, lambda: key).data
                shares = seen(data, published.spec, trainers, ROUNDS)
            kind = "shuffled over all" if one_key else "shard by shard"
            said = " / ".join(f"{share:.1%}" for share in shares)
            print(f"{trainers} trainers, {size // 1024} KiB, {kind}: {said}")


if __name__ == "__main__":
    main()
