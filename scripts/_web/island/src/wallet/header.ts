// SPDX-License-Identifier: Apache-2.0
// The wallet's place in the page's header: connect, what is connected, and what is wrong with it.

import { brief, short } from "../chain/amounts";
import { OtherDeployment, remember } from "../chain/deployment";
import { isRpcError } from "../chain/provider";
import { button, el } from "../dom";
import { sentence } from "../intents/words";
import { discover, type Wallet } from "./discovery";
import { Session, WrongChain } from "./session";

let wallets: Wallet[] = [];
let session: Session | null = null;
let balancing = false;
let reconnecting: Promise<void> | null = null;
const listeners = new Set<() => void>();

const place = (): HTMLElement => document.getElementById("wallet") as HTMLElement;

/** The connected session, null without one. */
export function current(): Session | null {
  return session;
}

/** Call `listener` whenever another wallet, account or chain is shown. */
export function onWallet(listener: () => void): void {
  listeners.add(listener);
}

/** Find wallets and show the header. Connects again what was connected before. */
export async function begin(): Promise<void> {
  discover((found) => {
    wallets = found;
    reconnecting ??= reconnect();
  });
  reconnecting ??= reconnect();
  await reconnecting;
  render();
  for (const event of ["menagerie:news", "menagerie:acted"]) {
    document.addEventListener(event, () => void showBalance());
  }
}

async function reconnect(): Promise<void> {
  // A wallet's script may run after this one: it has a moment to announce itself.
  await new Promise((resolve) => setTimeout(resolve, 50));
  for (const wallet of wallets) {
    const found = await Session.again(wallet).catch(() => null);
    if (found) return adopt(found);
  }
}

function adopt(found: Session): void {
  session = found;
  found.onChange(() => {
    if (session !== found) return;
    render();
    for (const listener of listeners) listener();
  });
  render();
  void check();
  for (const listener of listeners) listener();
}

/** Have the reader choose a wallet and connect it. Null where none was connected. */
export async function connect(): Promise<Session | null> {
  if (session) return session;
  const wallet = wallets.length === 1 ? wallets[0] : await choose();
  if (!wallet) return null;
  try {
    adopt(await Session.connect(wallet));
  } catch (error) {
    const rejected = isRpcError(error) && error.code === 4001;
    say(rejected ? "You rejected the connection in the wallet." : sentence(error));
  }
  return session;
}

function choose(): Promise<Wallet | null> {
  return new Promise((resolve) => {
    const dialog = el("dialog", { class: "wallets", "aria-labelledby": "wallets-title" });
    const done = (wallet: Wallet | null): void => {
      resolve(wallet);
      dialog.close();
      dialog.remove();
    };
    const list = wallets.map((wallet) =>
      el("li", {}, button(wallet.name, () => done(wallet), { "data-rdns": wallet.rdns })),
    );
    dialog.append(
      el("h2", { id: "wallets-title" }, list.length ? "Choose a wallet" : "No wallet was found"),
      list.length
        ? el("ul", {}, ...list)
        : el("p", {}, "Install a browser wallet that follows EIP-6963, then load this page again."),
      button("Close", () => done(null)),
    );
    dialog.addEventListener("cancel", () => done(null));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Check the deployment on the wallet's chain, and say in the header what is wrong. */
async function check(): Promise<void> {
  try {
    const reader = await (session as Session).reader();
    say("");
    place().dataset.deployment = reader.deployment.sha256;
    await showBalance();
  } catch (error) {
    complain(error);
  }
}

/** Show what the account has, and what it can claim. What can't be read stays as it was. */
async function showBalance(): Promise<void> {
  const label = place().querySelector(".wallet-balance");
  const account = session?.account;
  if (!label || !account || !place().dataset.deployment || balancing) return;
  balancing = true;
  try {
    const reader = await (session as Session).reader();
    const held = await reader.read<bigint>("ZooToken", "balanceOf", account);
    const pending = await reader.read<bigint>("RewardPool", "pending", account);
    const claim = pending ? `, ${brief(pending)} to claim` : "";
    if (session?.account === account) label.textContent = ` ${brief(held)}${claim} `;
  } catch {
    return;
  } finally {
    balancing = false;
  }
}

/** Say what is wrong, with the button that mends it where there is one. */
function complain(error: unknown): void {
  say(sentence(error));
  const note = place().querySelector(".wallet-note");
  if (error instanceof WrongChain) {
    const mend = async (): Promise<void> => {
      await session?.switchTo(error.wanted).catch((why: unknown) => say(sentence(why)));
      if (session?.chainId === error.wanted) await check();
    };
    note?.append(" ", button(`Switch to chain ${error.wanted}`, mend));
  }
  if (error instanceof OtherDeployment) {
    const mend = async (): Promise<void> => {
      remember(error.chainId, error.found);
      await check();
    };
    note?.append(" ", button("I have compared it: use the new one", mend));
  }
}

function say(text: string): void {
  let note = place().querySelector<HTMLElement>(".wallet-note");
  if (!note) {
    note = el("p", { class: "wallet-note error", role: "alert" });
    place().append(note);
  }
  note.replaceChildren(text);
  note.hidden = !text;
}

function render(): void {
  const note = place().querySelector(".wallet-note");
  const shown: (Node | string)[] = [];
  if (!session) {
    shown.push(button("Connect wallet", connect));
  } else {
    const name = session.account ? short(session.account) : "locked";
    const label = el("span", { class: "wallet-name" }, `${session.wallet.name}: `, el("code", {}, name));
    if (session.account) label.title = session.account;
    shown.push(label, " ", el("span", { class: "wallet-balance" }));
    if (!session.account) shown.push(button("Unlock", () => session?.unlocked().catch(complain)));
    shown.push(button("Disconnect", disconnect));
  }
  place().replaceChildren(...shown, ...(note ? [note] : []));
  if (session) void check();
}

function disconnect(): void {
  Session.forget();
  session = null;
  delete place().dataset.deployment;
  say("");
  render();
  for (const listener of listeners) listener();
}
