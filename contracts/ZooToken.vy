# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title ZooToken
@license AGPL-3.0-only
@notice ZOO, the token of stakes and rewards: an ERC-20 with EIP-2612 permit whose whole supply is
        made in the constructor. The minting and ownership functions of the underlying module
        aren't exported, so nobody, the deployer included, can ever make another unit.
@custom:kill The token can't be stopped: it has no owner and no pause. Contracts that hold it have
             their own switches; a holder may destroy its own units with `burn`.
"""

from interfaces import IZooToken

implements: IZooToken

from snekmate.auth import ownable
from snekmate.tokens import erc20

initializes: ownable
initializes: erc20[ownable := ownable]

exports: (
    erc20.name,
    erc20.symbol,
    erc20.decimals,
    erc20.totalSupply,
    erc20.balanceOf,
    erc20.allowance,
    erc20.transfer,
    erc20.transferFrom,
    erc20.approve,
    erc20.burn,
    erc20.burn_from,
    erc20.permit,
    erc20.nonces,
    erc20.DOMAIN_SEPARATOR,
    erc20.eip712Domain,
)


@deploy
def __init__(holder_: address, supply_: uint256):
    """
    @notice Makes the whole supply and gives it to `holder_`.
    @dev The modules note the deployer as owner and minter; both are revoked here, although no
         exported function reads them. Reverts: "zoo: empty supply", "erc20: mint to the
         zero address".
    @param holder_ The address that receives the supply.
    @param supply_ The units made, 18 decimals.
    """
    assert supply_ != 0, "zoo: empty supply"
    ownable.__init__()
    erc20.__init__("Zoo", "ZOO", 18, "Zoo", "1")
    erc20.is_minter[msg.sender] = False
    log erc20.RoleMinterChanged(minter=msg.sender, status=False)
    ownable._transfer_ownership(empty(address))
    erc20._mint(holder_, supply_)
