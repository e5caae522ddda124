# SPDX-License-Identifier: Apache-2.0
"""Sending on a real node: reasons, nonces, stuck transactions, reorgs, restarts of the node."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from agents.runtime.chain import ChainClient
from agents.runtime.errors import Reverted, Stopped, TxRefused
from agents.runtime.metrics import Metrics
from agents.runtime.sender import Sender
from agents.runtime.transaction import (
    GAS_CAP,
    Order,
    Receipt,
    Refusal,
    bumped,
    gas_limit,
    refusal_of,
)
from agents.runtime.wallet import Wallet
from tests.agents.runtime.conftest import KEYS, deploy, eventually


def nonce(anvil, address, block="latest"):
    return int(anvil.rpc("eth_getTransactionCount", address, block), 16)


class Background:
    """Runs a call in a thread and keeps its result or error."""

    def __init__(self, work):
        self.result, self.error = None, None

        def run():
            try:
                self.result = work()
            except Exception as error:
                self.error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def join(self, timeout=60):
        self.thread.join(timeout)
        assert not self.thread.is_alive(), "the send did not end"
        if self.error:
            raise self.error
        return self.result


def pooled(anvil, address):
    """The transactions that wait, by nonce."""
    parts = anvil.rpc("txpool_content")
    return {
        int(number): tx
        for part in ("pending", "queued")
        for owner, entries in parts[part].items()
        if owner.lower() == address.lower()
        for number, tx in entries.items()
    }


def waiting(sender, anvil, tiny):
    """A send that waits for its block."""
    anvil.rpc("evm_setAutomine", False)
    run = Background(lambda: sender.send(tiny, "ping"))
    eventually(lambda: pooled(anvil, sender.address))
    return run


def mine_at(anvil, base_fee):
    anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(base_fee))
    anvil.mine()


def small_blocks(anvil):
    """From the next block on a block has room for one transaction of `mine_full`."""
    anvil.rpc("evm_setBlockGasLimit", hex(600_000))
    anvil.mine()


def mine_full(anvil, tiny, blocks):
    """Mine blocks that another key fills: what else the pool holds stays there."""
    filler = Wallet(Account.from_key(KEYS[1]))
    for _ in range(blocks):
        sent = send_raw(anvil, filler, tiny, "burn", 1_500, gas=590_000, tip_gwei=9)
        anvil.mine()
        block = anvil.rpc("eth_getBlockByNumber", "latest", False)
        assert block["transactions"] == [sent]


def send_raw(anvil, key, contract, function, *args, gas, tip_gwei):
    """Send from `key` without a Sender; the hash."""
    request = {
        "type": 2,
        "chainId": 31337,
        "nonce": nonce(anvil, key.address),
        "to": contract.address,
        "data": "0x" + contract.function(function, len(args)).encode(args).hex(),
        "value": 0,
        "gas": gas,
        "maxFeePerGas": 10 * tip_gwei * 10**9,
        "maxPriorityFeePerGas": tip_gwei * 10**9,
    }
    return anvil.rpc("eth_sendRawTransaction", "0x" + key.sign_transaction(request)[0].hex())


def test_send_returns_a_checked_receipt(sender, chain, tiny):
    receipt = sender.send(tiny, "ping", "hello")
    assert receipt.status == 1 and chain.call(tiny, "n") == 1
    (event,) = receipt.events(tiny, "Pinged")
    assert event.args == {"who": sender.address, "n": 1, "note": "hello"}
    assert receipt.fee_wei > 0


def test_preflight_gives_the_reason_without_spending(sender, anvil, tiny):
    before = nonce(anvil, sender.address)
    with pytest.raises(Reverted) as caught:
        sender.send(tiny, "refuse", 1)
    assert caught.value.reason == "rounds: not committed"
    assert nonce(anvil, sender.address) == before


def test_a_mined_revert_gives_the_reason_too(lines, wallet, chain, anvil, tiny):
    """Two keys pass the preflight for a once-only call; the chain refuses the second."""
    other = Wallet(Account.from_key(KEYS[1]))
    anvil.rpc("evm_setAutomine", False)
    runs = []
    for key in (wallet, other):
        racer = Sender(chain, key, 31337, lines.log, poll_s=0.03)
        runs.append(Background(lambda racer=racer: racer.send(tiny, "only_once")))
        # The second starts with the first's transaction pending: it must not be misled by it.
        eventually(lambda key=key: pooled(anvil, key.address))
    anvil.mine()
    errors = []
    for run in runs:
        try:
            run.join()
        except Reverted as error:
            errors.append(error)
    assert [error.reason for error in errors] == ["rounds: already committed"]
    assert errors[0].tx_hash is not None


def test_threads_share_a_key_without_nonce_gaps(sender, chain, anvil, tiny):
    start = nonce(anvil, sender.address)
    runs = [Background(lambda: sender.send(tiny, "ping")) for _ in range(8)]
    for run in runs:
        run.join()
    assert chain.call(tiny, "n") == 8
    assert nonce(anvil, sender.address) == start + 8


@pytest.mark.parametrize("automine", [True, False])
def test_two_senders_of_one_key_both_get_through(chain, anvil, tiny, wallet, lines, automine):
    """What two processes with one key do to each other.

    (Two equal calls would be one transaction, byte for byte: hence the notes.)
    """
    anvil.rpc("evm_setAutomine", automine)
    if not automine:
        anvil.rpc("evm_setIntervalMining", 1)
    senders = [Sender(chain, wallet, 31337, lines.log, poll_s=0.03) for _ in range(2)]
    count = 4 if automine else 1
    runs = [
        Background(lambda s=s, i=i: [s.send(tiny, "ping", f"{i} {k}") for k in range(count)])
        for i, s in enumerate(senders)
    ]
    for run in runs:
        run.join(25)
    assert chain.call(tiny, "n") == 2 * count


def test_calls_that_do_not_depend_on_each_other_share_a_block(sender, chain, anvil, tiny):
    start = nonce(anvil, sender.address)
    anvil.rpc("evm_setAutomine", False)
    run = Background(lambda: sender.send_all([Order(tiny, "ping", (f"{n}",)) for n in range(8)]))
    eventually(lambda: len(pooled(anvil, sender.address)) == 8)
    anvil.mine()
    receipts = run.join()
    assert len({receipt.block for receipt in receipts}) == 1
    notes = [receipt.events(tiny, "Pinged")[0].args["note"] for receipt in receipts]
    assert notes == [str(n) for n in range(8)]
    assert nonce(anvil, sender.address) == start + 8


def test_more_calls_than_a_pool_holds_of_one_key_go_in_turns(sender, chain, tiny):
    assert len(sender.send_all([Order(tiny, "ping")] * 20)) == 20
    assert chain.call(tiny, "n") == 20


def test_a_refused_call_holds_up_none_of_those_sent_with_it(sender, chain, tiny):
    orders = [Order(tiny, "ping"), Order(tiny, "refuse", (1,)), Order(tiny, "ping")]
    first, refused, last = sender.send_all(orders)
    assert isinstance(first, Receipt) and isinstance(last, Receipt)
    assert isinstance(refused, Reverted) and refused.reason == "rounds: not committed"
    assert chain.call(tiny, "n") == 2


def test_a_call_too_big_for_a_transaction_is_said_once_the_others_are_mined(sender, chain, tiny):
    with pytest.raises(TxRefused, match="smaller batches"):
        sender.send_all([Order(tiny, "burn", (1_000_000,)), Order(tiny, "ping")])
    assert chain.call(tiny, "n") == 1


def test_calls_sent_together_get_through_beside_another_sender_of_the_key(
    chain, anvil, tiny, wallet, lines
):
    anvil.rpc("evm_setAutomine", False)
    senders = [Sender(chain, wallet, 31337, lines.log, poll_s=0.03) for _ in range(2)]
    runs = [
        Background(
            lambda s=s, i=i: s.send_all([Order(tiny, "ping", (f"{i} {k}",)) for k in range(4)])
        )
        for i, s in enumerate(senders)
    ]
    eventually(lambda: len(pooled(anvil, wallet.address)) >= 4)
    anvil.rpc("evm_setIntervalMining", 1)
    for run in runs:
        assert all(isinstance(receipt, Receipt) for receipt in run.join())
    assert chain.call(tiny, "n") == 8


def test_what_the_next_block_allows_is_sent_for_it(sender, chain, anvil, tiny):
    """A node answers as if in the newest block, where the seed's block is not yet behind."""
    target = sender.send(tiny, "ask").block + 1
    anvil.mine()
    assert chain.head().number == target
    assert sender.send(tiny, "capture").block == target + 1


def test_what_the_next_block_refuses_too_is_not_sent(sender, tiny):
    sender.send(tiny, "ask")
    with pytest.raises(Reverted, match="randomness: too early"):
        sender.send(tiny, "capture")


def test_stuck_transactions_are_replaced_with_at_least_a_tenth_more(sender, anvil, tiny, lines):
    small_blocks(anvil)
    run = waiting(sender, anvil, tiny)
    first_nonce, first = next(iter(pooled(anvil, sender.address).items()))
    mine_full(anvil, tiny, 3)
    eventually(lambda: pooled(anvil, sender.address)[first_nonce]["hash"] != first["hash"])
    second = pooled(anvil, sender.address)[first_nonce]
    for field in ("maxFeePerGas", "maxPriorityFeePerGas"):
        assert int(second[field], 16) * 10 >= int(first[field], 16) * 11
    assert second["nonce"] == first["nonce"]
    anvil.mine()
    assert run.join().tx_hash == second["hash"]
    assert len(lines.events("tx_replaced")) == 1


def test_a_replacement_stops_at_the_fee_limit(chain, wallet, anvil, tiny, lines):
    sender = Sender(chain, wallet, 31337, lines.log, poll_s=0.03, max_fee_wei=4 * 10**9)
    run = waiting(sender, anvil, tiny)
    mine_at(anvil, 10**12)
    with pytest.raises(TxRefused, match=r"refused as .* base fee .* the limit is 4000000000"):
        run.join()
    with pytest.raises(TxRefused, match="above the limit of 4000000000"):
        sender.send(tiny, "ping")
    mine_at(anvil, 10**9)
    run = waiting(sender, anvil, tiny)
    anvil.mine()
    assert run.join().status == 1


def test_a_transaction_dropped_from_the_pool_is_sent_again(sender, anvil, tiny, lines):
    run = waiting(sender, anvil, tiny)
    anvil.rpc("anvil_dropAllTransactions")
    eventually(lambda: pooled(anvil, sender.address))
    anvil.mine()
    run.join()
    assert lines.events("tx_resent")


def test_a_receipt_that_a_reorg_removes_is_earned_again(chain, wallet, anvil, tiny, lines):
    sender = Sender(chain, wallet, 31337, lines.log, poll_s=0.03, confirmations=3)
    anvil.mine(2)
    run = Background(lambda: sender.send(tiny, "ping"))
    eventually(lambda: chain.call(tiny, "n") == 1)
    anvil.mine()
    time.sleep(0.2)
    assert run.thread.is_alive(), "two blocks are not three confirmations"
    anvil.rpc("anvil_reorg", 2, [])
    eventually(lambda: chain.call(tiny, "n") == 1)
    anvil.mine(3)
    receipt = run.join()
    assert chain.call(tiny, "n") == 1
    assert chain.block_hash(receipt.block) == receipt.block_hash
    assert lines.events("tx_resent")


def test_a_receipt_from_a_removed_block_is_not_believed(sender, chain, tiny, monkeypatch):
    """Some nodes answer with receipts of blocks that a reorg has removed."""
    false, real, head = [b"\x01" * 32] * 3, chain.newest_hash, chain.newest_head
    monkeypatch.setattr(chain, "newest_hash", lambda n: false.pop() if false else real(n))
    other = lambda: replace(head(), hash=b"\x02" * 32)  # noqa: E731
    monkeypatch.setattr(chain, "newest_head", lambda: other() if false else head())
    receipt = sender.send(tiny, "ping")
    assert false == [] and receipt.block_hash == real(receipt.block)


def test_a_receipt_that_comes_after_the_nonce_is_awaited(sender, chain, tiny, lines, monkeypatch):
    """A node counts the nonce a moment before it has the receipt: sending again would revert."""
    find, hidden = sender.delivery.find_receipt, [None] * 6
    hide = lambda attempt: hidden.pop() if hidden else find(attempt)  # noqa: E731
    monkeypatch.setattr(sender.delivery, "find_receipt", hide)
    sender.send(tiny, "only_once")
    assert hidden == [] and chain.call(tiny, "once")
    assert not lines.events("tx_nonce_taken")


def test_a_receipt_that_comes_long_after_its_block_sends_nothing_twice(
    sender, anvil, tiny, lines, monkeypatch
):
    """Behind a load balancer the receipt may come seconds later than the transaction. After nine
    looks the nonce counted as taken by somebody else, and the call was made again: `create_job`
    made two jobs."""
    found, looks = sender.delivery.find_receipt, []

    def late(attempt):
        looks.append(attempt)
        return found(attempt) if len(looks) > 25 else None

    monkeypatch.setattr(sender.delivery, "find_receipt", late)
    before = nonce(anvil, sender.address)
    assert sender.send(tiny, "ping").status == 1
    assert not lines.events("tx_nonce_taken")
    assert nonce(anvil, sender.address) == before + 1


def test_leftovers_of_an_earlier_process_are_awaited(chain, wallet, anvil, tiny, lines):
    anvil.rpc("evm_setAutomine", False)
    earlier_stop = threading.Event()
    earlier = Sender(chain, wallet, 31337, lines.log, stop=earlier_stop, poll_s=0.03)
    dead = Background(lambda: earlier.send(tiny, "only_once"))
    eventually(lambda: pooled(anvil, wallet.address))
    earlier_stop.set()
    with pytest.raises(Stopped):
        dead.join()
    sender = Sender(chain, wallet, 31337, lines.log, poll_s=0.03)
    run = Background(lambda: sender.ensure(lambda: chain.call(tiny, "once"), tiny, "only_once"))
    eventually(lambda: lines.events("tx_leftover"))
    anvil.mine()
    assert run.join() is None  # the earlier one did it; nothing was sent twice
    assert nonce(anvil, wallet.address, "pending") == nonce(anvil, wallet.address)


def test_what_a_leftover_makes_needless_is_not_sent(chain, wallet, anvil, tiny, lines):
    """It is asked when the leftover is mined, and of the block that it is in."""
    anvil.rpc("evm_setAutomine", False)
    send_raw(anvil, wallet, tiny, "only_once", gas=200_000, tip_gwei=3)
    sender = Sender(chain, wallet, 31337, lines.log, poll_s=0.03)

    def once():
        return chain.call(tiny, "once")

    run = Background(lambda: sender.ensure(lambda: False, tiny, "ping", "new", unless=once))
    eventually(lambda: lines.events("tx_leftover"))
    anvil.mine()
    assert run.join() is None
    assert nonce(anvil, wallet.address, "pending") == 1


def test_leftovers_that_stay_are_replaced(chain, wallet, anvil, tiny, lines):
    small_blocks(anvil)
    anvil.rpc("evm_setAutomine", False)
    old = send_raw(anvil, wallet, tiny, "ping", "old", gas=200_000, tip_gwei=3)
    sender = Sender(chain, wallet, 31337, lines.log, poll_s=0.03)
    run = Background(lambda: sender.send(tiny, "ping", "new"))
    eventually(lambda: lines.events("tx_leftover"))
    mine_full(anvil, tiny, 3)
    eventually(lambda: pooled(anvil, wallet.address)[0]["hash"] != old)
    anvil.mine()
    (event,) = run.join().events(tiny, "Pinged")
    assert event.args["note"] == "new" and nonce(anvil, wallet.address) == 1


def test_a_send_survives_the_nodes_restart(start_anvil, compiled, lines, wallet, tmp_path):
    anvil = start_anvil("--state", str(tmp_path / "state.json"))
    tiny = deploy(anvil, compiled)
    chain = ChainClient(anvil.url, lines.log, pause_s=0.02)
    run = waiting(Sender(chain, wallet, 31337, lines.log, poll_s=0.03), anvil, tiny)
    anvil.stop()  # the pool is lost with it
    eventually(lambda: lines.events("rpc_down"))
    time.sleep(0.3)
    assert run.thread.is_alive()
    anvil.start()
    assert run.join().status == 1
    assert chain.call(tiny, "n") == 1
    assert len(lines.events("rpc_down")) == 1


def test_ensure_does_nothing_when_done_and_forgives_a_faster_one(sender, chain, tiny, anvil):
    assert sender.ensure(lambda: True, tiny, "only_once") is None
    answers = iter([False, True])
    sender.send(tiny, "only_once")
    assert sender.ensure(lambda: next(answers), tiny, "only_once") is None
    with pytest.raises(Reverted, match="already committed"):
        sender.ensure(lambda: False, tiny, "only_once")


def test_refusals_are_sentences(chain, lines, tiny, sender):
    poor = Sender(chain, Wallet(Account.create()), 31337, lines.log, poll_s=0.03)
    with pytest.raises(TxRefused, match=r"cannot pay for Tiny\.ping: it has 0\.000000 ETH"):
        poor.send(tiny, "ping")
    sender.delivery.metrics = Metrics("test")
    with pytest.raises(TxRefused, match=r"more than the 16777216 gas .* smaller batches"):
        sender.send(tiny, "burn", 1_000_000)
    samples = [
        s for metric in sender.delivery.metrics.transactions.collect() for s in metric.samples
    ]
    assert sum(s.value for s in samples if s.name.endswith("_total")) == 1


def test_who_comes_second_in_a_block_has_gas_for_what_the_first_left_to_do(
    chain, anvil, tiny, lines
):
    """Both estimate on the block before, where each would be the first and do a third of it."""
    anvil.rpc("evm_setAutomine", False)
    senders = [
        Sender(chain, Wallet(Account.from_key(key)), 31337, lines.log, poll_s=0.03)
        for key in KEYS[:2]
    ]
    runs = [Background(lambda s=s: s.send(tiny, "close")) for s in senders]
    eventually(lambda: all(pooled(anvil, s.address) for s in senders))
    anvil.mine()
    used = sorted(run.join().gas_used for run in runs)
    assert used[1] > 2 * used[0]


def test_gas_is_never_above_the_transaction_cap(sender, chain, tiny):
    receipt = sender.send(tiny, "burn", 60_000)  # the estimate with margin would exceed the cap
    assert 0.8 * GAS_CAP < receipt.gas_used <= GAS_CAP


def test_an_estimate_above_the_cap_is_believed():
    """Where new state has gas of its own (EIP-8037), the cap bounds execution only."""
    assert gas_limit(GAS_CAP) == GAS_CAP
    assert gas_limit(2 * GAS_CAP) > 2 * GAS_CAP


@given(st.integers(min_value=0, max_value=10**30))
def test_a_bump_always_beats_ten_percent(fee):
    assert bumped(fee) * 10 >= fee * 11 and bumped(fee) > fee
    assert bumped(fee) <= fee * 9 // 8 + 1


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("already known", Refusal.KNOWN),
        ("transaction gas limit too high (cap: 16777216, tx: 20000000)", Refusal.NO_GAS),
        ("transaction gas limit (20000000) is greater than the cap (16777216)", Refusal.NO_GAS),
        ("transaction already imported", Refusal.KNOWN),
        ("Nonce too low", Refusal.NONCE_USED),
        ("nonce too low: next nonce 5, tx nonce 4", Refusal.NONCE_USED),
        ("replacement transaction underpriced", Refusal.UNDERPRICED),
        ("transaction underpriced", Refusal.FEE_LOW),
        ("transaction underpriced: tip needed 2, tip permitted 1", Refusal.FEE_LOW),
        ("transaction gas price below minimum: gas tip cap 1", Refusal.FEE_LOW),
        ("Gas price below configured minimum gas price", Refusal.FEE_LOW),
        ("FeeTooLow, Fee per gas needs to be higher", Refusal.FEE_LOW),
        ("max fee per gas less than block base fee: address 0x1", Refusal.FEE_LOW),
        ("Insufficient funds for gas * price + value", Refusal.POOR),
        ("EVM error ReentrancySentryOOG", Refusal.NO_GAS),
        ("gas required exceeds allowance (30000000)", Refusal.NO_GAS),
        ("invalid chain id for signer", Refusal.OTHER),
    ],
)
def test_what_nodes_say_is_understood(words, kind):
    assert refusal_of(words) is kind
