// SPDX-License-Identifier: Apache-2.0
// Amounts as people read and write them: 1,234.5 ZOO is 1234.5 x 1e18 units.

import { formatUnits, getAddress, isAddress } from "viem/utils";
import { Refusal } from "../refusal";
import type { Hex } from "./provider";

const UNITS = 18;

/** Spell an amount in full: no digit is left out. */
export function amount(units: bigint, symbol = "ZOO"): string {
  const [whole = "0", rest] = formatUnits(units, UNITS).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return `${grouped}${rest ? `.${rest}` : ""} ${symbol}`;
}

/** Spell an amount cut after two decimals, where the exact one is to be had elsewhere. */
export function brief(units: bigint): string {
  return amount(units - (units % 10n ** 16n));
}

/** Spell a cost in ether with at most six significant decimals. */
export function ether(wei: bigint): string {
  const text = formatUnits(wei, UNITS);
  return `${Number(text) < 1e-6 && wei > 0n ? "less than 0.000001" : Number(text).toFixed(6)} ETH`;
}

/** Read an amount that somebody typed. Throws a Refusal that names the field. */
export function parseAmount(text: string, field: string): bigint {
  const found = /^(\d+)(?:\.(\d{1,18}))?$/.exec(text.trim().replaceAll(",", ""));
  if (!found) {
    throw new Refusal(
      `“${text}” is no amount of ZOO.`,
      "Give a number such as 100 or 0.5, with at most 18 decimals.",
      field,
    );
  }
  return BigInt(found[1] + (found[2] ?? "").padEnd(UNITS, "0"));
}

/** Read an address that somebody typed. A checksum is checked where there is one. */
export function parseAddress(text: string, field: string): Hex {
  const found = text.trim();
  if (!isAddress(found, { strict: found.toLowerCase() !== found })) {
    throw new Refusal(
      `“${text}” is no address.`,
      "It has 0x and 40 hexadecimal digits; where some are in upper case, they must fit.",
      field,
    );
  }
  return getAddress(found);
}

/** Read a whole number that somebody typed. Throws a Refusal that names the field. */
export function parseWhole(text: string, field: string, least = 0, most = 2 ** 40): number {
  const found = /^\d{1,13}$/.test(text.trim()) ? Number(text) : NaN;
  if (!(found >= least && found <= most)) {
    throw new Refusal(`“${text}” is no number from ${least} to ${most}.`, "", field);
  }
  return found;
}

/** Shorten an address for a button: 0x1234…abcd. */
export function short(address: string): string {
  return `${address.slice(0, 6)}…${address.slice(-4)}`;
}
