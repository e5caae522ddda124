# SPDX-License-Identifier: Apache-2.0
"""The index follows a chain however it is polled, restarted or reorganised, in both databases.

The proof is always the same: the rows equal those of an index that was made at once, afterwards.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from agents.protocol.network import ChainMoved
from agents.runtime.chain import Head
from agents.runtime.errors import ConfigError, RpcDown
from scripts._net.anvil import start_anvil
from scripts._net.deployment import ZOO
from scripts._net.processes import Supervisor
from scripts._web.api.site import Site
from scripts._web.follow import indexer as indexing
from scripts._web.follow.indexer import Change, Indexer
from scripts._web.index.database import only_writer, open_database
from scripts._web.index.tables import FOLDED, LOGGED, METADATA
from tests.stage.chain.finished_job import FinishedJob
from tests.stage.chain.people import TERMS, People, found
from tests.stage.chain.proxy import Proxy
from tests.stage.web import make_site

Fresh = Callable[[], str]
Rows = dict[str, list[tuple[Any, ...]]]


def rows_of(site: Site) -> Rows:
    """Everything in the index but what is kept to go back."""
    with site.engine.connect() as connection:
        return {
            table.name: sorted(
                (tuple(map(str, row)) for row in connection.execute(sa.select(table))),
            )
            for table in (*LOGGED, *FOLDED)
        }


def made_at_once(url: str, deployment: Path, fresh: Fresh) -> Rows:
    site, indexer = make_site(url, deployment, fresh())
    indexer.catch_up()
    found = rows_of(site)
    site.engine.dispose()
    return found


def same(found: Rows, expected: Rows) -> None:
    for table, rows in expected.items():
        more, less = set(found[table]) - set(rows), set(rows) - set(found[table])
        assert (more, less) == (set(), set()), table
        assert found[table] == rows


def again(site: Site, tell: Callable[[Change], None] = lambda change: None) -> Indexer:
    """The indexer of a process that was started anew."""
    log = site.chain._log
    return Indexer(site.chain, site.deployment, site.identity, site.engine, log, tell)


def settle(indexer: Indexer) -> None:
    """Catch up with a chain that may have become shorter."""
    for _ in range(indexing._PATIENCE):
        indexer.catch_up()


class Fork:
    """A chain that the test may send back, and its index."""

    def __init__(self, url: str, deployment: Path, people: People) -> None:
        self.url, self.deployment, self.people = url, deployment, people

    def deed(self, draw: random.Random) -> None:
        """Something that leaves events, another one for another draw."""
        people = self.people
        kind = draw.randrange(6)
        if kind == 0:
            people.chain.mine(draw.randrange(1, 4))
        elif kind == 1:
            people.give(people.nodes["ann"].owner, ZOO * 2)
            people.chain.send(
                people.nodes["ann"].owner,
                people.registry,
                "add_stake",
                people.nodes["ann"].node_id,
                ZOO + draw.randrange(ZOO),
            )
        elif kind == 2:
            node = people.nodes["bob"]
            active = bool(draw.randrange(2))
            people.chain.send(node.operator, people.registry, "set_active", node.node_id, active)
        elif kind == 3:
            funds = TERMS.reward_per_round
            people.give(people.sponsor, funds)
            digests = [bytes([draw.randrange(1, 256)]) * 32 for _ in range(3)]
            terms = (*digests, 3, *TERMS.figures())
            people.job = people.create_job(people.sponsor, terms, funds)
        elif kind == 4:
            node = people.nodes["cat"]
            payout = "0x" + draw.randbytes(20).hex()
            people.chain.send(node.owner, people.registry, "set_payout", node.node_id, payout)
        else:
            op = (people.registry, "set_paused", (draw.randrange(2),))
            people.propose(op, salt=draw.randbytes(32))


@pytest.fixture(scope="module")
def chain_of_forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fork]:
    directory = tmp_path_factory.mktemp("fork")
    with Supervisor(directory / "logs") as supervisor:
        anvil = start_anvil(supervisor, directory)
        path = directory / "deployment.json"
        people = found(anvil.url, ("ann", "bob", "cat"), path)
        people.person("sponsor", 0)
        yield Fork(anvil.url, path, people)


@pytest.fixture
def fork(chain_of_forks: Fork) -> Iterator[Fork]:
    """Each test finds the chain as it was."""
    chain = chain_of_forks.people.chain
    start = chain.snapshot()
    yield chain_of_forks
    chain.revert(start)


# -- strangers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2**62 + 1, 2**63, 2**256 - 1])
def test_follow__a_strangers_numbers_stop_no_index(fork: Fork, fresh: Fresh, number: int) -> None:
    """Anybody may put a file of keys on record for any round, also for one that no column holds."""
    people = fork.people
    funds = TERMS.reward_per_round
    people.give(people.sponsor, funds)
    terms = (*(bytes([n]) * 32 for n in (1, 2, 3)), 3, *TERMS.figures())
    people.job = people.create_job(people.sponsor, terms, funds)
    keys, stranger = people.contracts["DataKeys"], people.nodes["ann"].payout
    people.give(stranger, 1)
    people.chain.send(stranger, keys, "disclose_keys", people.job, number, b"\7" * 32)
    site, indexer = make_site(fork.url, fork.deployment, fresh())
    indexer.catch_up()
    assert indexer.standing.block == site.chain.newest_head().number
    events = sa.select(sa.text("round_id, args")).select_from(sa.text("events"))
    with site.engine.connect() as connection:
        found = connection.execute(events.where(sa.text("name = 'KeysDisclosed'"))).all()
    assert [row[0] for row in found] == [None] and str(number) in str(found[0][1])
    site.engine.dispose()


# -- forwards ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_follow__any_polls_and_restarts_give_the_same_rows(
    finished: FinishedJob, fresh: Fresh, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    site, indexer = make_site(finished.url, finished.deployment, fresh())
    newest = site.chain.newest_head().number
    at = site.deployment.block - 1
    seen = 0
    while at < newest:
        at = min(newest, at + draw.choice((1, 2, 7, 40, 150)))
        monkeypatch.setattr(site.chain, "newest_head", lambda at=at: site.chain.head(at))
        if draw.random() < 0.3:
            indexer = again(site)
        indexer._size = draw.choice((1, 3, 1_000))
        before = indexer.standing.events
        indexer.catch_up()
        seen += indexer.standing.events - before
        assert indexer.standing.block == at
    monkeypatch.undo()
    rows = rows_of(site)
    assert rows == made_at_once(finished.url, finished.deployment, fresh)
    assert seen == len(rows["events"]) > 200


def test_follow__a_deleted_cache_is_built_again(finished: FinishedJob, tmp_path: Path) -> None:
    path = tmp_path / "index.db"

    def fresh() -> str:
        return f"sqlite:///{path}"

    first = made_at_once(finished.url, finished.deployment, fresh)
    for file in tmp_path.glob("index.db*"):
        file.unlink()
    assert made_at_once(finished.url, finished.deployment, fresh) == first


def test_follow__an_interrupted_range_leaves_no_trace(
    finished: FinishedJob, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed within a range, at every tenth of its events."""
    site, indexer = make_site(finished.url, finished.deployment, fresh())
    whole = made_at_once(finished.url, finished.deployment, fresh)
    fold = indexing.fold
    for allowed in range(0, len(whole["events"]), len(whole["events"]) // 10):
        count = iter(range(allowed))

        def some(rows: Any, entry: Any, count: Iterator[int] = count) -> None:
            if next(count, None) is None:
                raise KeyboardInterrupt
            fold(rows, entry)

        monkeypatch.setattr(indexing, "fold", some)
        indexer._size = 100_000
        with pytest.raises(KeyboardInterrupt):
            indexer.catch_up()
        assert not any(rows_of(site).values())
    monkeypatch.setattr(indexing, "fold", fold)
    again(site).catch_up()
    assert rows_of(site) == whole


# -- back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_follow__a_reorganised_chain_gives_the_rows_of_the_new_one(
    fork: Fork, fresh: Fresh, seed: int
) -> None:
    draw = random.Random(f"reorg {seed}")
    chain = fork.people.chain
    told: list[Change] = []
    site, indexer = make_site(fork.url, fork.deployment, fresh())
    indexer = again(site, told.append)
    for _ in range(4):
        snapshot = chain.snapshot()
        for _ in range(draw.randrange(1, 6)):
            fork.deed(draw)
            if draw.random() < 0.5:
                indexer.catch_up()
        indexer.catch_up()
        if draw.random() < 0.3:
            indexer = again(site, told.append)
        chain.revert(snapshot)
        chain.rpc("anvil_setCoinbase", "0x" + draw.randbytes(20).hex())
        for _ in range(draw.randrange(6, 9)):
            fork.deed(draw)
        settle(indexer)
    same(rows_of(site), made_at_once(fork.url, fork.deployment, fresh))
    assert any(change.reorg for change in told)


def test_follow__a_chain_that_got_shorter_is_believed_in_the_end(fork: Fork, fresh: Fresh) -> None:
    draw = random.Random(5)
    chain = fork.people.chain
    site, indexer = make_site(fork.url, fork.deployment, fresh())
    indexer.catch_up()
    snapshot = chain.snapshot()
    for _ in range(5):
        fork.deed(draw)
    indexer.catch_up()
    longer, block = rows_of(site), indexer.standing.block
    chain.revert(snapshot)
    told: list[Change] = []
    indexer = again(site, told.append)
    indexer.step()
    assert (rows_of(site), indexer.standing.block) == (longer, block)  # perhaps a node is behind
    for _ in range(3):
        indexer.step()
    assert rows_of(site) == made_at_once(fork.url, fork.deployment, fresh) != longer
    assert [change.reorg for change in told] == [True]


def test_follow__a_reorg_beyond_what_is_kept_starts_again(
    fork: Fork, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "KEPT", 3)
    draw = random.Random(6)
    chain = fork.people.chain
    snapshot = chain.snapshot()
    site, indexer = make_site(fork.url, fork.deployment, fresh())
    for _ in range(12):
        fork.deed(draw)
        indexer.catch_up()
    chain.revert(snapshot)
    chain.rpc("anvil_setCoinbase", "0x" + "77" * 20)
    for _ in range(20):
        fork.deed(draw)
    indexer.catch_up()
    assert indexer.standing.reorgs == 1
    assert rows_of(site) == made_at_once(fork.url, fork.deployment, fresh)


def test_follow__another_branch_that_appears_within_a_range_is_not_mixed_in(
    fork: Fork, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node changes its mind between telling its head and giving its logs."""
    draw = random.Random(7)
    chain = fork.people.chain
    site, indexer = make_site(fork.url, fork.deployment, fresh())
    indexer.catch_up()
    snapshot = chain.snapshot()
    for _ in range(4):
        fork.deed(draw)
    stale: Head = site.chain.newest_head()
    chain.revert(snapshot)
    chain.rpc("anvil_setCoinbase", "0x" + "78" * 20)
    for _ in range(9):
        fork.deed(draw)
    truth = site.chain.newest_head
    heads = iter([stale])
    monkeypatch.setattr(site.chain, "newest_head", lambda: next(heads, None) or truth())
    before = rows_of(site)
    with pytest.raises(ChainMoved):
        indexer.step()
    assert rows_of(site) == before
    indexer.catch_up()
    assert rows_of(site) == made_at_once(fork.url, fork.deployment, fresh)


# -- outages and databases ---------------------------------------------------------------------


def test_follow__an_outage_is_said_and_survived(fork: Fork, fresh: Fresh) -> None:
    proxy = Proxy(fork.url, faults=("503",))
    site, indexer = make_site(proxy.url_of("web"), fork.deployment, fresh())
    stop = threading.Event()
    thread = threading.Thread(target=indexer.run, args=(stop, 0.01))
    try:
        indexer.catch_up()
        proxy.fault_rate = 1.0
        with pytest.raises(RpcDown):
            indexer.step()
        thread.start()
        wait_for(lambda: indexer.standing.rpc_down)
        assert "did not answer" in indexer.standing.problem
        fork.deed(random.Random(8))
        fork.people.chain.mine()
        proxy.fault_rate = 0.0
        newest = site.chain.newest_head().number
        wait_for(lambda: indexer.standing.block == newest and not indexer.standing.problem)
        assert rows_of(site) == made_at_once(fork.url, fork.deployment, fresh)
    finally:
        stop.set()
        thread.join()
        proxy.close()


def wait_for(condition: Callable[[], bool], tries: int = 3_000) -> None:
    for _ in range(tries):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come to that")


def test_follow__a_database_of_another_deployment_is_refused(
    fork: Fork, fresh: Fresh, tmp_path: Path
) -> None:
    database, other = fresh(), tmp_path / "other.json"
    other.write_bytes(fork.deployment.read_bytes() + b"\n")
    make_site(fork.url, fork.deployment, database)[0].engine.dispose()
    with pytest.raises(ConfigError, match="index of another deployment"):
        make_site(fork.url, other, database)


def test_database__two_processes_do_not_write_to_one(fresh: Fresh) -> None:
    database = fresh()
    with only_writer(open_database(database)):
        refused = pytest.raises(ConfigError, match="keeps this database's index already")
        with refused, only_writer(open_database(database)):
            pass
    with only_writer(open_database(database)):
        pass


def test_database__migrations_make_the_schema(fresh: Fresh) -> None:
    database = fresh()
    open_database(database).dispose()
    engine = open_database(database)  # and once more, with nothing left to do
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "can't be read"),
        ("mysql://root@host/x", "not in mysql"),
        ("sqlite:////proc/nothing/index.db", "can't be opened"),
        ("postgresql://nobody:secret@127.0.0.1:1/x", "can't be opened"),
    ],
)
def test_database__what_can_not_be_opened_is_said(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        open_database(url)
    assert "secret" not in str(refused.value)
