// SPDX-License-Identifier: Apache-2.0
// Binds the page's action forms: what a form holds becomes an intent, and the intent a plan below it.

import { actions } from "../actions";
import type { Hex } from "../chain/provider";
import { all, el } from "../dom";
import { Refusal } from "../refusal";
import { connect, current, onWallet } from "../wallet/header";
import type { Session } from "../wallet/session";
import { Fields } from "./intent";
import { type Entry, entries } from "./journal";
import { clearPlans, Run } from "./run";
import { sentence } from "./words";

const SELECTOR = "form[data-action]";

/** Answer every submission of an action form, also of forms that are swapped in later. */
export function begin(): void {
  document.addEventListener("submit", (event) => {
    const form = (event.target as HTMLElement).closest<HTMLFormElement>(SELECTOR);
    if (!form) return;
    event.preventDefault();
    void submitted(form);
  });
  onWallet(() => void resumeAll());
  document.addEventListener("menagerie:news", () => {
    if (document.querySelector(".action-place[data-again]")) void resumeAll();
  });
  void resumeAll();
}

/** Where a form's plan and refusals are shown: right behind it. */
function placeOf(form: HTMLFormElement): HTMLElement {
  const next = form.nextElementSibling;
  if (next instanceof HTMLElement && next.classList.contains("action-place")) return next;
  const made = el("div", { class: "action-place" });
  form.after(made);
  return made;
}

/** Handle a form: connect a wallet where there is none, then show what it would do. */
export async function submitted(form: HTMLFormElement): Promise<void> {
  if (form.dataset.busy) return;
  form.dataset.busy = "1";
  const place = placeOf(form);
  delete place.dataset.again;
  clearPlans();
  try {
    place.replaceChildren(el("p", { class: "hint", role: "status" }, "Asking your wallet and the chain …"));
    const session = await connect();
    if (!session) {
      place.replaceChildren();
      return;
    }
    await planned(form, session, place, null);
  } catch (error) {
    refuse(form, place, error);
  } finally {
    delete form.dataset.busy;
  }
}

async function planned(
  form: HTMLFormElement,
  session: Session,
  place: HTMLElement,
  known: Entry | null,
): Promise<void> {
  const name = form.dataset.action ?? "";
  const action = actions[name];
  if (!action) throw new Refusal(`This page has no action “${name}”.`);
  const fields = known ? new Fields(known.values) : Fields.of(form);
  const account = await session.unlocked();
  const reader = await session.reader();
  const begun = new Set(Object.keys({ ...known?.sent, ...known?.asked }));
  const actor = { reader, account, accounts: session.accounts, begun };
  const intent = await action(fields, actor);
  const entry = known ?? fresh(name, intent.title, fields, session, account);
  clearErrors(form);
  const run = new Run(session, actor, intent, entry, place, known !== null);
  if (known) {
    void run.resume();
    return;
  }
  try {
    await run.prepare();
  } catch (error) {
    run.refuse(error);
  }
  run.focus();
}

function fresh(action: string, title: string, fields: Fields, session: Session, account: Hex): Entry {
  return {
    id: crypto.randomUUID(),
    path: location.pathname,
    action,
    title,
    values: fields.values,
    chainId: session.chainId,
    account,
    sent: {},
    signed: {},
    asked: {},
  };
}

/** Show again what was begun on this page and has not come to an end. */
async function resumeAll(): Promise<void> {
  const session = current();
  if (!session?.account) return;
  for (const entry of entries()) {
    const form = formOf(entry);
    if (!form || entry.account.toLowerCase() !== session.account.toLowerCase()) continue;
    const place = placeOf(form);
    if (place.childElementCount && place.dataset.again === undefined) continue;
    try {
      fill(form, entry);
      reveal(form);
      delete place.dataset.again;
      await planned(form, session, place, entry);
    } catch (error) {
      refuse(form, place, error);
      place.dataset.again = ""; // the next block may find a node that answers
    }
  }
}

/** The form of this page that an entry was begun in: the same action about the same things. */
function formOf(entry: Entry): HTMLFormElement | undefined {
  if (entry.path !== location.pathname) return undefined;
  const held = new Fields(entry.values);
  return all<HTMLFormElement>(`form[data-action="${CSS.escape(entry.action)}"]`).find((form) =>
    all<HTMLInputElement>("input[type=hidden]", form).every((each) => held.get(each.name) === each.value),
  );
}

function fill(form: HTMLFormElement, entry: Entry): void {
  const held = new Fields(entry.values);
  for (const field of all<HTMLInputElement>("input:not([type=hidden]), textarea, select", form)) {
    if (!field.name) continue;
    const ticked = field.type === "checkbox" || field.type === "radio";
    if (ticked) field.checked = held.all(field.name).includes(field.value);
    else field.value = held.get(field.name);
  }
}

/** Open whatever folds the form away, so that its reader sees what was begun. */
function reveal(form: HTMLFormElement): void {
  for (let fold = form.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null) {
    fold.open = true;
  }
}

function clearErrors(form: HTMLFormElement): void {
  for (const field of all("[aria-invalid]", form)) field.removeAttribute("aria-invalid");
}

function refuse(form: HTMLFormElement, place: HTMLElement, error: unknown): void {
  clearErrors(form);
  place.replaceChildren(el("p", { class: "error", role: "alert" }, sentence(error)));
  const named = error instanceof Refusal && error.field ? form.elements.namedItem(error.field) : null;
  if (named instanceof HTMLElement) {
    named.setAttribute("aria-invalid", "true");
    named.focus();
  }
}
