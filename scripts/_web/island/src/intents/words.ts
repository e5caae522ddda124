// SPDX-License-Identifier: Apache-2.0
// What a reader is told of an intent that is carried out: what went wrong, and what to do about it.

import { type Hex, isRpcError } from "../chain/provider";
import type { Fate } from "../chain/track";
import { Refusal } from "../refusal";

/** What a wallet says whose user rejects. */
export const REJECTED = 4001;

export const LOST =
  "Your wallet was asked for this, and its answer was lost when the page was left. If it still asks, answer it there first. Then continue here: what it has sent is found, and what it has not is asked for again.";

/** Of an account that has sent something that nobody knows. */
export function unseen(account: Hex): Refusal {
  return new Refusal(
    `Your wallet was asked for this, and its answer was lost when the page was left. ${account} has sent something since that this page can't see yet, or not any more.`,
    "It may be this: look in the wallet. If it waits there, try again once it is mined; if it was something else, close this and begin again.",
  );
}

/** Where a transaction stands. `chainId`: of the chain that it was sent to. */
export function standing(fate: Fate, chainId: number): string {
  const block = "receipt" in fate ? Number(fate.receipt.blockNumber) : 0;
  return {
    sent: "Sent. Waiting for a block.",
    slow: `Still waiting${"seconds" in fate ? ` after ${fate.seconds} seconds` : ""}. Your wallet can speed it up or cancel it; this page notices either.`,
    unknown: "Your wallet's node does not know it any more. Have the wallet send it again, or wait: nothing is signed twice.",
    offline: "Your wallet's node does not answer. Nothing is lost: this page goes on asking.",
    elsewhere: `Your wallet shows another chain. Nothing is lost: this goes on once it shows chain ${chainId} again.`,
    done: `Done in block ${block}${"repriced" in fate && fate.repriced ? ", with another fee than at first" : ""}.`,
    failed: `It was mined in block ${block} and failed.`,
    cancelled: "You cancelled it in the wallet: an empty transaction took its place.",
    replaced: "Another transaction of this account took its place, so it will never be mined.",
    reorged: "A reorganisation took it out of the chain again. Waiting until it comes back.",
  }[fate.state];
}

/** Of a contract that refuses. */
export function refused({ reason, remedy }: { reason: string; remedy: string }): Refusal {
  const said = reason ? `The contract refuses: “${reason}”.` : "The contract refuses without a reason.";
  return new Refusal(said, remedy);
}

/** What to say about anything thrown. */
export function sentence(error: unknown): string {
  if (error instanceof Refusal) return error.message;
  if (isRpcError(error) && error.code === REJECTED) return "You rejected it in the wallet. Nothing was sent.";
  if (isRpcError(error) && !isAway(error)) return `Your wallet's node refused: ${error.message}`;
  return "Your wallet's node or this server does not answer. Nothing is lost: try again when it is back.";
}

/** Whether a wallet says that its node can't be reached, in its own words. */
function isAway({ code, message }: { code: number; message: string }): boolean {
  return code === 4900 || code === 4901 || /fetch|network|timed? ?out|disconnect/i.test(message);
}
