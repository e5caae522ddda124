// SPDX-License-Identifier: Apache-2.0
// What a wallet was asked for is found by the account's number, whatever else the account sends.

import assert from "node:assert/strict";
import test from "node:test";
import { answered, noted } from "#island/chain/asked";

const ME = "0x000000000000000000000000000000000000abcd";
const TO = "0x000000000000000000000000000000000000beef";
const DATA = "0x1234";
const hex = (value) => `0x${value.toString(16)}`;

/** An account that has sent five transactions, and a node that may not show what waits. */
class Chain {
  blocks = [[]];
  pool = [];
  used = 5;
  showsPool = true;

  send(changes = {}) {
    const nonce = hex(this.used + this.pool.length);
    this.pool.push({ hash: `0xa${Number(nonce)}`, from: ME, to: TO, nonce, input: DATA, value: "0x0", ...changes });
  }

  mine() {
    this.blocks.push(this.pool);
    this.used += this.pool.length;
    this.pool = [];
  }

  async request({ method, params }) {
    switch (method) {
      case "eth_blockNumber":
        return hex(this.blocks.length - 1);
      case "eth_getTransactionCount":
        return hex(params[1] === "pending" ? this.used + this.pool.length : this.used);
      default:
        if (params[0] !== "pending") return { transactions: this.blocks[Number(params[0])] ?? [] };
        if (!this.showsPool) throw { code: -32602, message: "no such block" };
        return { transactions: this.pool };
    }
  }
}

const before = async (chain) => noted(chain, ME, TO, DATA);

test("nothing was sent since", async () => {
  const chain = new Chain();
  const asked = await before(chain);
  assert.equal(asked.next, 5);
  chain.mine();
  assert.equal(await answered(chain, asked), "none");
});

test("it waits, is mined, or was mined some blocks ago", async () => {
  const chain = new Chain();
  const asked = await before(chain);
  chain.send();
  for (let block = 0; block < 4; block++) {
    const found = await answered(chain, asked);
    assert.deepEqual(found, { hash: "0xa5", from: ME, to: TO, data: DATA, nonce: 5, block: 0 });
    chain.mine();
  }
});

test("the same call that was sent before it was asked for is another one", async () => {
  const chain = new Chain();
  chain.send();
  const asked = await before(chain);
  assert.equal(asked.next, 6);
  assert.equal(await answered(chain, asked), "none");
  chain.mine();
  assert.equal(await answered(chain, asked), "none");
  chain.send();
  assert.equal((await answered(chain, asked)).nonce, 6);
});

test("what else the account sends is not it", async () => {
  const chain = new Chain();
  const asked = await before(chain);
  chain.send({ input: "0x12" });
  chain.send({ to: ME });
  assert.equal(await answered(chain, asked), "none");
  chain.mine();
  chain.send({ to: null });
  assert.equal(await answered(chain, asked), "none");
});

test("what can't be seen may be it", async () => {
  const chain = new Chain();
  const asked = await before(chain);
  chain.showsPool = false;
  chain.send();
  assert.equal(await answered(chain, asked), "unclear");
  chain.mine();
  assert.equal((await answered(chain, asked)).nonce, 5);
  for (let block = 0; block < 200; block++) chain.mine();
  assert.equal(await answered(chain, asked), "unclear");
});
