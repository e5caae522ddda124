# SPDX-License-Identifier: Apache-2.0
"""Titanoboa on revm, which runs a call in 20 microseconds; py-evm, boa's own, takes milliseconds.

Rule: a test sees what it sees on py-evm: answers, events, reason strings, gas of the execution,
anchors, a sender that is a contract, a constructor at a chosen address. `test_revm.py` compares.

What differs. Blocks always have hashes, those of `clock.hash_of`. The gas limit covers the
transaction too (21,000 and its data), and refunds are at most a fifth, as on a chain. What is warm
stays warm. An account with code sends no ether. An error names the reason, not the line: with
`MENAGERIE_EVM=py-evm` in the environment, tests run on py-evm, which names the line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import boa
import pyrevm
from boa.contracts.vyper.vyper_contract import VyperContract, VyperFunction
from boa.environment import Env
from boa.util.abi import Address
from boa.vm.gas_meters import GasMeter
from boa.vm.py_evm import PyEVM
from eth._utils.address import generate_contract_address
from eth.exceptions import Revert, VMError
from eth.vm.forks.spurious_dragon.constants import EIP170_CODE_SIZE_LIMIT
from eth_utils import keccak, to_canonical_address, to_checksum_address

from tests.stage.contracts.system import ERROR_SELECTOR

BLOCK_GAS = 10**12
# Sends for an account with code, of which revm takes no transaction.
ENVOY = to_checksum_address(b"\xee" * 20)
_REVERTED = re.compile(r"output: 0x([0-9a-f]*)")
_GAS_USED = re.compile(r"gas_used: (\d+)")
_ACCOUNT = re.compile(r"(0x[0-9a-f]{40}): Account \{.*?storage: \{(.*?)\}, status: ", re.DOTALL)
_SLOT = re.compile(r"(\w+): StorageSlot \{ previous_or_original_value: \w+, present_value: (\w+)")


def _stand_in(shadow: str) -> bytes:
    """Code of an account that sends. Called by ENVOY, it calls the address in the first word with
    what follows; called by anybody else, it does what the code at `shadow` does."""
    is_envoy = b"\x33\x73" + to_canonical_address(ENVOY) + b"\x14\x60\x48\x57"
    delegate = b"\x36\x5f\x5f\x37\x5f\x5f\x36\x5f\x73" + to_canonical_address(shadow) + b"\x5a\xf4"
    # Byte 0x39: return what was returned, or revert with it.
    answer = b"\x5b\x3d\x5f\x5f\x3e\x60\x44\x57\x3d\x5f\xfd\x5b\x3d\x5f\xf3"
    # Byte 0x48.
    forward = (
        b"\x5b\x60\x20\x36\x03\x80\x60\x20\x5f\x37\x5f\x5f\x82\x5f\x5f\x5f\x35\x5a\xf1\x60\x39\x56"
    )
    return is_envoy + delegate + answer + forward


@dataclass
class Result:
    """What boa asks of a computation."""

    msg: SimpleNamespace
    output: bytes
    error: VMError | None
    gas_used: int
    logs: list[tuple[int, bytes, list[int], bytes]]
    children: tuple[()] = ()
    beneficiaries: tuple[()] = ()
    vyper_error_msg: str | None = None
    vyper_source_pos: None = None
    _gas_meter_class: type = GasMeter
    _contract_repr_before_revert: str = "a contract on revm"

    @property
    def is_error(self) -> bool:
        return self.error is not None

    @property
    def _log_entries(self) -> list[Any]:
        own = self.msg.code_address
        return [entry for entry in self.logs if entry[1] == own]

    def get_raw_log_entries(self) -> list[Any]:
        return self.logs

    def get_gas_used(self) -> int:
        return self.gas_used

    @property
    def net_gas_used(self) -> int:
        return self.gas_used

    @property
    def call_trace(self) -> Result:
        return self

    def __str__(self) -> str:
        return f"0x{self.msg.code_address.hex()}: {self.error!r}"


@dataclass
class _Chain:
    """A revm, and what it does not undo itself: code and nonces."""

    chain_id: int
    evm: pyrevm.EVM
    codes: dict[str, bytes] = field(default_factory=dict)
    nonces: dict[bytes, int] = field(default_factory=dict)

    def set_code(self, address: str, code: bytes) -> None:
        self.codes[address] = code
        self.evm.insert_account_info(address, pyrevm.AccountInfo(nonce=1, code=code))

    def storage(self) -> Iterator[tuple[str, int, int]]:
        """(address, slot, value) of everything that is stored."""
        for account, slots in _ACCOUNT.findall(self.evm.journal_str):
            for slot, value in _SLOT.findall(slots):
                yield account, int(slot, 0), int(value, 0)

    def other(self, chain_id: int) -> _Chain:
        """The same code and storage after a split of the chain."""
        other = _chain(chain_id)
        for address, code in self.codes.items():
            other.set_code(address, code)
        for address, slot, value in self.storage():
            other.evm.insert_account_storage(address, slot, value)
        other.nonces = dict(self.nonces)
        return other


def _chain(chain_id: int) -> _Chain:
    env = pyrevm.Env(cfg=pyrevm.CfgEnv(chain_id=chain_id))
    return _Chain(chain_id, pyrevm.EVM(env, gas_limit=BLOCK_GAS, spec_id="CANCUN"))


class Revm(PyEVM):
    """Boa's machine. Of py-evm it keeps the clock and the limits that `patch` sets."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._now = _chain(self.patch.chain_id)
        self._clock: tuple[int, int] = (0, 0)

    # State

    def snapshot(self) -> Any:
        now = self._now
        return now, now.evm.snapshot(), dict(now.codes), dict(now.nonces)

    def revert(self, snapshot_id: Any) -> None:
        self._now, checkpoint, codes, nonces = snapshot_id
        now, self._clock = self._now, (0, 0)
        now.evm.revert(checkpoint)
        for address in [a for a, code in now.codes.items() if codes.get(a) is not code]:
            now.set_code(address, codes.get(address, b""))
        now.codes, now.nonces = codes, nonces

    def generate_create_address(self, sender: Address) -> Address:
        creator, nonces = sender.canonical_address, self._now.nonces
        nonces[creator] = nonces.get(creator, 0) + 1
        return Address(generate_contract_address(creator, nonces[creator] - 1))

    def get_code(self, address: Address) -> bytes:
        return self._now.codes.get(str(address), b"")

    def set_code(self, address: Address, code: bytes) -> None:
        self._now.set_code(str(address), bytes(code))

    def get_storage(self, address: Address, slot: int) -> int:
        return int(self._now.evm.storage(str(address), slot))

    def get_storage_slot(self, address: Address, slot: int) -> bytes:
        return self.get_storage(address, slot).to_bytes(32, "big")

    def set_storage(self, address: Address, slot: int, value: int) -> None:
        self._now.evm.insert_account_storage(str(address), slot, value)

    def get_balance(self, address: Address) -> int:
        return int(self._now.evm.get_balance(str(address)))

    def set_balance(self, address: Address, value: int) -> None:
        self._now.evm.set_balance(str(address), value)

    def reset_access_counters(self) -> None:
        raise NotImplementedError("revm keeps warm what was touched since the last anchor")

    # Calls

    def deploy_code(
        self,
        sender: Address,
        origin: Address,
        target_address: Address,
        gas: int | None,
        gas_price: int,
        value: int,
        bytecode: bytes,
    ) -> Result:
        """Runs the constructor as the code of the address, which is what it sees of a creation."""
        at = str(target_address)
        before = self._now.codes.get(at, b"")
        self._now.set_code(at, bytecode)
        result = self._run(sender, target_address, gas, value, b"", False)
        if not result.is_error and len(result.output) > EIP170_CODE_SIZE_LIMIT:
            result.error = VMError(f"{len(result.output)} bytes of code")
        self._now.set_code(at, before if result.is_error else result.output)
        return result

    def execute_code(
        self,
        sender: Address,
        to: Address,
        gas: int,
        gas_price: int,
        value: int,
        bytecode: bytes,
        data: bytes,
        is_static: bool,
        fake_codesize: int | None,
        start_pc: int,
        ir_executor: Any,
        contract: Any,
    ) -> Result:
        kept = self._now.codes.get(str(to), b"")
        if bytecode == kept:
            return self._run(sender, to, gas, value, data, is_static)
        self._now.set_code(str(to), bytecode)  # a statement that boa evaluates in a contract
        try:
            return self._run(sender, to, gas, value, data, is_static)
        finally:
            self._now.set_code(str(to), kept)

    def _run(
        self, sender: Address, to: Address, gas: int | None, value: int, data: bytes, static: bool
    ) -> Result:
        patch = self.patch
        if patch.chain_id != self._now.chain_id:
            self._now, self._clock = self._now.other(patch.chain_id), (0, 0)
        now = self._now
        clock = patch.block_number, patch.timestamp
        if clock != self._clock:
            self._clock = clock
            now.evm.set_block_env(
                pyrevm.BlockEnv(number=clock[0], timestamp=clock[1], gas_limit=BLOCK_GAS)
            )
        code = now.codes.get(str(sender))
        call = {"value": value, "gas": gas or patch.gas_limit, "is_static": static}
        if not code:
            return self._sent(str(sender), to, data, call)
        assert value == 0, "an account with code sends no ether here"
        shadow = to_checksum_address(keccak(to_canonical_address(str(sender)))[:20])
        now.set_code(shadow, code)
        now.set_code(str(sender), _stand_in(shadow))
        try:
            whole = to.canonical_address.rjust(32, b"\0") + data
            return self._sent(ENVOY, Address(sender), whole, call, to)
        finally:
            now.set_code(str(sender), code)

    def _sent(
        self,
        caller: str,
        to: Address,
        data: bytes,
        call: dict[str, Any],
        code_address: Address | None = None,
    ) -> Result:
        evm = self._now.evm
        error: VMError | None = None
        detail = None
        try:
            output = bytes(evm.message_call(caller=caller, to=str(to), calldata=data, **call))
            used = evm.result.gas_used
        except RuntimeError as problem:
            text = str(problem)
            found = _REVERTED.search(text)
            output = bytes.fromhex(found[1]) if found else b""
            error = Revert(output) if found else VMError(text)
            gas = _GAS_USED.search(text)
            used = int(gas[1]) if gas else 0
            named = output[:4] == ERROR_SELECTOR
            detail = "user revert with reason" if named else None
        zeros = data.count(0)
        logs = [] if error else [_entry(i, log) for i, log in enumerate(evm.result.logs)]
        msg = SimpleNamespace(
            code_address=(code_address or to).canonical_address, data=data, is_create=False
        )
        overhead = 21_000 + 16 * (len(data) - zeros) + 4 * zeros
        return Result(msg, output, error, max(0, used - overhead), logs, vyper_error_msg=detail)


def _entry(number: int, log: Any) -> tuple[int, bytes, list[int], bytes]:
    topics, data = log.data
    numbers = [int.from_bytes(topic, "big") for topic in topics]
    return number, to_canonical_address(log.address), numbers, bytes(data)


class RevmEnv(Env):
    def __init__(self) -> None:
        super().__init__()
        self.evm = Revm(self)
        self.nickname = "revm"


def use_revm() -> None:
    """From here on, boa's contracts are deployed and called on revm."""
    # Boa maps the bytes of a contract to its lines at each deployment and before its first call.
    # Only py-evm's errors need that, and `VyperContract.source_map` makes it when it is asked.
    VyperContract._deployment_source_map = None
    VyperFunction._source_map = None
    if os.environ.get("MENAGERIE_EVM") != "py-evm" and boa.env.nickname != "revm":
        boa.set_env(RevmEnv())
