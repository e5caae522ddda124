// SPDX-License-Identifier: Apache-2.0
// What several actions say and do in the same way.

import { amount } from "../chain/amounts";
import type { Hex } from "../chain/provider";
import type { Send } from "../intents/intent";
import type { Actor } from "../intents/intent";
import { Refusal } from "../refusal";

/** The step that lets a contract take ZOO, left out where it may already. */
export function allow(actor: Actor, spender: string, whose: string, units: bigint): Send {
  const { reader, account } = actor;
  const at = reader.contract(spender).address;
  return {
    kind: "send",
    key: "allow",
    words: `let ${whose} take ${amount(units)}, and no more`,
    call: () => ({ contract: "ZooToken", fn: "approve", args: [at, units] }),
    needed: async () => (await reader.read<bigint>("ZooToken", "allowance", account, at)) < units,
  };
}

/** Throw a Refusal where the account has less ZOO than is needed. */
export async function afford(actor: Actor, units: bigint, field: string): Promise<void> {
  const { reader, account, begun } = actor;
  if (begun.size) return;
  const held = await reader.read<bigint>("ZooToken", "balanceOf", account);
  if (held >= units) return;
  throw new Refusal(
    `${account} has ${amount(held)}, but ${amount(units)} are needed.`,
    "On a local network `ape run faucet` sends some.",
    field,
  );
}

/** Spell a duration: "2 days 3 h", "90 s". */
export function span(seconds: number): string {
  const units: [number, string][] = [
    [86_400, "days"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const parts = [];
  let rest = seconds;
  for (const [size, name] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(`${count} ${count === 1 && name === "days" ? "day" : name}`);
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

/** Spell a moment of chain time in UTC: "2026-12-07 10:30 UTC". */
export function moment(seconds: number): string {
  return `${new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** Read 32 bytes that somebody gave in hexadecimal. */
export function bytes32(text: string, what: string, field: string): Hex {
  if (!/^0x[0-9a-f]{64}$/i.test(text)) {
    throw new Refusal(`${what} “${text}” is no 32 bytes in hexadecimal.`, "", field);
  }
  return text as Hex;
}
