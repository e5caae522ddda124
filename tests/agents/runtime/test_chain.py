# SPDX-License-Identifier: Apache-2.0
"""Reading a real node: values, reasons, events, outages, the wrong network."""

from __future__ import annotations

import json
import signal
import threading

import pytest
from eth_utils.crypto import keccak

from agents.runtime import chain as chain_module
from agents.runtime.chain import NO_REASON, ChainClient
from agents.runtime.contracts import load_deployment
from agents.runtime.errors import ConfigError, Reverted, RpcDown, RpcRefused


def test_values_come_back_typed(chain, tiny):
    result = chain.call(tiny, "round")
    assert (result.number, result.opener, result.root) == (7, tiny.address, keccak(text="r"))
    assert chain.call(tiny, "rounds")[0].opener == tiny.address
    assert tuple(chain.call(tiny, "pair", 41)) == (42, tiny.address)
    assert chain.call(tiny, "n") == 0


def test_call_many_is_one_request_with_results_in_order(chain, tiny):
    results = chain.call_many([(tiny, "pair", [i]) for i in range(20)] + [(tiny, "n", [])])
    assert [r[0] for r in results[:20]] == list(range(1, 21))
    assert results[20] == 0
    with pytest.raises(Reverted, match="rounds: not committed"):
        chain.call_many([(tiny, "n", []), (tiny, "refuse", [1])])
    assert chain.call_many([]) == []


def test_a_batch_that_the_node_finds_too_long_is_halved(chain, tiny, monkeypatch):
    real, lengths = chain._provider.make_batch_request, []

    def limited(batch):
        lengths.append(len(batch))
        if len(batch) > 6:
            return {"error": {"code": -32600, "message": "batch too large"}}
        return real(batch)

    monkeypatch.setattr(chain._provider, "make_batch_request", limited)
    results = chain.call_many([(tiny, "pair", [i]) for i in range(20)])
    assert [r[0] for r in results] == list(range(1, 21))
    assert lengths[:3] == [20, 10, 5]


def test_reverts_carry_the_contracts_reason(chain, tiny):
    with pytest.raises(Reverted) as caught:
        chain.call(tiny, "refuse", 1)
    assert caught.value.reason == "rounds: not committed"
    assert "Tiny.refuse reverted: rounds: not committed" in str(caught.value)
    with pytest.raises(Reverted) as caught:
        chain.call(tiny, "bare")
    assert caught.value.reason == NO_REASON


WORDS = ((32).to_bytes(32, "big") + (9).to_bytes(32, "big")).hex()
REASON = "08c379a0" + WORDS + b"pool: low".hex().ljust(64, "0")


REVERTED = "execution reverted"


@pytest.mark.parametrize(
    ("code", "message", "data", "reason"),
    [
        (3, REVERTED, "0x" + REASON, "pool: low"),
        (-32015, "VM execution error.", "Reverted 0x" + REASON, "pool: low"),
        (-32000, REVERTED, {"data": "0x" + REASON}, "pool: low"),
        (-32000, "execution reverted: pool: low", None, "pool: low"),
        (-32000, "VM Exception while processing transaction: reverted", None, NO_REASON),
        (3, REVERTED, "0x4e487b71" + (17).to_bytes(32, "big").hex(), "panic 0x11"),
        (3, REVERTED, "0x08c379a0ff", "undecodable revert data 0x08c379a0ff"),
    ],
)
def test_reasons_are_read_in_the_shapes_of_other_nodes(chain, code, message, data, reason):
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    with pytest.raises(Reverted) as caught:
        chain._result("eth_call", {"jsonrpc": "2.0", "id": 1, "error": error})
    assert caught.value.reason == reason


def test_a_refusal_that_is_no_revert_keeps_its_code(chain):
    with pytest.raises(RpcRefused, match="Method not found") as caught:
        chain.request("no_such_method")
    assert caught.value.code == -32601


def test_events_in_order_filtered_and_chunked(chain, tiny, anvil, sender):
    accounts = anvil.rpc("eth_accounts")
    for i in range(5):
        data = "0x" + tiny.function("ping", 1).encode([f"note {i}"]).hex()
        call = {"from": accounts[i % 2], "to": tiny.address, "data": data}
        anvil.receipt(anvil.rpc("eth_sendTransaction", call))
    last = chain.head().number
    found = chain.events(tiny, "Pinged", 0, last, chunk=2)
    assert [e.args["n"] for e in found] == [1, 2, 3, 4, 5]
    assert [e.args["note"] for e in found] == [f"note {i}" for i in range(5)]
    assert list(found[0].args) == ["who", "n", "note"]
    mine = chain.events(tiny, "Pinged", 0, last, {"who": found[0].args["who"]})
    assert [e.args["n"] for e in mine] == [1, 3, 5]
    assert chain.events(tiny, "Pinged", 0, last, {"who": tiny.address}) == []
    with pytest.raises(TypeError, match="no indexed field n"):
        chain.events(tiny, "Pinged", 0, last, {"n": 1})


def test_event_ranges_shrink_when_the_node_says_so(chain, tiny, anvil, monkeypatch):
    anvil.mine(20)
    asked = []
    real = chain.ask_many

    def limited(batch):
        answers = real(batch)
        for place, (method, params) in enumerate(batch):
            if method == "eth_getLogs":
                span = int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) + 1
                asked.append(span)
                if span > 4:
                    answers[place] = {"error": {"code": -32000, "message": "block range too large"}}
        return answers

    monkeypatch.setattr(chain, "ask_many", limited)
    assert chain.events(tiny, "Pinged", 0, 20, chunk=16) == []
    assert asked[:3] == [16, 8, 4]
    assert sum(span for span in asked if span <= 4) == 21


def test_misuse_names_the_function(chain, tiny):
    with pytest.raises(TypeError, match=r"Tiny\.pair takes 1 arguments; it was given 2"):
        chain.call(tiny, "pair", 1, 2)
    with pytest.raises(TypeError, match="does not exist"):
        chain.call(tiny, "nothing")
    with pytest.raises(TypeError, match=r"Tiny\.pair\(uint256\)"):
        chain.call(tiny, "pair", -1)


def test_the_right_network_passes_and_the_wrong_one_is_named(chain, deployment, start_anvil, lines):
    chain.check(deployment)
    other = start_anvil("--chain-id", "5")
    with pytest.raises(ConfigError, match=r"serves chain 5, but the deployment .* chain 31337"):
        ChainClient(other.url, lines.log).check(deployment)
    empty = start_anvil()
    with pytest.raises(ConfigError, match=r"no code at .* places Tiny"):
        ChainClient(empty.url, lines.log).check(deployment)


def test_a_bad_deployment_file_is_named(tmp_path, compiled):
    path = tmp_path / "31337.json"
    with pytest.raises(ConfigError, match="no deployment file"):
        load_deployment(path)
    entry = {"address": "0x" + "11" * 20, "abi": compiled["abi"]}
    path.write_text(json.dumps({"chain_id": 31337, "block": 3, "contracts": {"Tiny": entry}}))
    loaded = load_deployment(path, 31337)
    assert (loaded.chain_id, loaded.block, loaded["Tiny"].name) == (31337, 3, "Tiny")
    with pytest.raises(ConfigError, match="has no contract RewardPool; it lists Tiny"):
        loaded["RewardPool"]
    with pytest.raises(ConfigError, match="chain 31337, but chain_id is set to 1"):
        load_deployment(path, 1)
    for broken in (
        "{",
        "[]",
        '{"chain_id": 1}',
        '{"chain_id":1,"block":0,"contracts":{"A":{}}}',
        '{"chain_id":1,"block":0,"contracts":{"A":{"address":"0x1","abi":[]}}}',
    ):
        path.write_text(broken)
        with pytest.raises(ConfigError, match="deployment file"):
            load_deployment(path)


def test_an_outage_is_bounded_per_try_and_said_once(start_anvil, lines, tmp_path):
    anvil = start_anvil("--state", str(tmp_path / "state.json"))
    chain = ChainClient(anvil.url, lines.log, pause_s=0.02)
    anvil.mine(3)
    anvil.stop()
    for _ in range(4):
        with pytest.raises(RpcDown, match=r"did not answer 3 tries.*keeps trying"):
            chain.head()
    assert len(lines.events("rpc_down")) == 1
    anvil.start()
    assert chain.head().number == 3
    assert len(lines.events("rpc_back")) == 1
    anvil.stop(signal.SIGKILL)
    with pytest.raises(RpcDown):
        chain.head()
    assert len(lines.events("rpc_down")) == 2


def test_a_node_that_answers_rubbish_counts_as_down(lines):
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Rubbish(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"jsonrpc": "2.0", "resu')

        def log_message(self, *_):
            return

    server = HTTPServer(("127.0.0.1", 0), Rubbish)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = ChainClient(f"http://127.0.0.1:{server.server_port}", lines.log, pause_s=0.01)
    with pytest.raises(RpcDown):
        client.head()
    server.shutdown()
    server.server_close()


def test_time_is_told_by_the_chains_blocks(chain, anvil):
    before = chain.chain_time()
    anvil.rpc("evm_increaseTime", 5000)
    anvil.mine()
    assert chain.chain_time() >= before + 5000
    assert chain.timestamp(0) < chain.timestamp("latest")
    assert chain_module.head_from_json(anvil.rpc("eth_getBlockByNumber", "latest", False)).base_fee
