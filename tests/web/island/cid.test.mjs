// SPDX-License-Identifier: Apache-2.0
// The browser's CIDs are those of the vectors that the Python importer is tested with.

import assert from "node:assert/strict";
import test from "node:test";
import { CidBuilder, digestOf } from "#island/download/cid";
import given from "../../agents/storage/cid_vectors.json";

const own = given.vectors.filter(
  (each) =>
    each.cid_version === 1 &&
    each.raw_leaves &&
    each.chunker === "size-262144" &&
    each.max_links === 174 &&
    each.size <= 64_000_000,
);

/** The vectors' content is byte[i] = i % 251; it arrives in pieces of a size. */
async function cidOf(size, piece) {
  const builder = new CidBuilder();
  for (let at = 0; at < size; at += piece) {
    const length = Math.min(piece, size - at);
    await builder.update(Uint8Array.from({ length }, (_, i) => (at + i) % 251));
  }
  return builder.cid();
}

test("there are vectors of one chunk, of one level and of two", () => {
  const sizes = own.map(({ size }) => size);
  assert.ok(sizes.includes(0));
  assert.ok(sizes.some((size) => size > 262_144 && size <= 174 * 262_144));
  assert.ok(sizes.some((size) => size > 174 * 262_144));
});

for (const { size, cid } of own) {
  test(`${size} bytes`, async () => assert.equal(await cidOf(size, 1_000_003), cid));
}

test("the pieces' size does not matter", async () => {
  assert.equal(await cidOf(300_000, 7_919), await cidOf(300_000, 300_000));
});

test("one changed byte makes another CID", async () => {
  const builder = new CidBuilder();
  await builder.update(new Uint8Array(300_000).fill(7, 0, 1));
  const other = new CidBuilder();
  await other.update(new Uint8Array(300_000));
  assert.notEqual(await builder.cid(), await other.cid());
});

test("the digest inside a CID is that of the bytes, whatever the codec", () => {
  const digest = `0x${"ab".repeat(32)}`;
  assert.equal(digestOf("bafkreiflvov2xk5lvov2xk5lvov2xk5lvov2xk5lvov2xk5lvov2xk5lvm"), digest);
  assert.equal(digestOf("bafybeiflvov2xk5lvov2xk5lvov2xk5lvov2xk5lvov2xk5lvov2xk5lvm"), digest);
});

const right = "bafkreiflvov2xk5lvov2xk5lvov2xk5lvov2xk5lvov2xk5lvov2xk5lvm";
for (const text of ["", "b", "bafk", right.slice(0, -1), `${right}a`, right.slice(1), right.toUpperCase(), `${right.slice(0, -1)}n`]) {
  test(`“${text}” is no CID`, () => assert.equal(digestOf(text), null));
}
