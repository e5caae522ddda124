// SPDX-License-Identifier: Apache-2.0
// Follows a transaction after it was sent, and tells apart what can become of it.
//
// A transaction is mined, fails, is replaced by another of the same account and number (sped up,
// cancelled, or something else), waits long, is forgotten by the node, or is taken out of the chain
// again by a reorganisation. A provider that does not answer changes nothing: it is asked again.

import { ask, type Block, type Hex, isRpcError, type Provider, type Receipt, type Transaction } from "./provider";

/** A transaction that a wallet has sent. `nonce` is null until a node knew the transaction. */
export interface Sent {
  hash: Hex;
  from: Hex;
  to: Hex;
  data: Hex;
  nonce: number | null;
  block: number;
}

export type Fate =
  | { state: "sent" }
  | { state: "slow"; seconds: number }
  | { state: "unknown" }
  | { state: "offline" }
  | { state: "elsewhere" } // the wallet shows another chain: it can't be looked for
  | { state: "done"; receipt: Receipt; hash: Hex; repriced: boolean }
  | { state: "failed"; receipt: Receipt }
  | { state: "cancelled"; by: Hex }
  | { state: "replaced"; by: Hex }
  | { state: "reorged" };

/** How long is long, and how often the provider is asked. A test shortens them. */
export interface Pace {
  everyMs: number;
  slowMs: number;
  confirmations: number;
  asks: number;
}

export const PACE: Pace = { everyMs: 700, slowMs: 45_000, confirmations: 12, asks: 8 };

/** How far back a transaction of an account is looked for. */
export const SEARCHED_BLOCKS = 128;

/** Whether two fates say the same to a reader. */
export function same(a: Fate | undefined, b: Fate): boolean {
  if (a?.state !== b.state) return false;
  if (a.state === "done" && b.state === "done") {
    return a.receipt.blockHash === b.receipt.blockHash;
  }
  return true;
}

export class Tracker {
  private asked = 0;
  private mined: Hex | null = null;
  private readonly since: number;
  private hash: Hex;

  constructor(
    private readonly provider: Provider,
    private readonly sent: Sent,
    private readonly pace: Pace = PACE,
    private readonly clock: () => number = Date.now,
  ) {
    this.since = clock();
    this.hash = sent.hash;
  }

  /** Ask once what has become of it. */
  async look(): Promise<Fate> {
    try {
      return await this.found();
    } catch (error) {
      if (isRpcError(error) && error.code === 4100) throw error;
      return { state: "offline" };
    }
  }

  /** Whether nothing can happen to the transaction any more, as far as `confirmations` say. */
  async settled(fate: Fate): Promise<boolean> {
    if (fate.state === "replaced" || fate.state === "cancelled") return true;
    if (fate.state !== "done" && fate.state !== "failed") return false;
    const head = Number(await ask<Hex>(this.provider, "eth_blockNumber"));
    return head - Number(fate.receipt.blockNumber) >= this.pace.confirmations;
  }

  private async found(): Promise<Fate> {
    const receipt = await ask<Receipt | null>(
      this.provider,
      "eth_getTransactionReceipt",
      this.hash,
    );
    if (receipt) {
      this.mined = receipt.blockHash;
      if (Number(receipt.status) !== 1) return { state: "failed", receipt };
      return { state: "done", receipt, hash: this.hash, repriced: this.hash !== this.sent.hash };
    }
    const known = await ask<Transaction | null>(
      this.provider,
      "eth_getTransactionByHash",
      this.hash,
    );
    if (known) {
      this.sent.nonce ??= Number(known.nonce);
      this.asked = 0;
    }
    const other = await this.replacement();
    if (other) return other;
    if (this.mined) return { state: "reorged" };
    if (!known && ++this.asked >= this.pace.asks) return { state: "unknown" };
    const waited = this.clock() - this.since;
    if (waited >= this.pace.slowMs) return { state: "slow", seconds: Math.round(waited / 1000) };
    return { state: "sent" };
  }

  /** Look for another transaction that has used up the same number of the account. */
  private async replacement(): Promise<Fate | null> {
    const { from, nonce } = this.sent;
    if (nonce === null) return null;
    const used = Number(await ask<Hex>(this.provider, "eth_getTransactionCount", from, "latest"));
    if (used <= nonce) return null;
    const head = Number(await ask<Hex>(this.provider, "eth_blockNumber"));
    const first = Math.max(0, this.sent.block - 1, head - SEARCHED_BLOCKS);
    for (let number = head; number >= first; number--) {
      const at = `0x${number.toString(16)}`;
      const block = await ask<Block | null>(this.provider, "eth_getBlockByNumber", at, true);
      const all = (block?.transactions ?? []) as Transaction[];
      const other = all.find(
        (each) => each.from.toLowerCase() === from.toLowerCase() && Number(each.nonce) === nonce,
      );
      if (other) return this.replaced(other);
    }
    return null;
  }

  private async replaced(other: Transaction): Promise<Fate> {
    const { to, data } = this.sent;
    if (other.to?.toLowerCase() === to.toLowerCase() && other.input === data) {
      this.hash = other.hash;
      return this.found();
    }
    const own = other.to?.toLowerCase() === other.from.toLowerCase();
    const empty = other.input === "0x" && BigInt(other.value) === 0n;
    return { state: own && empty ? "cancelled" : "replaced", by: other.hash };
  }
}
