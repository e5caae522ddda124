# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Bonds
@custom:contract-name bonds
@license AGPL-3.0-only
@notice Bonds of challengers and appellants, and whatever else is held for people. An amount enters
        by `transferFrom` and leaves only as a pull credit: a bond as that of its payer when it was
        right or nobody decided, of the treasury when it was wrong. No push payment, so no receiver
        can block a decision.
@dev `_take` and `_credit` are unguarded: the importer credits each bond it took exactly once. The
     importer's token balance is always at least `bonds_held`.
"""

from ethereum.ercs import IERC20
from interfaces import IBonds

_TOKEN: immutable(IERC20)

_credits: HashMap[address, uint256]
# Open bonds and credits together: every unit this contract owes.
_held: uint256


@deploy
def __init__(token: address):
    """
    @notice Fixes the token bonds are paid in.
    @dev Reverts: "bonds: zero address".
    @param token An ERC-20 without fees on transfer.
    """
    assert token != empty(address), "bonds: zero address"
    _TOKEN = IERC20(token)


@external
def withdraw_bond() -> uint256:
    """
    @notice Anyone with a credit: takes out every bond credited to the caller.
    @dev Reverts: "bonds: nothing to withdraw", "bonds: transfer failed".
    @return uint256 The amount paid.
    """
    amount: uint256 = self._credits[msg.sender]
    assert amount != 0, "bonds: nothing to withdraw"
    self._credits[msg.sender] = 0
    self._held -= amount
    log IBonds.BondWithdrawn(account=msg.sender, amount=amount)
    assert extcall _TOKEN.transfer(
        msg.sender, amount, default_return_value=True
    ), "bonds: transfer failed"
    return amount


@view
@external
def bond_credit(account: address) -> uint256:
    """
    @notice What `account` may withdraw.
    @param account Any address.
    @return uint256 The amount.
    """
    return self._credits[account]


@view
@external
def bonds_held() -> uint256:
    """
    @notice Every unit held for bonds: the open ones and the credits not withdrawn yet.
    @return uint256 The amount.
    """
    return self._held


@internal
def _take(account: address, amount: uint256):
    """
    @notice Takes a bond from `account`, which must have approved this contract.
    @dev Reverts: "bonds: transfer failed", and the token's own reasons.
    @param account Who pays.
    @param amount The bond.
    """
    self._held += amount
    log IBonds.BondTaken(account=account, amount=amount)
    assert extcall _TOKEN.transferFrom(
        account, self, amount, default_return_value=True
    ), "bonds: transfer failed"


@internal
def _take_credit_first(account: address, amount: uint256):
    """
    @notice As `_take`, but what is credited to `account` already is used first.
    @dev Reverts as `_take`.
    @param account Who pays.
    @param amount The bond.
    """
    used: uint256 = min(self._credits[account], amount)
    if used != 0:
        self._credits[account] -= used
        log IBonds.BondCreditUsed(account=account, amount=used)
    if used != amount:
        self._take(account, amount - used)


@internal
def _receive(amount: uint256):
    """
    @notice Counts tokens that reached this contract on another way; the importer credits them.
    @param amount How many.
    """
    self._held += amount


@internal
def _credit(account: address, amount: uint256):
    """
    @notice Ends a bond: `account` may withdraw it from now on.
    @param account Who is owed the bond now.
    @param amount The bond.
    """
    self._credits[account] += amount
    log IBonds.BondCredited(account=account, amount=amount)
