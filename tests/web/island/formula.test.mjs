// SPDX-License-Identifier: Apache-2.0
// Formulas of explanations are computed with integers, from left to right, rounding down.

import assert from "node:assert/strict";
import test from "node:test";
import { evaluate } from "#island/explain/formula";
import { compute, proves } from "#island/explain/recompute";

const term = (name, value, unit = "") => ({ name, value: String(value), unit });
const zoo = (name, value) => term(name, value, "ZOO");

test("sums and differences", () => {
  assert.equal(evaluate("reward + carried", [zoo("reward", 5), zoo("carried", 7)]), 12n);
  assert.equal(evaluate("pool - cuts", [zoo("pool", 10n ** 24n), zoo("cuts", 1)]), 10n ** 24n - 1n);
});

test("a share of 10,000 rounds down", () => {
  const terms = [zoo("base", 99_999), term("aggregator's share", 500, "of 10,000")];
  assert.equal(evaluate("base x aggregator's share", terms), 4_999n);
});

test("a product is divided once, at its end", () => {
  const terms = [zoo("verifiers' part", 100), zoo("its weight", 1), zoo("attested weight", 3)];
  assert.equal(evaluate("verifiers' part x its weight / attested weight", terms), 33n);
});

test("a name that contains another is read whole", () => {
  const terms = [zoo("pool", 9), zoo("pool - cuts", 4), term("cuts", 1)];
  assert.equal(evaluate("pool - cuts", terms), 4n);
});

test("what is not given is no number", () => {
  assert.throws(() => evaluate("pool - cuts", [zoo("pool", 9)]), /begins with no number/);
});

test("nothing is divided by zero", () => {
  assert.throws(() => evaluate("a / b", [term("a", 1), term("b", 0)]), /zero/);
});

const payment = (due, share, outcomes) => ({
  role: "trainer",
  due: String(due),
  steps: [
    { result: zoo("pool", 100), formula: "reward + carried", terms: [zoo("reward", 100), zoo("carried", 0)] },
    { result: zoo("share", share), formula: "pool x its part / all parts", terms: [zoo("pool", 100), term("its part", 1), term("all parts", 3)] },
  ],
  outcomes: outcomes.map((amount) => ({ what: "credited", amount: String(amount), account: null, tx: null, then: null })),
});

test("an honest payment is equal in every line", () => {
  assert.ok(compute(payment(33, 33, [30, 3])).every(({ equal }) => equal));
});

test("one unit more is different", () => {
  assert.deepEqual(compute(payment(34, 34, [34])).map(({ equal }) => equal), [true, false, true, true]);
});

test("outcomes that do not add up are different", () => {
  assert.equal(compute(payment(33, 33, [30])).at(-1).equal, false);
});

test("a number that changes from line to line is different", () => {
  const wrong = payment(33, 33, [33]);
  wrong.steps[1].terms[0] = zoo("pool", 101);
  assert.ok(compute(wrong).some(({ text, equal }) => text.startsWith("pool is") && !equal));
});

const account = "0x00000000000000000000000000000000000000aA";
const outcome = { what: "credited", amount: "7", account, tx: "0x1", then: null };

test("a batch proves the credit of its node, amount and account alone", () => {
  const args = { nodes: [1n, 3n], payouts: ["0xbb", account.toLowerCase()], amounts: [7n, 7n] };
  const event = { contract: "RewardPool", name: "RewardsDistributed", args };
  assert.ok(proves(event, outcome, 3));
  assert.ok(!proves(event, outcome, 1));
  assert.ok(!proves(event, { ...outcome, amount: "8" }, 3));
  assert.ok(!proves({ ...event, contract: "Other" }, outcome, 3));
});
