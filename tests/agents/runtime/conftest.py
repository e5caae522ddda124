# SPDX-License-Identifier: Apache-2.0
"""A real anvil on a free port, and one small Vyper contract on it."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from eth_account import Account

from agents.runtime.chain import ChainClient
from agents.runtime.contracts import Contract, Deployment
from agents.runtime.logs import LEVELS, Log, _Sink
from agents.runtime.sender import Sender
from agents.runtime.wallet import Wallet
from scripts._net.ports import free_port

ROOT = Path(__file__).parents[3]
# anvil's published development keys
KEYS = [
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
]
SOURCE = """
# SPDX-License-Identifier: AGPL-3.0-only
# pragma version 0.4.3
struct Round:
    number: uint256
    opener: address
    root: bytes32

event Pinged:
    who: indexed(address)
    n: uint256
    note: String[32]

n: public(uint256)
once: public(bool)
words: uint256[5]
target: uint256

@external
def close():
    # The second to come pays for what both have waited for.
    self.n += 1
    if self.n == 2:
        self.words = [1, 2, 3, 4, 5]

@external
def ping(note: String[32] = ""):
    self.n += 1
    log Pinged(who=msg.sender, n=self.n, note=note)

@external
def only_once():
    assert not self.once, "rounds: already committed"
    self.once = True

@external
def refuse(x: uint256):
    assert x > 10, "rounds: not committed"

@external
def ask():
    self.target = block.number + 1

@external
def capture():
    assert block.number > self.target, "randomness: too early"

@external
def bare():
    raise

@external
def burn(times: uint256):
    for i: uint256 in range(times, bound=1000000):
        self.n += 1

@external
@view
def round() -> Round:
    return Round(number=7, opener=self, root=keccak256("r"))

@external
@view
def rounds() -> DynArray[Round, 4]:
    return [Round(number=1, opener=self, root=empty(bytes32))]

@external
@view
def pair(x: uint256) -> (uint256, address):
    return x + 1, self
"""


def find_anvil() -> str:
    found = shutil.which("anvil")
    if found is None:
        local = sorted((ROOT / "tools").glob("**/@foundry-rs/anvil-*/bin/anvil"))
        found = str(local[0]) if local else None
    if found is None:
        pytest.fail("anvil is neither on PATH nor in tools/: run `make setup`.")
    return found


@pytest.fixture
def port() -> int:
    return free_port()


class Anvil:
    """One anvil process that can be stopped, killed and started again on its port."""

    def __init__(self, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._options = options
        self.start()

    def start(self, *more: str) -> None:
        command = [
            *(find_anvil(), "--port", str(self.port), "--silent", "--enable-tx-gas-limit"),
            *("--max-persisted-states", "0", *self._options, *more),
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self.rpc("eth_chainId")
                return
            except requests.RequestException:
                time.sleep(0.02)
        raise RuntimeError("anvil did not start")

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(timeout=60)

    def rpc(self, method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        answer = requests.post(self.url, json=body, timeout=60).json()
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def receipt(self, tx: str) -> dict[str, Any]:
        """Automine answers with the hash before the block is there."""
        deadline = time.monotonic() + 60
        while (found := self.rpc("eth_getTransactionReceipt", tx)) is None:
            assert time.monotonic() < deadline, f"{tx} was not mined"
            time.sleep(0.01)
        return found

    def mine(self, blocks: int = 1) -> None:
        self.rpc("anvil_mine", hex(blocks))


@pytest.fixture
def start_anvil() -> Iterator[Callable[..., Anvil]]:
    started: list[Anvil] = []

    def begin(*options: str) -> Anvil:
        started.append(Anvil(*options))
        return started[-1]

    yield begin
    for anvil in started:
        if anvil.process.poll() is None:
            anvil.stop(signal.SIGKILL)


@pytest.fixture
def anvil(start_anvil: Callable[..., Anvil]) -> Anvil:
    return start_anvil()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    source = tmp_path_factory.mktemp("vyper") / "Tiny.vy"
    source.write_text(SOURCE)
    vyper = Path(sys.executable).with_name("vyper")
    done = subprocess.run(
        [str(vyper), "-f", "abi,bytecode", str(source)], capture_output=True, text=True, check=True
    )
    abi, bytecode = done.stdout.strip().split("\n")
    return {"abi": json.loads(abi), "bytecode": bytecode}


def eventually(check: Callable[[], Any], timeout: float = 60) -> None:
    """Waits until it holds."""
    deadline = time.monotonic() + timeout
    while not check():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


# What the tests sign.
DOMAIN = {
    "name": "Menagerie",
    "version": "1",
    "chainId": 31337,
    "verifyingContract": "0x" + "11" * 20,
}
TYPES = {"Approval": [{"name": "op", "type": "bytes32"}]}


def deploy(anvil: Anvil, compiled: dict[str, Any]) -> Contract:
    deployer = anvil.rpc("eth_accounts")[9]
    tx = anvil.rpc("eth_sendTransaction", {"from": deployer, "data": compiled["bytecode"]})
    return Contract("Tiny", anvil.receipt(tx)["contractAddress"], compiled["abi"])


@pytest.fixture
def tiny(anvil: Anvil, compiled: dict[str, Any]) -> Contract:
    return deploy(anvil, compiled)


@pytest.fixture
def deployment(tiny: Contract) -> Deployment:
    return Deployment("deployments/31337.json", 31337, 0, {"Tiny": tiny})


class Lines:
    """A log kept in memory; `events(name)` are its parsed lines."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.log = Log(_Sink(self.stream, LEVELS["debug"], human=False), {"role": "test"})

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.text.splitlines()]
        return [line for line in lines if line["event"] == name]


class Front:
    """An HTTP server in front of real nodes. `answer`: what it says to a request or a batch."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                reply = json.dumps(answer(json.loads(body))).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def front() -> Iterator[Callable[[Callable[[Any], Any]], Front]]:
    """Starts servers in front of nodes."""
    started: list[Front] = []

    def begin(answer: Callable[[Any], Any]) -> Front:
        started.append(Front(answer))
        return started[-1]

    yield begin
    for one in started:
        one.close()


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def chain(anvil: Anvil, lines: Lines) -> ChainClient:
    return ChainClient(anvil.url, lines.log, pause_s=0.05)


@pytest.fixture
def wallet() -> Wallet:
    return Wallet(Account.from_key(KEYS[0]))


@pytest.fixture
def sender(chain: ChainClient, wallet: Wallet, lines: Lines) -> Sender:
    return Sender(chain, wallet, 31337, lines.log, poll_s=0.03)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("MENAGERIE_"):
            monkeypatch.delenv(name)
