# SPDX-License-Identifier: Apache-2.0
"""All contracts on an EVM in this process, deployed by the deployment's own constructor arguments.

Rule: what runs here is the bytecode that `ape run deploy` sends, by the same constructors, at
addresses that follow from the deployer's nonce in the same way. Time passes only by `wait`.
Transactions cost no ether; `gas` counts what they would have used. Where what runs them is not
installed, as with the wheel, this module can be imported all the same, and `lacking` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from eth_abi.abi import decode, encode

from agents.runtime.contracts import Contract, abi_type
from scripts._net.compiled import Artefact, compile_contracts
from scripts._net.deployment import ORDER, DeploymentSettings, constructor_arguments, create_address
from scripts._shared.places import CHECKOUT

try:
    import pyrevm
except ModuleNotFoundError:  # it is of a checkout's group `test`
    pyrevm = None

CHAIN_ID = 31_337
BLOCK_S = 12
DEPLOYER = "0x" + "de" * 20
_GENESIS = 1_700_000_000  # seconds; any time that leaves room for the past
_BLOCK_GAS = 10**12
_REASON = bytes.fromhex("08c379a0")  # the selector of Error(string)
_TOOLS = ("pyrevm", "vyper", "snekmate")  # that run and compile the contracts
_APE = "ape run"  # apart from the commands' names, or the wheel would put its own command in place
WHERE_PLAYED = (
    f"In a checkout, after `make setup`, `{_APE} job create` plays them before it creates a job, "
    f"and `{_APE} economics attacks --rpc URL --job N` on a job that is there."
)


def lacking() -> str | None:
    """Why the contracts can't be run in this installation, None if they can."""
    if not CHECKOUT:
        return "the wheel has no contracts"
    missing = [name for name in _TOOLS if find_spec(name) is None]
    return f"there is no {' and no '.join(missing)} here" if missing else None


class Refused(Exception):
    """A contract reverted; the text is its reason, "" if it gave none."""


class Embedded:
    """The contracts by name, and a clock."""

    def __init__(
        self, settings: DeploymentSettings, artefacts: Mapping[str, Artefact] | None = None
    ) -> None:
        """Deploy everything. `artefacts`: of all contracts (default: compiled now, or cached).

        Raises Refused for settings that a constructor refuses. Ask `lacking` before.
        """
        built = compile_contracts() if artefacts is None else artefacts
        env = pyrevm.Env(cfg=pyrevm.CfgEnv(chain_id=CHAIN_ID))
        self._evm = pyrevm.EVM(env, gas_limit=_BLOCK_GAS, spec_id="CANCUN")
        self.now, self.block = _GENESIS, 1_000
        self.gas = 0
        self._logs: list[Any] = []
        self._tick()
        at = {name: create_address(DEPLOYER, i) for i, name in enumerate(ORDER)}
        arguments = constructor_arguments(settings, at, built)
        self.contracts = {name: Contract(name, at[name], built[name].abi) for name in ORDER}
        for name in ORDER:
            code = bytes.fromhex(built[name].bytecode.removeprefix("0x"))
            code += _constructor_data(built[name], arguments[name])
            try:
                address = self._evm.deploy(deployer=DEPLOYER, code=code, gas=_BLOCK_GAS // 10)
            except RuntimeError as error:
                raise Refused(_reason(str(error))) from None
            if address.lower() != at[name].lower():
                raise RuntimeError(f"{name} lies at {address}, not at {at[name]}.")

    def __getitem__(self, name: str) -> Contract:
        return self.contracts[name]

    # -- time ----------------------------------------------------------------------------------

    def wait(self, seconds: int = BLOCK_S, blocks: int = 1) -> None:
        """Let `seconds` pass, in so many blocks."""
        self.now += seconds
        self.block += blocks
        self._tick()

    @contextmanager
    def undone(self) -> Iterator[None]:
        """While this holds, everything may happen; afterwards nothing of it has."""
        kept, clock, gas = self._evm.snapshot(), (self.now, self.block), self.gas
        try:
            yield
        finally:
            self._evm.revert(kept)
            (self.now, self.block), self.gas = clock, gas
            self._tick()

    def _tick(self) -> None:
        self._evm.set_block_env(
            pyrevm.BlockEnv(number=self.block, timestamp=self.now, gas_limit=_BLOCK_GAS)
        )

    # -- calls ---------------------------------------------------------------------------------

    def send(self, sender: str, name: str, function: str, *args: Any) -> Any:
        """Send a transaction; returns what the function returns. Raises Refused."""
        return self._call(sender, name, function, args, static=False)

    def read(self, name: str, function: str, *args: Any) -> Any:
        """Ask a view. Raises Refused."""
        return self._call(DEPLOYER, name, function, args, static=True)

    def events(self, name: str, event: str) -> list[dict[str, Any]]:
        """Fields of the newest transaction's events of this kind, in their order."""
        contract = self[name]
        kind = contract.event(event)
        return [
            kind.decode(log).args
            for log in self._logs
            if log["address"].lower() == contract.address.lower()
            and log["topics"][0] == "0x" + kind.topic.hex()
        ]

    def _call(
        self, sender: str, name: str, function: str, args: tuple[Any, ...], static: bool
    ) -> Any:
        contract = self[name]
        called = contract.function(function, len(args))
        try:
            output = self._evm.message_call(
                caller=sender,
                to=contract.address,
                calldata=called.encode(args),
                gas=_BLOCK_GAS // 10,
                is_static=static,
            )
        except RuntimeError as error:
            raise Refused(_reason(str(error))) from None
        if not static:
            self.gas += int(self._evm.result.gas_used)
            self._logs = [_as_log(log) for log in self._evm.result.logs]
        return called.decode(bytes(output))


def _constructor_data(artefact: Artefact, arguments: tuple[Any, ...]) -> bytes:
    inputs = [i["inputs"] for i in artefact.abi if i["type"] == "constructor"]
    return encode([abi_type(item) for item in inputs[0]], arguments) if inputs else b""


def _reason(text: str) -> str:
    """Return the reason string in revm's description of a revert."""
    _, found, rest = text.partition("output: 0x")
    data = bytes.fromhex(rest[: len(rest) - len(rest.lstrip("0123456789abcdef"))]) if found else b""
    return str(decode(["string"], data[4:])[0]) if data[:4] == _REASON else ""


def _as_log(log: Any) -> dict[str, Any]:
    topics, data = log.data
    return {
        "address": log.address,
        "topics": ["0x" + bytes(topic).hex() for topic in topics],
        "data": "0x" + bytes(data).hex(),
        "blockNumber": "0x0",
        "blockHash": "0x" + "00" * 32,
        "transactionHash": "0x" + "00" * 32,
        "logIndex": "0x0",
    }
