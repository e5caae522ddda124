# SPDX-License-Identifier: Apache-2.0
"""The errors an agent's runtime raises.

Rule: each message is a sentence saying what was wrong, where, and what to do; the loop decides by
type alone whether to wait, to carry on or to stop.
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of every error raised by `agents.runtime`."""


class ConfigError(AgentError):
    """A setting, deployment file or chain id is wrong. Waiting cannot help: the agent stops."""


class WalletError(AgentError):
    """A keystore is missing, malformed, or its passphrase is wrong. The agent stops."""


class JournalError(AgentError):
    """The journal is corrupted, in use by another process, or cannot be read. The agent stops."""


class JournalFull(JournalError):
    """The disk refused a write that a commitment needs first. Waiting may help."""


class RpcDown(AgentError):
    """The RPC node did not answer within the bounded number of tries. Waiting may help."""


class RpcRefused(AgentError):
    """The RPC node answered with an error that is not a revert.

    `code` is the JSON-RPC error code, `detail` the node's own words.
    """

    def __init__(self, method: str, code: int, detail: str) -> None:
        super().__init__(f"The RPC node refused {method}: {detail} (code {code}).")
        self.code = code
        self.detail = detail


class Reverted(AgentError):
    """A contract refused the call. `reason` is its own string, such as "rounds: not committed"."""

    def __init__(self, reason: str, call: str = "", tx_hash: str | None = None) -> None:
        where = f" in transaction {tx_hash}" if tx_hash else ""
        super().__init__(f"{call or 'The call'} reverted{where}: {reason}.")
        self.reason = reason
        self.call = call
        self.tx_hash = tx_hash


class TxRefused(AgentError):
    """The node will not take a transaction, and a higher fee or another nonce would not help."""


class Stopped(AgentError):
    """A wait ended because the agent was asked to stop."""
