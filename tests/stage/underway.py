# SPDX-License-Identifier: Apache-2.0
"""A network in the middle of everything: what its pages show while things are still undecided.

Round 1 is paid. In round 2 bob is convicted and may still appeal. In round 3 ann has committed and
cat has not. Four tasks stand at four stages. The committee has two operations before it, of which
nobody can read one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eth_utils import keccak

from agents.protocol.numbers import Role
from agents.storage.embedded import EmbeddedStore
from scripts._net.anvil import start_anvil
from scripts._net.deployment import ZOO, TaskTerms
from scripts._net.processes import Supervisor
from scripts._web.pages.routes import PAGES
from tests.stage.chain.people import TERMS, People, found
from tests.stage.chain.tasks import FEE, RIGHT, Tasks
from tests.stage.web import Served, served


@dataclass
class Underway:
    """The network. `report`: on bob. `operations`: one that can be read, one that can't."""

    people: People
    page: Served
    report: bytes
    operations: tuple[bytes, bytes]


@contextmanager
def underway(directory: Path) -> Iterator[Underway]:
    """Make it, and serve its pages."""
    with Supervisor(directory / "logs") as supervisor:
        anvil = start_anvil(supervisor, directory)
        deployment = directory / "deployment.json"
        terms = TaskTerms(max_fee=FEE, fee_per_s=ZOO // 1_000)
        people = found(anvil.url, ("ann", "bob", "cat"), deployment, tasks=terms)
        ann, bob, cat = (people.nodes[name] for name in ("ann", "bob", "cat"))
        funds = 6 * TERMS.reward_per_round
        sponsor = people.person("a sponsor", funds)
        digests = [keccak(text=part) for part in ("spec", "model", "checkpoint")]
        people.job = people.create_job(sponsor, (*digests, 6, *TERMS.figures()), funds)
        people.train(ann, bob, cat)
        people.finish({ann: 3, bob: 2, cat: 1})
        tasks = Tasks.build(people)
        tasks.played(RIGHT, RIGHT)
        tasks.outvoted()
        report = people.convict(bob, ann, cat)
        tasks.started()
        tasks.create()
        known = people.propose(
            (people.registry, "approve_role", (ann.node_id, Role.VERIFIER, True))
        )
        call = (people.registry.address, b"\xde\xad\xbe\xef", bytes(32))
        people.chain.send(people.members[0], people.coordinator, "propose", *call)
        unknown = bytes(people.chain.call(people.coordinator, "operation_id", *call))
        people.open()
        people.commit(ann)
        database = f"sqlite:///{directory / 'index.db'}"
        store = EmbeddedStore(directory / "store")
        with served(anvil.url, deployment, database, store=store, pages=PAGES) as page:
            yield Underway(people, page, report, (known, unknown))
