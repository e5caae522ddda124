// SPDX-License-Identifier: Apache-2.0
// Finds out whether a transaction was sent that a wallet was asked for, where its answer was lost.
//
// What a wallet sends takes the account's next number. So the number is noted before the wallet is
// asked; later, whatever has taken it or a higher one is either that transaction or another.

import { ask, type Block, type Hex, type Provider, type Transaction } from "./provider";
import { SEARCHED_BLOCKS, type Sent } from "./track";

/** A transaction that a wallet was asked for. `next`: the account's next number at that time. */
export interface Asked {
  from: Hex;
  to: Hex;
  data: Hex;
  next: number;
  block: number;
}

async function count(provider: Provider, from: Hex, at: "latest" | "pending"): Promise<number> {
  return Number(await ask<Hex>(provider, "eth_getTransactionCount", from, at));
}

async function sentIn(provider: Provider, at: Hex | "pending", from: Hex): Promise<Transaction[]> {
  const block = await ask<Block | null>(provider, "eth_getBlockByNumber", at, true);
  const all = (block?.transactions ?? []) as Transaction[];
  return all.filter((each) => each.from?.toLowerCase() === from.toLowerCase());
}

/** Note how the account stands right before its wallet is asked. */
export async function noted(provider: Provider, from: Hex, to: Hex, data: Hex): Promise<Asked> {
  const block = Number(await ask<Hex>(provider, "eth_blockNumber"));
  const used = await count(provider, from, "latest");
  const next = Math.max(used, await count(provider, from, "pending"));
  return { from, to, data, next, block };
}

/**
 * Look for it. Returns the transaction; "none" where the account has sent nothing else, or all that
 * it has sent is known and is something else; "unclear" where it has sent what can't be seen.
 */
export async function answered(provider: Provider, asked: Asked): Promise<Sent | "none" | "unclear"> {
  const { from, to, data } = asked;
  const used = await count(provider, from, "latest");
  const next = Math.max(used, await count(provider, from, "pending"));
  const seen = new Map<number, Transaction>();
  const known = (first: number, end: number): boolean => {
    for (let nonce = first; nonce < end; nonce++) if (!seen.has(nonce)) return false;
    return true;
  };
  const note = (found: Transaction[]): void => {
    for (const each of found) seen.set(Number(each.nonce), each);
  };
  // Not every node has a block of what waits.
  if (next > asked.next) note(await sentIn(provider, "pending", from).catch(() => []));
  const head = Number(await ask<Hex>(provider, "eth_blockNumber"));
  const first = Math.max(0, asked.block - 1, head - SEARCHED_BLOCKS);
  for (let number = head; number >= first && !known(asked.next, used); number--) {
    note(await sentIn(provider, `0x${number.toString(16)}`, from));
  }
  for (const [nonce, { hash, to: other, input }] of seen) {
    if (nonce >= asked.next && other?.toLowerCase() === to.toLowerCase() && input === data) {
      return { hash, from, to, data, nonce, block: asked.block };
    }
  }
  return known(asked.next, next) ? "none" : "unclear";
}
