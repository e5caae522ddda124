# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy on
"""
@title Lens
@license AGPL-3.0-only
@notice Answers many views of other contracts in one call. An agent that reads a round asks one
        `eth_call` at one block's hash instead of a dozen, where a provider bills each.

        Rules this contract holds:
        - Every question is a static call, so nothing is written whatever is asked of whom.
        - It holds no state, no right and no money. No other contract knows of it: whoever trusts
          its own RPC node may ask the views one by one and gets the same answers.
        - An answer that would be longer than 8,192 bytes is cut there. One of exactly that length
          is therefore asked again alone.
        - A view that fails without a reason may have run out of the gas that was left to it. It is
          asked again alone too.

        snekmate's `multicall` module is of this kind but keeps 255 bytes of an answer; a node's
        record has 512.
@custom:kill Nothing can be stopped, because nothing happens: a deployment without this contract
             works as well, with more calls.
"""

from interfaces import ILens

implements: ILens

MOST_ANSWER: constant(uint256) = 8_192


@view
@external
def read(questions: DynArray[ILens.Question, 32]) -> DynArray[ILens.Answer, 32]:
    """
    @notice Anyone: asks views of any contracts. A question that reverts does not stop the others.
    @param questions Whom to ask what, at most 32.
    @return DynArray[ILens.Answer, 32] One answer a question, in their order; empty and successful
            where there is no contract.
    """
    answers: DynArray[ILens.Answer, 32] = []
    for question: ILens.Question in questions:
        success: bool = False
        data: Bytes[8192] = b""
        success, data = raw_call(
            question.target,
            question.data,
            max_outsize=MOST_ANSWER,
            is_static_call=True,
            revert_on_failure=False,
        )
        answers.append(ILens.Answer(success=success, data=data))
    return answers
