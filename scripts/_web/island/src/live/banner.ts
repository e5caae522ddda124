// SPDX-License-Identifier: Apache-2.0
// Says when something that the page depends on does not answer, and when it is back.

/** What may be away: the reader's network, the server's events, its indexer, its RPC node. */
export type Part = "network" | "stream" | "indexer" | "rpc";

const DOWN: Record<Part, string> = {
  network: "You are offline. What you see is from before; nothing that you began is lost.",
  stream: "This server does not answer. What you see is from before; the page tries again by itself.",
  indexer: "This server's index is behind the chain. What you see may be old; your wallet is not affected.",
  rpc: "This server's node does not answer. What you see is from before; your wallet is not affected.",
};
const BACK = "Everything answers again. The page is up to date.";
const BACK_MS = 6_000;

const down = new Set<Part>();
let timer = 0;

/** Note whether a part answers, and show what follows. */
export function note(part: Part, up: boolean): void {
  const before = down.size;
  if (up ? !down.delete(part) : down.has(part)) return;
  if (!up) down.add(part);
  const banner = document.getElementById("connection");
  if (!banner) return;
  clearTimeout(timer);
  const worst = (Object.keys(DOWN) as Part[]).find((each) => down.has(each));
  banner.dataset.state = worst ? "down" : "back";
  banner.textContent = worst ? DOWN[worst] : BACK;
  banner.hidden = false;
  if (worst || !before) return;
  timer = window.setTimeout(() => {
    banner.hidden = true;
  }, BACK_MS);
}

/** Whether anything is away. */
export function isDown(): boolean {
  return down.size > 0;
}
