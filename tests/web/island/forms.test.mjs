// SPDX-License-Identifier: Apache-2.0
// What people type and what programs print is read strictly, and spelled without loss.

import assert from "node:assert/strict";
import test from "node:test";
import { inWords, readPacked } from "#island/actions/sponsor";
import { span } from "#island/actions/words";
import { amount, parseAddress, parseAmount, parseWhole } from "#island/chain/amounts";
import { remedyOf, revertOf } from "#island/chain/reasons";
import { quoted } from "#island/command";
import { left } from "#island/live/clocks";

test("amounts go there and back without loss", () => {
  for (const [text, units] of [["0.000000000000000001", 1n], ["1,234.5", 1_234_500_000_000_000_000_000n], ["100", 10n ** 20n]]) {
    assert.equal(parseAmount(text, "stake"), units);
  }
  assert.equal(amount(1_234_500_000_000_000_000_001n), "1,234.500000000000000001 ZOO");
  assert.equal(amount(0n), "0 ZOO");
});

for (const text of ["", "-1", "1e3", "0x10", "1.0000000000000000001", "١", "1..2"]) {
  test(`“${text}” is no amount`, () => assert.throws(() => parseAmount(text, "stake"), { field: "stake" }));
}

test("an address with a wrong checksum is refused", () => {
  const right = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045";
  assert.equal(parseAddress(` ${right} `, "operator"), right);
  assert.equal(parseAddress(right.toLowerCase(), "operator"), right);
  assert.throws(() => parseAddress(right.replace("d8dA", "D8dA"), "operator"), { field: "operator" });
  assert.throws(() => parseAddress("0x12", "operator"), { field: "operator" });
});

test("whole numbers have bounds", () => {
  assert.equal(parseWhole("7", "rounds", 1, 7), 7);
  for (const text of ["8", "0", "1.5", "", "-1"]) assert.throws(() => parseWhole(text, "rounds", 1, 7));
});

const digest = `0x${"ab".repeat(32)}`;
const terms = {
  spec: digest, genesis_model: digest, genesis_checkpoint: digest, rounds: "10",
  reward_per_round: "1000000000000000000000", verifier_bps: "1000", aggregator_bps: "500", max_nodes: "64",
  commit_s: "120", reveal_s: "60", aggregate_s: "60", challenge_s: "60", appeal_s: "60", dispute_s: "300",
  challenge_bond: "100000000000000000000", retain_rounds: "2",
};
const spec_cid = "bafkreiflvov2xk5lvov2xk5lvov2xk5lvov2xk5lvov2xk5lvov2xk5lvm"; // of `digest`
const other_cid = "bafkreignzxg43tonzxg43tonzxg43tonzxg43tonzxg43tonzxg43tonzu";
const packed = { chain_id: 31337, spec_cid, terms, scores: null, key_id: null };

test("what was packed is read, and said in words", () => {
  const found = readPacked(JSON.stringify(packed));
  assert.equal(found.terms.rounds, 10n);
  const words = inWords(found.terms).join(" ");
  for (const part of ["10 rounds", "64 trainers", "1,000 ZOO", "10 %", "5 %", "2 min", "100 ZOO"]) {
    assert.ok(words.includes(part), part);
  }
});

for (const [name, text] of [
  ["nothing", ""],
  ["no object", "[]"],
  ["no terms", JSON.stringify({ ...packed, terms: undefined })],
  ["a digest too short", JSON.stringify({ ...packed, terms: { ...terms, spec: "0xab" } })],
  ["a fraction", JSON.stringify({ ...packed, terms: { ...terms, rounds: "1.5" } })],
  ["another spec", JSON.stringify({ ...packed, spec_cid: other_cid })],
  ["no spec's name", JSON.stringify({ ...packed, spec_cid: undefined })],
  ["a wrong key", JSON.stringify({ ...packed, key_id: "0x1" })],
]) {
  test(`${name} is refused with the field that it is about`, () => {
    assert.throws(() => readPacked(text), { field: "packed" });
  });
}

test("a shell reads what was typed as one word", () => {
  assert.equal(quoted("my data.txt"), "'my data.txt'");
  assert.equal(quoted("it's; rm -rf ~"), "'it'\\''s; rm -rf ~'");
  assert.equal(quoted("a/b-c.txt"), "a/b-c.txt");
});

test("times are spelled in two units", () => {
  assert.equal(span(90), "1 min 30 s");
  assert.equal(span(604_800), "7 days");
  assert.equal(left(3_729), "1 h 02 min");
  assert.equal(left(12), "12 s");
});

const ERROR = [{ type: "error", name: "Error", inputs: [{ name: "", type: "string" }] }];
const reverted = "0x08c379a00000000000000000000000000000000000000000000000000000000000000020000000000000000000000000000000000000000000000000000000000000001072656769737472793a2062616e6e656400000000000000000000000000000000";

test("a reason is found wherever a wallet has put it", () => {
  const shapes = [
    { code: 3, message: "execution reverted", data: reverted },
    { code: -32603, message: "Internal error", data: { code: 3, data: reverted } },
    { code: -32000, message: "execution reverted: registry: banned" },
    { code: -32015, message: "VM execution error.", data: `Reverted ${reverted}` },
  ];
  for (const error of shapes) {
    const found = revertOf(error, ERROR);
    assert.equal(found?.reason, "registry: banned");
    assert.equal(found?.remedy, remedyOf("registry: banned"));
  }
  assert.equal(revertOf(new TypeError("fetch failed"), ERROR), undefined);
  assert.equal(revertOf({ code: 4001, message: "User rejected" }, ERROR), undefined);
});
