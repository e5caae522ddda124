# SPDX-License-Identifier: Apache-2.0
"""Looks at a chain that has a Lens: the answers are those of the views, in fewer calls."""

from __future__ import annotations

import pytest

from agents.runtime import lens as lens_module
from agents.runtime.contracts import Contract, Deployment
from agents.runtime.errors import Reverted
from scripts._net.compiled import compile_contracts
from tests.agents.runtime.conftest import deploy
from tests.agents.runtime.test_look import Seen

VIEWS = [("n", []), ("once", []), ("round", []), ("rounds", []), ("pair", [3])]


@pytest.fixture(scope="session")
def code():
    found = compile_contracts()["Lens"]
    return {"abi": found.abi, "bytecode": found.bytecode}


@pytest.fixture
def lens(anvil, code) -> Contract:
    return Contract("Lens", deploy(anvil, code).address, code["abi"])


@pytest.fixture
def watched(chain, tiny, lens):
    network = Deployment("deployments/31337.json", 31337, 0, {"Tiny": tiny, "Lens": lens})
    chain.watch(network, frozenset({"Tiny.pair"}))
    return chain


def read(chain, tiny):
    with chain.look(chain.newest_head()):
        return chain.call_many([(tiny, name, args) for name, args in VIEWS])


def test_many_views__are_one_call_and_answer_as_without_the_lens(watched, tiny):
    plain = watched.call_many([(tiny, name, args) for name, args in VIEWS])
    asked = Seen(watched)
    assert read(watched, tiny) == plain
    assert asked() == (2, 1), "the head, and one call at its hash"


def test_a_view_that_fails_in_a_bundle__is_the_same_revert(anvil, tiny, watched):
    with watched.look(watched.newest_head()) as head:
        assert watched.call_many([(tiny, "n", []), (tiny, "once", [])]) == [0, False]
    anvil.mine()
    with watched.look(watched.newest_head()) as newer:
        assert newer.number == head.number + 1
        with pytest.raises(Reverted, match="rounds: not committed"):
            watched.call_many([(tiny, "n", []), (tiny, "refuse", [1])])


def test_functions_that_write__are_asked_without_the_lens(tiny, watched):
    """Through a static call `ping` would fail."""
    with watched.look(watched.newest_head()):
        calls = [(tiny, "ping", []), (tiny, "ping", ["a"]), (tiny, "n", []), (tiny, "once", [])]
        assert watched.call_many(calls) == [None, None, 0, False]


def test_an_answer_that_is_cut__is_asked_alone_and_from_then_on_at_once(
    anvil, tiny, watched, monkeypatch
):
    monkeypatch.setattr(lens_module, "MOST_ANSWER", 32)  # as long as the answers of n and once
    plain = [0, False]
    calls = [(tiny, "n", []), (tiny, "once", [])]
    asked = Seen(watched)
    with watched.look(watched.newest_head()):
        assert watched.call_many(calls) == plain
    assert asked() == (4, 3), "the head, the bundle in vain, and each view"
    anvil.mine()
    watched.look_again()
    asked()
    with watched.look(watched.newest_head()):
        assert watched.call_many([*calls, (tiny, "rounds", [])])[:2] == plain
    assert asked()[1] <= 3


def test_a_lens_that_the_node_cannot_call__costs_one_call_and_then_rests(
    anvil, tiny, watched, lens
):
    """As where the gas of a call is capped."""
    anvil.rpc("anvil_setCode", lens.address, "0xfe")
    asked = Seen(watched)
    assert read(watched, tiny)[0] == 0
    assert asked() == (2 + len(VIEWS), 1 + len(VIEWS))
    with watched.look(watched.newest_head()):
        watched.look_again()
        asked()
        assert watched.call_many([(tiny, "n", []), (tiny, "once", [])]) == [0, False]
        assert asked()[1] == len(VIEWS), "all of the look, in one request and without the lens"
