# SPDX-License-Identifier: Apache-2.0
"""A browser wallet that the page cannot know: fresh keys behind EIP-6963 and EIP-1193.

It announces itself as any wallet does, and signs here, in Python, with its own count of nonces.
What a person would do in its window is done by the test: unlock, choose accounts, switch chains,
reject, speed up, cancel, leave a question open. With `eip1559` False it and its node know nothing
of base fees.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import requests
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from playwright.sync_api import Page

REJECTED = {"code": 4001, "message": "User rejected the request."}
LOCKED = {"code": 4100, "message": "The account has not been authorized by the user."}
_UNKNOWN_CHAIN = {"code": 4902, "message": "Unrecognized chain ID."}
_NO_METHOD = {"code": -32601, "message": "the method does not exist"}
_AWAY = {"code": -32603, "message": "Failed to fetch"}
_OTHER_CHAIN = {"code": -32602, "message": "The transaction is for another chain."}
_TIP = 10**9
_TIMEOUT_S = 120.0

_SCRIPT = """
(() => {
  const INFO = %(info)s;
  const call = (method, params = []) => window[%(binding)s](JSON.stringify({ method, params }));
  const listeners = {};
  const provider = Object.freeze({
    async request({ method, params }) {
      const answer = JSON.parse(await call(method, params));
      if (answer.open) return new Promise(() => {});
      if (answer.error) throw Object.assign(new Error(answer.error.message), answer.error);
      return answer.result;
    },
    on(event, listener) { (listeners[event] ??= new Set()).add(listener); return provider; },
    removeListener(event, listener) { listeners[event]?.delete(listener); return provider; },
  });
  window[%(emitter)s] = (event, value) => {
    for (const listener of listeners[event] ?? []) listener(value);
  };
  const announce = () => window.dispatchEvent(new CustomEvent("eip6963:announceProvider",
    { detail: Object.freeze({ info: INFO, provider }) }));
  window.addEventListener("eip6963:requestProvider", announce);
  announce();
})();
"""


class WalletError(Exception):
    """What the wallet answers with instead of a result."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


class _Open(Exception):
    """The question stays open: its page gets no answer."""


class Wallet:
    """`chains`: RPC address by chain id; the wallet shows the first of them."""

    def __init__(
        self,
        chains: dict[int, str],
        accounts: Sequence[LocalAccount] = (),
        *,
        name: str = "Fern",
        eip1559: bool = True,
    ) -> None:
        self.accounts = list(accounts) or [Account.create()]
        self.chains = dict(chains)
        self.chain_id = next(iter(chains))
        self.name = name
        self.eip1559 = eip1559
        self.locked = False
        self.away = False
        self.connected = False
        self.switches = True
        self.leaves_open = False
        self.open: list[dict[str, Any]] = []
        self.accept: Callable[[str, Any], bool] = lambda method, wanted: True
        self.asked: list[tuple[str, Any]] = []
        self.sent: list[str] = []
        self._signed: dict[str, tuple[LocalAccount, dict[str, Any]]] = {}
        self._nonces: dict[str, int] = {}
        self._id = uuid.uuid4().hex
        self._pages: list[Page] = []

    # The wallet's window

    def install(self, page: Page) -> None:
        """Put the wallet into a page, before the page's own scripts run."""
        page.expose_function(f"__{self._id}", self._answer)
        info = {
            "uuid": str(uuid.uuid4()),
            "name": self.name,
            "icon": "data:image/svg+xml,<svg/>",
            "rdns": f"test.{self.name.lower()}",
        }
        page.add_init_script(
            _SCRIPT
            % {
                "info": json.dumps(info),
                "binding": json.dumps(f"__{self._id}"),
                "emitter": json.dumps(f"__emit_{self._id}"),
            }
        )
        self._pages.append(page)

    @property
    def address(self) -> str:
        """The account that the wallet shows first."""
        return str(self.accounts[0].address)

    def lock(self) -> None:
        """Lock it: pages see no account any more."""
        self.locked = True
        self._emit("accountsChanged", [])

    def unlock(self) -> None:
        """Unlock it."""
        self.locked = False
        self._emit("accountsChanged", self._visible())

    def choose(self, account: LocalAccount) -> None:
        """Show another account first."""
        self.accounts.remove(account)
        self.accounts.insert(0, account)
        self._emit("accountsChanged", self._visible())

    def speed_up(self, tx_hash: str) -> str:
        """Send the same transaction again with twice the fee."""
        account, tx = self._signed[tx_hash]
        return self._send(account, self._dearer(tx))

    def cancel(self, tx_hash: str) -> str:
        """Put an empty transaction in the place of one that is not mined."""
        account, tx = self._signed[tx_hash]
        empty = {**tx, "to": account.address, "value": 0, "data": "0x", "gas": 21_000}
        return self._send(account, self._dearer(empty))

    def replace(self, tx_hash: str, to: str, value: int) -> str:
        """Put another transaction in the place of one that is not mined."""
        account, tx = self._signed[tx_hash]
        other = {**tx, "to": to, "value": value, "data": "0x", "gas": 21_000}
        return self._send(account, self._dearer(other))

    def confirm(self) -> str:
        """Confirm the transaction whose question was left open; its page may be gone by now."""
        wanted = self.open.pop(0)
        return self._sign_and_send(self._account(wanted["from"]), wanted)

    def skip_nonce(self) -> None:
        """Leave the next nonce to a transaction of the same key that was signed elsewhere."""
        count = int(self.rpc("eth_getTransactionCount", self.address, "latest"), 16)
        self._nonces[self.address] = count + 1

    # What pages ask

    def _answer(self, body: str) -> str:
        wanted = json.loads(body)
        try:
            result = self._request(wanted["method"], wanted["params"])
        except WalletError as error:
            return json.dumps({"error": error.error})
        except _Open:
            return json.dumps({"open": True})
        return json.dumps({"result": result})

    def _request(self, method: str, params: list[Any]) -> Any:
        if method == "eth_requestAccounts":
            if self.locked:
                raise WalletError(REJECTED)
            self._ask(method, None)
            self.connected = True
            return self._visible()
        if method == "eth_accounts":
            return self._visible()
        if method == "eth_chainId":
            return hex(self.chain_id)
        if method == "wallet_switchEthereumChain":
            return self._switch(int(params[0]["chainId"], 16))
        if method == "wallet_addEthereumChain":
            self._ask(method, params[0])
            self.chains[int(params[0]["chainId"], 16)] = params[0]["rpcUrls"][0]
            return None
        if method == "eth_sendTransaction":
            return self._send_wanted(params[0])
        if method == "eth_signTypedData_v4":
            return self._sign_typed(params[0], json.loads(params[1]))
        return self._read(method, params)

    def _read(self, method: str, params: list[Any]) -> Any:
        if not self.eip1559 and method in ("eth_maxPriorityFeePerGas", "eth_feeHistory"):
            raise WalletError(_NO_METHOD)
        result = self.rpc(method, *params)
        if not self.eip1559 and isinstance(result, dict):
            result.pop("baseFeePerGas", None)
        return result

    def rpc(self, method: str, *params: Any) -> Any:
        """Ask the wallet's own node. Raises WalletError with what the node refuses."""
        if self.away:
            raise WalletError(_AWAY)
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        try:
            answer = requests.post(self.chains[self.chain_id], json=body, timeout=_TIMEOUT_S).json()
        except requests.RequestException:
            raise WalletError(_AWAY) from None
        if "error" in answer:
            raise WalletError(answer["error"])
        return answer["result"]

    def _visible(self) -> list[str]:
        if self.locked or not self.connected:
            return []
        return [account.address.lower() for account in self.accounts]

    def _ask(self, method: str, wanted: Any) -> None:
        self.asked.append((method, wanted))
        if not self.accept(method, wanted):
            raise WalletError(REJECTED)

    def _account(self, address: str) -> LocalAccount:
        found = [a for a in self.accounts if a.address.lower() == address.lower()]
        if self.locked or not self.connected or not found:
            raise WalletError(LOCKED)
        return found[0]

    def _switch(self, chain_id: int) -> None:
        if chain_id not in self.chains:
            raise WalletError(_UNKNOWN_CHAIN)
        self._ask("wallet_switchEthereumChain", chain_id)
        self.chain_id = chain_id
        self._emit("chainChanged", hex(chain_id))

    def _sign_typed(self, address: str, typed: dict[str, Any]) -> str:
        account = self._account(address)
        if int(typed["domain"]["chainId"]) != self.chain_id:
            raise WalletError({"code": -32602, "message": "The data is for another chain."})
        self._ask("eth_signTypedData_v4", typed)
        message = encode_typed_data(full_message=typed)
        return "0x" + bytes(account.sign_message(message).signature).hex()

    def _send_wanted(self, wanted: dict[str, Any]) -> str:
        account = self._account(wanted["from"])
        self._ask("eth_sendTransaction", wanted)
        if int(wanted.get("chainId", hex(self.chain_id)), 16) != self.chain_id:
            raise WalletError(_OTHER_CHAIN)
        if self.leaves_open:
            self.open.append(wanted)
            raise _Open
        return self._sign_and_send(account, wanted)

    def _sign_and_send(self, account: LocalAccount, wanted: dict[str, Any]) -> str:
        # Somebody may have used the key elsewhere; what this wallet has sent counts too.
        count = int(self.rpc("eth_getTransactionCount", account.address, "latest"), 16)
        self._nonces[account.address] = max(count, self._nonces.get(account.address, 0))
        tx: dict[str, Any] = {
            "chainId": self.chain_id,
            "nonce": self._nonces[account.address],
            "to": self._checksummed(wanted["to"]),
            "data": wanted.get("data", "0x"),
            "value": int(wanted.get("value", "0x0"), 16),
            "gas": int(wanted["gas"], 16),
        }
        price = int(self.rpc("eth_gasPrice"), 16)
        if self.eip1559:
            tx |= {
                "type": 2,
                "maxFeePerGas": 2 * price + _TIP,
                "maxPriorityFeePerGas": _TIP,
            }
        else:
            tx |= {"gasPrice": 2 * price}
        tx_hash = self._send(account, tx)
        self._nonces[account.address] += 1
        return tx_hash

    @staticmethod
    def _checksummed(address: str) -> str:
        from eth_utils import to_checksum_address

        return str(to_checksum_address(address))

    @staticmethod
    def _dearer(tx: dict[str, Any]) -> dict[str, Any]:
        fees = ("gasPrice", "maxFeePerGas", "maxPriorityFeePerGas")
        return {name: 2 * value if name in fees else value for name, value in tx.items()}

    def _send(self, account: LocalAccount, tx: dict[str, Any]) -> str:
        raw = account.sign_transaction(tx).raw_transaction
        tx_hash = str(self.rpc("eth_sendRawTransaction", "0x" + raw.hex()))
        self._signed[tx_hash] = (account, tx)
        self.sent.append(tx_hash)
        return tx_hash

    def _emit(self, event: str, value: Any) -> None:
        emitter = f"__emit_{self._id}"
        for page in self._pages:
            if not page.is_closed():
                page.evaluate(
                    "([name, event, value]) => window[name]?.(event, value)",
                    [emitter, event, value],
                )
