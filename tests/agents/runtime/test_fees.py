# SPDX-License-Identifier: Apache-2.0
"""What is offered for a transaction when blocks become dear while it waits."""

from __future__ import annotations

import pytest

from agents.runtime.errors import TxRefused
from agents.runtime.sender import Sender
from tests.agents.runtime.conftest import eventually
from tests.agents.runtime.test_sender import mine_at, pooled, waiting

GWEI = 10**9


@pytest.fixture
def careful(chain, wallet, lines) -> Sender:
    """It pays 100 gwei at most."""
    return Sender(chain, wallet, 31337, lines.log, poll_s=0.03, max_fee_wei=100 * GWEI)


def test_a_waiting_transaction_is_offered_as_much_as_the_limit_allows(careful, anvil, tiny, lines):
    """At a base fee of 60 gwei, twice that is above the limit, and the limit would do. The
    transaction kept its first fee, or was given up, and its window went by."""
    mine_at(anvil, 5 * GWEI)
    run = waiting(careful, anvil, tiny)
    mine_at(anvil, 60 * GWEI)
    eventually(lambda: lines.events("tx_replaced") or not run.thread.is_alive())
    eventually(lambda: pooled(anvil, careful.address) or not run.thread.is_alive())
    anvil.mine()
    assert run.join().status == 1
    assert [line["max_fee"] for line in lines.events("tx_replaced")] == [100 * GWEI]


def test_what_the_limit_can_pay_is_sent(careful, anvil, tiny):
    mine_at(anvil, 60 * GWEI)
    assert careful.send(tiny, "ping").status == 1


def test_what_the_limit_cannot_pay_is_not_sent(careful, anvil, tiny):
    mine_at(anvil, 130 * GWEI)  # and 113.75 in the next block
    with pytest.raises(TxRefused, match="above the limit of 100000000000"):
        careful.send(tiny, "ping")
