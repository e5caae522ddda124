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

function wallet(): Promise<Forms> {
  loading ??= import("./wallet/start").then(async (found) => {
    await found.begin();
    return found;
  });
  return loading;
}

function beginWallet(): void {
  const place = document.getElementById("wallet");
  if (!place) return;
  const connect = button("Connect wallet", async () => (await wallet()).connect());
  place.replaceChildren(connect);
  const known = localStorage.getItem("menagerie:wallet") !== null;
  if (known) void wallet();
  const early = (event: Event): void => {
    const form = (event.target as HTMLElement).closest<HTMLFormElement>("form[data-action]");
    if (!form || loading) return;
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
  if (recompute) void import("./explain/recompute").then((found) => found.recompute(recompute));
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

beginLive();
beginCommands();
beginWallet();
unhide();
document.addEventListener("click", clicked);
document.addEventListener("submit", generated);
document.addEventListener("menagerie:swapped", unhide);
