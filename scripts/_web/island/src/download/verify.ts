// SPDX-License-Identifier: Apache-2.0
// Downloads an artefact, computes its CID in the browser, and saves it only where it is the right one.
//
// The bytes may come from anybody: what is saved is what the chain has named, or nothing is.

import { el } from "../dom";
import { CidBuilder } from "./cid";

/** Fetch a URL and return its bytes, or a sentence that says why they can't be trusted. */
export async function verified(
  url: string,
  cid: string,
  progress: (received: number, total: number) => void,
): Promise<Blob | string> {
  const answer = await fetch(url);
  if (!answer.ok || !answer.body) {
    return `The store answers with status ${answer.status}: it does not have the file now.`;
  }
  const total = Number(answer.headers.get("content-length") ?? 0);
  const builder = new CidBuilder();
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  const reader = answer.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    await builder.update(value);
    pieces.push(value as Uint8Array<ArrayBuffer>);
    progress(builder.size, total);
  }
  const found = await builder.cid();
  if (found !== cid) {
    return `These are not the bytes that the chain names: their CID is ${found}, not ${cid}. Nothing was saved.`;
  }
  return new Blob(pieces, { type: "application/octet-stream" });
}

/** Handle a click on `<a data-download data-cid="…" href="…">`. */
export async function download(link: HTMLAnchorElement): Promise<void> {
  if (link.dataset.busy) return;
  link.dataset.busy = "1";
  const status = statusOf(link);
  const say = (text: string, state: string): void => {
    status.textContent = text;
    status.dataset.state = state;
  };
  say("Downloading …", "running");
  try {
    const found = await verified(link.href, link.dataset.cid ?? "", (received, total) => {
      const share = total ? ` of ${(total / 1e6).toFixed(1)} MB` : "";
      say(`Downloading and hashing: ${(received / 1e6).toFixed(1)} MB${share} …`, "running");
    });
    if (typeof found === "string") {
      say(found, "failed");
      return;
    }
    save(found, link.download || (link.dataset.cid ?? "artefact"));
    say(`Verified: ${found.size} bytes have the CID ${link.dataset.cid}.`, "verified");
  } catch {
    say("The download broke off. Nothing was saved; try again.", "failed");
  } finally {
    delete link.dataset.busy;
  }
}

function statusOf(link: HTMLAnchorElement): HTMLElement {
  const next = link.nextElementSibling;
  if (next instanceof HTMLElement && next.classList.contains("download-state")) return next;
  const made = el("span", { class: "download-state", role: "status" });
  link.after(made);
  return made;
}

function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = el("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
