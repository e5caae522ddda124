// SPDX-License-Identifier: Apache-2.0
// Finds the wallets of this browser: each announces itself (EIP-6963).

import type { Provider } from "../chain/provider";

export interface Wallet {
  /** Unique in this page only. */
  uuid: string;
  /** What a wallet calls itself: shown as text. */
  name: string;
  /** Stays the same, so that the chosen wallet is found again: "org.example.wallet". */
  rdns: string;
  provider: Provider;
}

interface Announcement {
  info: { uuid: string; name: string; rdns: string };
  provider: Provider;
}

const found = new Map<string, Wallet>();

/** Call `changed` with all wallets, now and whenever one more announces itself. */
export function discover(changed: (wallets: Wallet[]) => void): void {
  window.addEventListener("eip6963:announceProvider", (event) => {
    const { info, provider } = (event as CustomEvent<Announcement>).detail;
    const fits = typeof info?.uuid === "string" && typeof provider?.request === "function";
    if (!fits || found.has(info.uuid)) return;
    const { uuid, name, rdns } = info;
    found.set(uuid, { uuid, name: String(name).slice(0, 40), rdns: String(rdns), provider });
    changed([...found.values()]);
  });
  window.dispatchEvent(new Event("eip6963:requestProvider"));
  const old = (window as { ethereum?: Provider }).ethereum;
  if (!found.size && old) {
    found.set("injected", { uuid: "injected", name: "Browser wallet", rdns: "injected", provider: old });
  }
  changed([...found.values()]);
}
