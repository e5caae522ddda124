// SPDX-License-Identifier: Apache-2.0
// What becomes of a transaction is told apart, on a chain of a few lines that a test can bend.

import assert from "node:assert/strict";
import test from "node:test";
import { Tracker } from "#island/chain/track";

const ME = "0x000000000000000000000000000000000000abcd";
const TO = "0x000000000000000000000000000000000000beef";
const PACE = { everyMs: 1, slowMs: 1_000, confirmations: 2, asks: 3 };
const hex = (value) => `0x${value.toString(16)}`;

class Chain {
  pool = new Map();
  blocks = [[]];
  used = 0;
  away = false;

  tx(hash, changes = {}) {
    const found = { hash, from: ME, to: TO, nonce: hex(5), input: "0x1234", value: "0x0", ...changes };
    this.pool.set(hash, found);
    return found;
  }

  mine(hash, status = 1) {
    const tx = this.pool.get(hash);
    this.blocks.push(tx ? [{ ...tx, status }] : []);
    if (tx) this.used = Number(tx.nonce) + 1;
  }

  async request({ method, params }) {
    if (this.away) throw new TypeError("fetch failed");
    const mined = (hash) => this.blocks.findIndex((block) => block.some((tx) => tx.hash === hash));
    const hash = params[0];
    switch (method) {
      case "eth_getTransactionReceipt": {
        const number = mined(hash);
        if (number < 0) return null;
        const { status } = this.blocks[number].find((tx) => tx.hash === hash);
        return { status: hex(status), blockNumber: hex(number), blockHash: `0xb${number}`, transactionHash: hash, logs: [] };
      }
      case "eth_getTransactionByHash":
        return this.pool.get(hash) ?? null;
      case "eth_getTransactionCount":
        return hex(this.used);
      case "eth_blockNumber":
        return hex(this.blocks.length - 1);
      default:
        return { transactions: this.blocks[Number(hash)] ?? [] };
    }
  }
}

function begun() {
  const chain = new Chain();
  chain.used = 5;
  chain.tx("0xa1");
  const clock = { now: 0 };
  const sent = { hash: "0xa1", from: ME, to: TO, data: "0x1234", nonce: null, block: 0 };
  return { chain, clock, sent, tracker: new Tracker(chain, sent, PACE, () => clock.now) };
}

test("sent, then slow, then done", async () => {
  const { chain, clock, tracker, sent } = begun();
  assert.equal((await tracker.look()).state, "sent");
  assert.equal(sent.nonce, 5);
  clock.now = 5_000;
  assert.deepEqual(await tracker.look(), { state: "slow", seconds: 5 });
  chain.mine("0xa1");
  const fate = await tracker.look();
  assert.equal(fate.state, "done");
  assert.equal(fate.repriced, false);
  assert.equal(await tracker.settled(fate), false);
  chain.mine("");
  chain.mine("");
  assert.equal(await tracker.settled(fate), true);
});

test("mined and failed", async () => {
  const { chain, tracker } = begun();
  chain.mine("0xa1", 0);
  assert.equal((await tracker.look()).state, "failed");
});

test("sped up: the same call with another fee is followed", async () => {
  const { chain, tracker } = begun();
  await tracker.look();
  chain.tx("0xa2");
  chain.mine("0xa2");
  const fate = await tracker.look();
  assert.equal(fate.state, "done");
  assert.equal(fate.hash, "0xa2");
  assert.equal(fate.repriced, true);
});

test("cancelled: an empty transaction to oneself", async () => {
  const { chain, tracker } = begun();
  await tracker.look();
  chain.tx("0xa3", { to: ME, input: "0x" });
  chain.mine("0xa3");
  assert.deepEqual(await tracker.look(), { state: "cancelled", by: "0xa3" });
});

test("replaced: another call with the same number", async () => {
  const { chain, tracker } = begun();
  await tracker.look();
  chain.tx("0xa4", { input: "0x9999" });
  chain.mine("0xa4");
  assert.deepEqual(await tracker.look(), { state: "replaced", by: "0xa4" });
});

test("reorged: it was in a block and is not any more, and comes back", async () => {
  const { chain, tracker } = begun();
  chain.mine("0xa1");
  assert.equal((await tracker.look()).state, "done");
  chain.blocks.pop();
  chain.used = 5;
  assert.equal((await tracker.look()).state, "reorged");
  chain.mine("0xa1");
  assert.equal((await tracker.look()).state, "done");
});

test("a provider that is away changes nothing", async () => {
  const { chain, tracker } = begun();
  chain.away = true;
  assert.equal((await tracker.look()).state, "offline");
  chain.away = false;
  chain.mine("0xa1");
  assert.equal((await tracker.look()).state, "done");
});

test("a node that has forgotten it is believed after a few questions", async () => {
  const { chain, tracker } = begun();
  await tracker.look();
  chain.pool.clear();
  const states = [];
  for (let i = 0; i < 3; i++) states.push((await tracker.look()).state);
  assert.deepEqual(states, ["sent", "sent", "unknown"]);
});
