// SPDX-License-Identifier: Apache-2.0
// Remembers what was begun, in this browser alone, so that it can be gone on with after a reload.

import type { Asked } from "../chain/asked";
import type { Sent } from "../chain/track";
import type { Hex } from "../chain/provider";

/**
 * An intent that was begun. `sent`, `signed` and `asked` are by the keys of its steps; `asked` has
 * what a wallet was asked to send and has not answered.
 */
export interface Entry {
  id: string;
  path: string;
  action: string;
  title: string;
  values: [string, string][];
  chainId: number;
  account: Hex;
  sent: Record<string, Sent>;
  signed: Record<string, Hex>;
  asked: Record<string, Asked>;
}

const KEY = "menagerie:journal";
const MOST = 20;

/** All intents that have not come to an end, the oldest first. */
export function entries(): Entry[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    const all = Array.isArray(found) ? (found as Entry[]) : [];
    return all.map((entry) => ({ ...entry, asked: entry.asked ?? {} }));
  } catch {
    return [];
  }
}

/** An entry as it stands now; undefined where it is done or was closed, in whatever tab. */
export function find(wanted: string): Entry | undefined {
  return entries().find(({ id }) => id === wanted);
}

/** Write an entry, in the place of the one with its id. */
export function save(entry: Entry): void {
  const others = entries().filter(({ id }) => id !== entry.id);
  localStorage.setItem(KEY, JSON.stringify([...others, entry].slice(-MOST)));
}

/** Forget an entry: it is done, or its owner does not want it any more. */
export function drop(id: string): void {
  localStorage.setItem(KEY, JSON.stringify(entries().filter((entry) => entry.id !== id)));
}
