// SPDX-License-Identifier: Apache-2.0
// Brings live parts of the page up to date: the page is fetched again, and what changed is swapped.

import { all } from "../dom";

const GAP_MS = 400;
const MOST_MS = 15_000;
/** What the reader has asked for and is reading. */
const SHOWN = ".action-place > *, .generate-place > *, .recomputed > *, .download-state";

let wanted: Set<string> | "all" = new Set();
let timer = 0;
let running = false;
/** Fetches in a row that brought nothing. */
let failed = 0;
/** What the server said of a part that was swapped in: scripts change the part itself. */
const sources = new WeakMap<HTMLElement, string>();

/** Whether somebody is at work in an element: it is left as it is then. */
function busy(element: HTMLElement): boolean {
  const focused = document.activeElement;
  const typing = focused !== null && element.contains(focused) && focused.matches("input, textarea, select");
  const shown = element.querySelector(SHOWN) !== null;
  return typing || shown || all<HTMLInputElement>("input, textarea", element).some(touched);
}

/** Whether somebody has changed a field since the page was made. */
function touched(field: HTMLInputElement): boolean {
  return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
}

function concerns(element: HTMLElement, topics: Set<string> | "all"): boolean {
  if (topics === "all") return true;
  const own = (element.dataset.live ?? "").split(/\s+/);
  return own.some((topic) => topics.has(topic));
}

/** Have the parts with one of these topics (`job:1`, `node:3`, `block`) fetched again soon. */
export function refresh(topics: Iterable<string> | "all"): void {
  want(topics);
  if (!timer || failed) soon(GAP_MS);
}

function want(topics: Iterable<string> | "all"): void {
  if (topics === "all" || wanted === "all") wanted = "all";
  else for (const topic of topics) wanted.add(topic);
}

function soon(wait: number): void {
  window.clearTimeout(timer);
  timer = window.setTimeout(() => void swap(), wait);
}

async function swap(): Promise<void> {
  timer = 0;
  if (running) {
    soon(GAP_MS);
    return;
  }
  const topics = wanted;
  wanted = new Set();
  const parts = all("[data-live][id]").filter((part) => concerns(part, topics));
  if (!parts.length) return;
  running = true;
  try {
    // "no-cache": the answer of the block that was heard of, not the one before it.
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-cache" });
    const awaited = document.querySelector("[data-awaited]") !== null;
    if (awaited && answer.ok) {
      location.reload(); // what could not be shown can be: a node whose block has been read since
      return;
    }
    if (!awaited && !answer.ok) throw new TypeError(`status ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts) replace(part, page.getElementById(part.id));
    failed = 0;
    document.dispatchEvent(new CustomEvent("menagerie:swapped"));
  } catch {
    // The server is away, or has nothing at this address any more: a reorganisation took it back.
    failed += 1;
    want(topics);
    soon(Math.min(GAP_MS * 2 ** failed, MOST_MS));
  } finally {
    running = false;
  }
}

function replace(part: HTMLElement, fresh: HTMLElement | null): void {
  if (!fresh || busy(part)) return;
  const made = document.importNode(fresh, true);
  if (sources.get(part) === fresh.outerHTML) return;
  sources.set(made, fresh.outerHTML);
  keepOpen(part, made);
  const held = document.activeElement?.id;
  const within = document.activeElement !== null && part.contains(document.activeElement);
  part.replaceWith(made);
  if (held && within) document.getElementById(held)?.focus();
}

/** Leave open what the reader has opened: found by its id, else by its place among as many. */
function keepOpen(part: HTMLElement, made: HTMLElement): void {
  const before = all<HTMLDetailsElement>("details", part);
  const after = all<HTMLDetailsElement>("details", made);
  const open = new Set(before.filter((each) => each.open && each.id).map(({ id }) => id));
  for (const [at, each] of after.entries()) {
    const same = before.length === after.length && before[at]?.id === each.id && before[at].open;
    if (same || open.has(each.id)) each.open = true;
  }
}

/** Note what the server has said of each part, before anything here changes the page. */
export function begin(): void {
  for (const part of all("[data-live][id]")) sources.set(part, part.outerHTML);
}
