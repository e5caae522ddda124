# SPDX-License-Identifier: Apache-2.0
"""Sends a deployment, from a plan that survives the sender.

Rule: deployer and first nonce fix every address. A plan that is kept on disk before the first
transaction is therefore all that is needed to go on: what has code at its address is done, the
next contract has the next nonce, and a key that sent something else meanwhile is found out.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eth_utils import to_checksum_address
from hexbytes import HexBytes
from web3 import Web3
from web3.contract.contract import ContractConstructor
from web3.exceptions import ContractLogicError, TimeExhausted, Web3RPCError
from web3.types import Nonce, TxParams

from agents.runtime.chain import NO_REASON, revert_reason
from agents.storage.durable import write_atomic
from scripts._net.compiled import Artefact, compile_contracts
from scripts._net.deployment import (
    ORDER,
    ZERO,
    Deployed,
    DeploymentError,
    DeploymentSettings,
    check_deployment,
    constructor_arguments,
    create_address,
)

Send = Callable[[TxParams], HexBytes]
"""Signs and broadcasts a transaction of the deployer; returns its hash."""

MINED_S = 600.0  # that a transaction may take to be mined
# Gas of a constructor that can't be estimated before its neighbours exist: so much more, in
# proportion to its size, than the dearest of those that can. Every creation costs the base besides
# (21,000 for the transaction and 32,000 for the contract), however small it is.
_UNKNOWN = 1.25
_BASE = 53_000


@dataclass(frozen=True)
class Plan:
    """A deployment that has begun, or is about to. `nonce`: of the first contract's transaction.

    `block`: the newest block when it was planned; no event of the contracts lies before it.
    """

    chain_id: int
    deployer: str
    nonce: int
    block: int
    settings: DeploymentSettings
    artefacts: Mapping[str, Artefact] = field(repr=False)

    @property
    def addresses(self) -> dict[str, str]:
        """Where each contract will lie."""
        return {name: create_address(self.deployer, self.nonce + i) for i, name in enumerate(ORDER)}

    def constructor(self, w3: Web3, name: str) -> ContractConstructor:
        """Return a contract's constructor with its arguments."""
        artefact = self.artefacts[name]
        factory = w3.eth.contract(abi=artefact.abi, bytecode=HexBytes(artefact.bytecode))
        arguments = constructor_arguments(self.settings, self.addresses, self.artefacts)[name]
        return factory.constructor(*arguments)

    def digest(self) -> str:
        """Return what tells this deployment from one with other settings or other contracts."""
        code = {name: artefact.bytecode for name, artefact in self.artefacts.items()}
        text = json.dumps([repr(self.settings), code], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def planned(
    w3: Web3,
    deployer: str,
    settings: DeploymentSettings,
    artefacts: Mapping[str, Artefact] | None = None,
) -> Plan:
    """Return a new plan, from the deployer's next nonce on."""
    deployer = to_checksum_address(deployer)
    return Plan(
        chain_id=w3.eth.chain_id,
        deployer=deployer,
        nonce=w3.eth.get_transaction_count(deployer, "pending"),
        block=w3.eth.block_number,
        settings=settings,
        artefacts=artefacts or compile_contracts(),
    )


def keep(plan: Plan, path: Path) -> None:
    """Write down what another run needs to go on; on disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: getattr(plan, name) for name in ("chain_id", "deployer", "nonce", "block")}
    write_atomic(path, json.dumps({**kept, "digest": plan.digest()}).encode(), mode=0o644)


def resumed(plan: Plan, path: Path) -> Plan:
    """Return the plan that `path` holds. `plan`: what would be begun now.

    Raises DeploymentError when the file is damaged or of another deployment than `plan`.
    """
    anew = f"Give the same settings and account as then, or remove {path} to begin anew."
    try:
        kept: dict[str, Any] = json.loads(path.read_bytes())
        found = Plan(
            int(kept["chain_id"]),
            str(kept["deployer"]),
            int(kept["nonce"]),
            int(kept["block"]),
            plan.settings,
            plan.artefacts,
        )
        digest = str(kept["digest"])
    except (ValueError, KeyError, TypeError) as error:
        raise DeploymentError(f"{path} holds no unfinished deployment: {error}.") from None
    if (found.chain_id, found.deployer) != (plan.chain_id, plan.deployer):
        raise DeploymentError(
            f"{path} holds an unfinished deployment of {found.deployer} on chain "
            f"{found.chain_id}. {anew}"
        )
    if digest != plan.digest():
        raise DeploymentError(
            f"{path} holds an unfinished deployment with other settings or contracts. {anew}"
        )
    return found


def missing(w3: Web3, plan: Plan) -> list[str]:
    """Return the contracts that are not on chain yet, in order."""
    at = plan.addresses
    return [name for name in ORDER if not w3.eth.get_code(to_checksum_address(at[name]))]


def estimated(w3: Web3, plan: Plan) -> dict[str, int]:
    """Return the gas of each contract that is missing, as the node estimates it.

    A constructor that asks a neighbour can't be estimated before that one exists: it counts by its
    size, at a quarter more than the dearest of the others. Raises DeploymentError for settings
    that a constructor refuses, and for a source of randomness without code, which none does.
    """
    source = to_checksum_address(plan.settings.random_source)
    if source != ZERO and not w3.eth.get_code(source):
        raise DeploymentError(
            f"The source of randomness {source} is no contract on chain {plan.chain_id}: no round "
            "would ever get a seed, and the contracts keep their source for good."
        )
    names = missing(w3, plan)
    codes = {name: HexBytes(plan.constructor(w3, name).data_in_transaction) for name in names}
    found: dict[str, int] = {}
    for name in names:
        if (gas := _gas(w3, plan, name, codes[name])) is not None:
            found[name] = gas
    dearest = max(((gas - _BASE) / len(codes[name]) for name, gas in found.items()), default=0.0)
    return {
        name: found.get(name) or _BASE + int(_UNKNOWN * dearest * len(codes[name]))
        for name in names
    }


def deploy(
    w3: Web3,
    deployer: str,
    send: Send,
    settings: DeploymentSettings,
    artefacts: Mapping[str, Artefact] | None = None,
    progress: Callable[[str, str], None] = lambda name, address: None,
) -> Deployed:
    """Plan a deployment and carry it out in one go. Raises DeploymentError."""
    return carry_out(w3, planned(w3, deployer, settings, artefacts), send, progress)


def carry_out(
    w3: Web3,
    plan: Plan,
    send: Send,
    progress: Callable[[str, str], None] = lambda name, address: None,
) -> Deployed:
    """Send what is missing, check everything against the settings, and return it.

    `progress` is called with each contract's name and address. Raises DeploymentError.
    """
    at, left = plan.addresses, missing(w3, plan)
    for index, name in enumerate(ORDER):
        if name in left:
            _create(w3, plan, index, send)
        progress(name, at[name])
    deployed = Deployed(plan.chain_id, plan.block, plan.deployer, at, plan.artefacts)
    check_deployment(w3, deployed, plan.settings)
    return deployed


def _create(w3: Web3, plan: Plan, index: int, send: Send) -> None:
    name, nonce = ORDER[index], plan.nonce + index
    address = plan.addresses[name]
    lost = DeploymentError(
        f"{name} was to be created at {address} by transaction {nonce} of {plan.deployer}, and was "
        "not. Deploy from a key that sends nothing else meanwhile."
    )
    count = w3.eth.get_transaction_count
    if count(to_checksum_address(plan.deployer), "latest") > nonce:
        raise lost
    if count(to_checksum_address(plan.deployer), "pending") > nonce:
        _await_code(w3, name, address)  # an earlier run has sent it
        return
    tx: TxParams = {
        "from": to_checksum_address(plan.deployer),
        "nonce": Nonce(nonce),
        "chainId": plan.chain_id,
    }
    try:
        tx = plan.constructor(w3, name).build_transaction(tx)
        tx_hash = send(tx)
    except ContractLogicError as error:
        raise DeploymentError(f"The constructor of {name} refused: {_words(error)}.") from None
    except Web3RPCError as error:
        raise DeploymentError(f"The node refused {name}: {_reason(error)}.") from None
    try:
        receipt = w3.eth.wait_for_transaction_receipt(tx_hash, timeout=MINED_S, poll_latency=0.1)
    except TimeExhausted:
        raise _not_mined(name) from None
    if receipt["status"] != 1 or receipt["contractAddress"] != address:
        raise lost


def _await_code(w3: Web3, name: str, address: str) -> None:
    end = time.monotonic() + MINED_S
    while not w3.eth.get_code(to_checksum_address(address)):
        if time.monotonic() > end:
            raise _not_mined(name)
        time.sleep(0.5)


def _not_mined(name: str) -> DeploymentError:
    return DeploymentError(
        f"The transaction that creates {name} was not mined within {MINED_S / 60:g} minutes."
    )


def _gas(w3: Web3, plan: Plan, name: str, code: HexBytes) -> int | None:
    """None for a constructor whose neighbours are missing: calling them reverts without a word."""
    try:
        return w3.eth.estimate_gas({"from": to_checksum_address(plan.deployer), "data": code})
    except ContractLogicError as error:
        if (words := _words(error)) != NO_REASON:
            raise DeploymentError(f"The constructor of {name} refused: {words}.") from None
        return None
    except Web3RPCError:
        return None


def _words(error: ContractLogicError) -> str:
    """The contract's own reason, whatever the node's client says around it."""
    data = error.data.get("data") if isinstance(error.data, dict) else error.data
    if data is None:
        return revert_reason(b"", error.message or "")
    try:
        return revert_reason(bytes.fromhex(data.removeprefix("0x")), "")
    except ValueError:  # web3.py's own words for no data
        return NO_REASON


def _reason(error: Web3RPCError) -> str:
    detail = (error.rpc_response or {}).get("error", {})
    return str(detail.get("message", error) if isinstance(detail, dict) else detail)
