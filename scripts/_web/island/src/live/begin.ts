// SPDX-License-Identifier: Apache-2.0
// Starts the live parts of a page: events, swaps, clocks and the banner.

import { isDown, note } from "./banner";
import * as clocks from "./clocks";
import { type News, Stream } from "./stream";
import { begin as beginSwaps, refresh } from "./swap";

const CHECK_MS = 5_000;

/** What `/api/status` says. */
interface Status {
  rpc: string;
  indexer: string;
}

async function check(): Promise<void> {
  if (document.hidden && !isDown()) return;
  try {
    const answer = await fetch("/api/status", { cache: "no-store" });
    const { rpc, indexer } = (await answer.json()) as Status;
    const before = isDown();
    note("rpc", rpc === "ok");
    note("indexer", indexer === "ok");
    if (before && !isDown()) refresh("all");
  } catch {
    return; // the stream says that the server is away
  }
}

function heard(news: News): void {
  document.dispatchEvent(new CustomEvent("menagerie:news"));
  if (news.reorg) refresh("all");
  const jobs = news.jobs.map((id) => `job:${id}`);
  const nodes = news.nodes.map((id) => `node:${id}`);
  refresh(["block", ...jobs, ...nodes]);
}

export function begin(): void {
  beginSwaps();
  clocks.begin();
  const stream = new Stream(
    "/api/live",
    heard,
    () => refresh("all"),
    (up) => note("stream", up),
  );
  stream.open();
  window.addEventListener("offline", () => note("network", false));
  window.addEventListener("online", () => {
    note("network", true);
    stream.open();
  });
  document.addEventListener("menagerie:acted", () => refresh("all"));
  void check();
  window.setInterval(() => void check(), CHECK_MS);
}
