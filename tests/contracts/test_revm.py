# SPDX-License-Identifier: Apache-2.0
"""Rule: on revm, a test sees what it sees on py-evm: answers, events, reasons, gas, anchors.

The search of `tests/contracts/fuzz` has a revm of its own; here it is the one that boa uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boa
import pytest
from boa.environment import Env
from boa.util.abi import Address

from tests.contracts.stateful.test_tasks_machine import STEPS, TasksMachine
from tests.contracts.stateful.test_tasks_machine import make_stage as make_tasks_stage
from tests.stage.contracts.clock import hash_of, install_block_hashes, mine
from tests.stage.contracts.events import logged
from tests.stage.contracts.revm import RevmEnv
from tests.stage.contracts.system import Codes

PERSON, CHOSEN = (Address("0x" + digits * 20) for digits in ("31", "c4"))
CALLED = """
# pragma version ~=0.4.3
interface Asking:
    def who() -> uint256: view

event Stored:
    amount: uint256
    by: indexed(address)

OWNER: immutable(address)
kept: public(uint256)

@deploy
def __init__(owner: address, amount: uint256):
    assert owner != empty(address), "called: no owner"
    OWNER = owner
    self.kept = amount

@external
def store(amount: uint256) -> uint256:
    assert amount != 13, "called: unlucky"
    self.kept += amount
    log Stored(amount=amount, by=msg.sender)
    return self.kept

@external
def fail():
    self.kept = 1
    assert self.kept == 2

@external
def spend():
    for i: uint256 in range(100_000):
        self.kept += i

@external
def asks_back() -> uint256:
    return staticcall Asking(msg.sender).who()

@view
@external
def owner() -> address:
    return OWNER

@view
@external
def context(at: uint256) -> (uint256, uint256, uint256, bytes32, address):
    return block.number, block.timestamp, chain.id, blockhash(at), msg.sender
"""
ASKING = """
# pragma version ~=0.4.3
who: public(uint256)

@external
def learn(amount: uint256):
    assert msg.sender != self, "asking: myself"
    self.who = amount
"""


@pytest.fixture(scope="module")
def codes_here() -> tuple[Any, Any]:
    return boa.loads_partial(CALLED), boa.loads_partial(ASKING)


@pytest.fixture
def on_both(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """What a function answers on py-evm and on revm, which is the same; that answer."""
    envs = Env(), RevmEnv()
    for env in envs:
        env.eoa = Address("0x" + "e0" * 20)
        env.evm.patch.block_number, env.evm.patch.timestamp = 1_000, 1_700_000_000

    def answers(function: Callable[[], Any]) -> Any:
        found = []
        for env in envs:
            with boa.swap_env(env):
                found.append(function())
        assert found[0] == found[1]
        return found[1]

    yield answers


def reason(act: Callable[[], Any]) -> bytes:
    """What a call reverts with."""
    with pytest.raises(boa.BoaError) as refusal:
        act()
    return bytes(refusal.value.call_trace.output)


def test_calls__answer_log_and_cost_the_same(on_both: Any, codes_here: Any) -> None:
    def play() -> list[Any]:
        called = codes_here[0].deploy(PERSON, 5)
        seen: list[Any] = [str(called.address), str(called.owner()), called.store(7, sender=PERSON)]
        seen += [logged(called), called.call_trace().gas_used, called.kept()]
        return seen

    seen = on_both(play)
    assert seen[2:4] == [12, [("Stored", {"amount": 7, "by": PERSON})]]


def test_refusals__have_their_reason_and_change_nothing(on_both: Any, codes_here: Any) -> None:
    def play() -> list[Any]:
        called = codes_here[0].deploy(PERSON, 5)
        refused = [
            reason(lambda: called.store(13)),
            reason(called.fail),
            reason(lambda: called.spend(gas=100_000)),
            reason(lambda: called.store(2**256 - 1)),
        ]
        with boa.reverts("called: unlucky"):
            called.store(13)
        with pytest.raises(ValueError), boa.reverts("called: lucky"):
            called.store(13)
        return [*refused, called.kept()]

    seen = on_both(play)
    assert b"called: unlucky" in seen[0]
    assert seen[1:] == [b"", b"", b"", 5]


def test_an_anchor__undoes_storage_code_and_addresses(on_both: Any, codes_here: Any) -> None:
    def play() -> list[Any]:
        called = codes_here[0].deploy(PERSON, 5)
        code = boa.env.get_code(called.address)
        with boa.env.anchor():
            called.store(1)
            with boa.env.anchor():
                called.store(1)
                other = codes_here[1].deploy()
            once = called.kept()
            boa.env.set_code(called.address, boa.env.get_code(PERSON))
            called.eval("self.kept = 99")
            mine(5)
        assert boa.env.get_code(other.address) == b""
        assert boa.env.get_code(called.address) == code
        again = codes_here[1].deploy()
        assert again.who() == 0
        return [once, called.kept(), str(other.address), str(again.address), boa.env.timestamp]

    seen = on_both(play)
    assert (seen[:2], seen[2], seen[4]) == ([6, 5], seen[3], 1_700_000_000)


def test_a_statement_evaluated_in_a_contract__leaves_its_code(
    on_both: Any, codes_here: Any
) -> None:
    def play() -> list[int]:
        called = codes_here[0].deploy(PERSON, 5)
        called.eval("self.kept = 40")
        return [called.kept(), called.store(2)]

    assert on_both(play) == [40, 42]


def test_the_clock_and_the_chain(on_both: Any, codes_here: Any) -> None:
    def play() -> list[Any]:
        install_block_hashes()
        called = codes_here[0].deploy(PERSON, 5)
        seen = [called.context(999, sender=PERSON)]
        mine(300, 7)
        seen.append(called.context(1_044, sender=PERSON))
        seen.append(reason(lambda: called.context(1_043)))  # vyper looks back 256 blocks
        with boa.env.anchor():
            called.store(1)
            boa.env.evm.patch.chain_id += 1
            seen += [called.context(1_299, sender=PERSON), called.store(1), called.kept()]
        return [*seen, called.context(1_299, sender=PERSON), called.kept()]

    seen = on_both(play)
    assert seen[0] == (1_000, 1_700_000_000, 1, hash_of(999), PERSON)
    assert seen[3:6] == [(1_300, 1_700_000_007, 2, hash_of(1_299), PERSON), 7, 7]
    assert (seen[6][2], seen[7]) == (1, 5)


def test_a_contract_as_sender__is_itself_and_answers(on_both: Any, codes_here: Any) -> None:
    def play() -> list[Any]:
        called, asking = codes_here[0].deploy(PERSON, 5), codes_here[1].deploy()
        asking.learn(8)
        seen: list[Any] = [called.asks_back(sender=asking.address)]
        seen += [called.store(1, sender=asking.address), logged(called)]
        seen.append(called.context(999, sender=asking.address)[4] == asking.address)
        seen.append(reason(lambda: called.store(13, sender=asking.address)))
        seen.append(reason(lambda: asking.learn(9, sender=asking.address)))
        seen.append(reason(lambda: called.asks_back(sender=PERSON)))
        return [*seen, asking.who(), called.kept()]

    on_both(install_block_hashes)
    seen = on_both(play)
    assert seen[:2] + seen[3:4] == [8, 6, True]
    assert b"called: unlucky" in seen[4] and b"asking: myself" in seen[5]


def test_a_constructor__at_a_chosen_address_or_refused(on_both: Any, codes_here: Any) -> None:
    def play() -> list[Any]:
        called = codes_here[0].deploy(PERSON, 5, override_address=CHOSEN)
        seen = [str(called.address), str(called.owner()), called.kept()]
        refused = reason(lambda: codes_here[0].deploy("0x" + "00" * 20, 5))
        return [*seen, refused, str(codes_here[1].deploy().address)]

    seen = on_both(play)
    assert seen[:3] == [CHOSEN, PERSON, 5]
    assert b"called: no owner" in seen[3]


def test_a_history_of_tasks__meets_the_same(
    on_both: Any, codes: Codes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole system, with every refusal and sight that the machine counts."""

    def play() -> list[Any]:
        for name in ("refused", "seen"):
            monkeypatch.setattr(TasksMachine, name, type(getattr(TasksMachine, name))())
        monkeypatch.setattr(TasksMachine, "stage", make_tasks_stage(codes), raising=False)
        machine = TasksMachine(27)
        machine.start()
        for _ in range(STEPS):
            machine.act()
        machine.check_all(True)
        machine.end()
        return [dict(TasksMachine.refused), dict(TasksMachine.seen), boa.env.timestamp]

    refused, seen, _ = on_both(play)
    assert len(refused) > 10 and len(seen) > 10
