# SPDX-License-Identifier: Apache-2.0
"""Benchmarks on a test's chain, answered with work that was really done and kept in a store."""

from __future__ import annotations

from collections.abc import Callable

from eth_utils import keccak

from agents.nodes import benchmark
from agents.storage.cid import digest_of
from agents.storage.content_store import ContentStore
from tests.stage.chain.people import SECONDS, Node, People

UNITS = 40
FEW = 6  # units where nothing depends on how many there are


def nothing(index: int) -> bool:
    """No chunk is invented."""
    return False


def answer(
    people: People,
    node: Node,
    store: ContentStore,
    wrong: Callable[[int], bool] = nothing,
    units: int = UNITS,
) -> bytes:
    """A new attempt of the node, answered with chunks of which some are invented; its artefact,
    which is in the store."""
    chain = people.chain
    people.request_benchmark(node)
    chain.mine()
    chain.send(people.faucet, people.benchmarks, "capture_benchmark_seed", node.node_id)
    state = seed = bytes(chain.call(people.benchmarks, "benchmark", node.node_id).seed)
    digests = []
    for index in range(units):
        invented = keccak(text=f"invented {index}")
        state = invented if wrong(index) else benchmark.check_chunk(state, index, "cpu")
        digests.append(state)
    artefact = benchmark.pack_artefact(digests)
    chain.warp(SECONDS)
    root = benchmark.root(seed, digests)
    args = (node.node_id, seed, units, root, digest_of(store.put_bytes(artefact)))
    chain.send(node.operator, people.benchmarks, "submit_benchmark", *args)
    chain.mine()
    return artefact


def judge(people: People, node: Node, passed: bool, *names: str) -> None:
    """These verifiers give a verdict."""
    if not people.chain.call(people.benchmarks, "benchmark", node.node_id).check_seed.strip(b"\0"):
        people.chain.send(people.faucet, people.benchmarks, "capture_check_seed", node.node_id)
    judges = [people.nodes[name] for name in names]
    votes = [people.verdict(judge, node, passed) for judge in judges]
    ids = [judge.node_id for judge in judges]
    args = (node.node_id, passed, ids, votes)
    people.chain.send(people.faucet, people.benchmarks, "submit_verdicts", *args)


def measure(people: People, node: Node, store: ContentStore) -> None:
    """Take a new attempt of the node to a passed score, with real work."""
    answer(people, node, store, units=FEW)
    judge(people, node, True, "vic", "vera")
