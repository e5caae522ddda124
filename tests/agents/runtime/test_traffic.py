# SPDX-License-Identifier: Apache-2.0
"""What an agent asks of its node is counted, and shown in its metrics."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from agents.runtime.errors import RpcDown
from agents.runtime.metrics import Metrics
from agents.runtime.traffic import Traffic


def test_a_batch_is_one_request_with_several_calls(chain, tiny):
    before = chain.traffic.requests
    chain.call_many([(tiny, "n", []), (tiny, "pair", [1])])
    chain.head()
    assert chain.traffic.requests == before + 2
    assert chain.traffic.calls()["eth_call"] == 2
    assert chain.traffic.calls()["eth_getBlockByNumber"] == 1


def test_every_try_is_a_request(chain, anvil):
    anvil.stop()
    with pytest.raises(RpcDown):
        chain.head()
    assert chain.traffic.requests == 3


def test_requests_for_each_block_are_averaged_over_the_last_ones():
    traffic = Traffic()
    assert traffic.per_block() == 0
    for block in range(200):
        traffic.see_block(block)
        traffic.see_block(block)
        for _ in range(9 if block < 100 else 3):
            traffic.sent(["eth_call"])
    assert traffic.per_block() == 3
    traffic.see_block(50)
    assert traffic.per_block() == 0, "a shorter branch begins anew"


def test_the_metrics_show_requests_and_calls(chain, tiny):
    metrics = Metrics("test")
    metrics.see_traffic(chain.traffic)
    chain.traffic.see_block(1)
    chain.call(tiny, "n")
    chain.traffic.see_block(2)
    shown = generate_latest(metrics.registry).decode()
    assert "menagerie_rpc_requests_total 1.0" in shown
    assert 'menagerie_rpc_calls_total{method="eth_call"} 1.0' in shown
    assert "menagerie_rpc_requests_per_block 1.0" in shown
