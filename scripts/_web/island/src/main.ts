// SPDX-License-Identifier: Apache-2.0
// What each page loads first: the live parts, and what brings the rest when it is needed.
//
// The wallet's part is large, so it comes when somebody presses Connect, uses a form that a wallet
// signs, or has connected a wallet here before.

import { begin as beginCommands } from "./command";
import { all, button } from "./dom";
import { begin as beginLive } from "./live/begin";

type Forms = typeof import("./wallet/start");

let loading: Promise<Forms> | null = null;
let loaded = false;

function wallet(): Promise<Forms> {
  loading ??= import("./wallet/start").then(async (found) => {
    await found.begin();
    loaded = true;
    return found;
  });
  return loading;
}

/** Whether a wallet was connected here before. */
function isKnown(): boolean {
  return localStorage.getItem("menagerie:wallet") !== null;
}

function beginWallet(): void {
  const place = document.getElementById("wallet");
  if (!place) return;
  const connect = button("Connect wallet", async () => (await wallet()).connect());
  place.replaceChildren(connect);
  if (isKnown()) void wallet();
  const early = (event: Event): void => {
    const form = (event.target as HTMLElement).closest<HTMLFormElement>("form[data-action]");
    if (!form || loaded) return;
    event.preventDefault();
    void wallet().then(({ submitted }) => submitted(form));
  };
  document.addEventListener("submit", early);
}

function clicked(event: Event): void {
  const target = event.target as HTMLElement;
  const link = target.closest<HTMLAnchorElement>("a[data-download]");
  if (link) {
    event.preventDefault();
    void import("./download/verify").then(({ download }) => download(link));
  }
  const recompute = target.closest<HTMLButtonElement>("button[data-recompute]");
  if (!recompute) return;
  // The wallet's node is asked where there is one, so it is connected first.
  const ready: Promise<unknown> = isKnown() ? wallet() : Promise.resolve();
  void ready.then(() => import("./explain/recompute")).then((found) => found.recompute(recompute));
}

function generated(event: Event): void {
  const form = (event.target as HTMLElement).closest<HTMLFormElement>("form[data-generate]");
  if (!form) return;
  event.preventDefault();
  void import("./generate").then(({ generate }) => generate(form));
}

/** Show what only works with this script. */
function unhide(): void {
  for (const each of all("[data-recompute][hidden], [data-needs-script][hidden]")) each.hidden = false;
}

beginLive(); // first: it notes the page as the server made it
beginCommands();
beginWallet();
unhide();
document.addEventListener("click", clicked);
document.addEventListener("submit", generated);
document.addEventListener("menagerie:swapped", unhide);
