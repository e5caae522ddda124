# SPDX-License-Identifier: Apache-2.0
"""What the search is known to find, and the item that mends it. This table may only shrink: whoever
mends an item takes out its rows, and a cause that is not here fails the test.

The items are those of the hostile reading of the contracts ("No profitable lie on chain")."""

KNOWN: dict[str, str] = {
    # A verifier adds stake, asks for a verdict on a task, and is two thirds of the snapshot.
    "false verdict on a task": "2",
    "wrong result of a task stands": "2",
    "appeal lapsed": "2",
    "honest node slashed: COLLUSION": "2",
    "honest node slashed: REDUNDANCY_MISMATCH": "2",
    # A verifier adds stake, opens a round, and confirms its own reports or its friend's result.
    "right work found invalid": "3",
    "wrong result final": "3",
    # A job's bond is more than anybody has.
    "wrong result final: nobody could pay the bond": "4",
    # Challenges until nobody decides, which nobody is paid for.
    "round void with right work in it: dispute not resolved": "6",
    # The offender names its finder's address as its own.
    "bounty missing: NO_REVEAL": "7",
    "bounty missing: INVALID": "7",
    "bounty missing: COPIED": "7",
    "bounty missing: BAD_RESULT": "7",
    "bounty missing: FALSE_REPORT": "7",
    # Draws that come to nothing, and who closes them is paid.
    "honest task undecided": "9",
    # Scores that a part of the verifiers dictates.
    "paid by scores": "11",
}
