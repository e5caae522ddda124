// SPDX-License-Identifier: Apache-2.0
// Shows an intent: what it does, what the wallet signs for it, and where each step stands.

import type { Fate } from "../chain/track";
import type { Hex } from "../chain/provider";
import { button, el } from "../dom";
import type { Intent, Result, Step } from "./intent";

export type State = Fate["state"] | "waiting" | "signing" | "rejected";

export class Plan {
  readonly element: HTMLElement;
  private readonly lines = new Map<string, HTMLLIElement>();
  private readonly costs = el("p", { class: "hint" });
  private readonly tab = el("p", { class: "hint", hidden: true }, "Another tab of this page goes on with it.");
  private readonly note = el("p", { class: "error", role: "alert", hidden: true });
  private readonly outcome = el("p", { class: "action-result", hidden: true });
  private readonly go: HTMLButtonElement;

  /** `onGo` and `onClose`: what the buttons do. */
  constructor(intent: Intent, onGo: () => Promise<void>, onClose: () => void) {
    this.go = button("Continue in the wallet", onGo, { class: "button primary" });
    const steps = intent.steps.map((step, index) => this.line(step, index));
    const many = intent.steps.length > 1;
    this.element = el(
      "section",
      { class: "action-plan", "aria-live": "polite" },
      el("h3", {}, intent.title),
      ...intent.happens.map((sentence) => el("p", {}, sentence)),
      el("p", {}, many ? "Your wallet signs, one after the other, that it will:" : "Your wallet signs that it will:"),
      el("ol", {}, ...steps),
      this.costs,
      this.tab,
      this.note,
      this.outcome,
      el("p", { class: "action-buttons" }, this.go, button("Close", onClose)),
    );
  }

  /** Bring the reader's keyboard to it. */
  focus(): void {
    this.go.focus();
  }

  /** Say what the network's fee will be. */
  cost(words: string): void {
    this.costs.textContent = words;
  }

  /** What is said of a step. */
  text(key: string): string {
    return this.lines.get(key)?.querySelector(".state")?.textContent ?? "";
  }

  /** Say where a step stands. */
  show(key: string, state: State, words: string, hash?: Hex): void {
    const line = this.lines.get(key);
    if (!line) return;
    line.dataset.state = state;
    const said = line.querySelector(".state");
    if (said && said.textContent !== words) said.textContent = words;
    const code = line.querySelector<HTMLElement>(".hash");
    if (code && hash) {
      code.textContent = hash;
      code.hidden = false;
    }
  }

  /** It is being carried out: nothing more can be asked for. */
  begin(): void {
    this.go.disabled = true;
    this.note.hidden = true;
  }

  /** The reader may press the button again, which says `words`. */
  offer(words: string): void {
    this.go.disabled = false;
    this.go.textContent = words;
  }

  /** What the button says. */
  label(words: string): void {
    this.go.textContent = words;
  }

  /** Say what went wrong. */
  refuse(words: string): void {
    this.note.textContent = words;
    this.note.hidden = false;
    this.offer("Try again");
  }

  /** A button beside the first one, which is removed once it has done what it says. */
  remedy(words: string, does: () => Promise<void>): void {
    const change = button(words, async () => {
      await does();
      change.remove();
    });
    this.go.after(change);
  }

  /** Say whether another tab goes on with it. */
  elsewhere(is: boolean): void {
    this.tab.hidden = !is;
  }

  /** Say what came of it; nothing is left to press. */
  finish(result: Result): void {
    this.outcome.replaceChildren(`${result.text} `, el("a", { href: result.href }, "See it"));
    this.outcome.hidden = false;
    this.go.hidden = true;
  }

  /** Stop where another tab has brought it to its end. */
  end(): void {
    this.tab.hidden = true;
    this.note.textContent = "It was finished or closed in another tab of this page.";
    this.note.hidden = false;
    this.go.hidden = true;
  }

  private line(step: Step, index: number): HTMLLIElement {
    const made = el(
      "li",
      { class: "action-step", "data-state": "waiting", "data-step": step.key },
      el("span", { class: "words" }, `${step.words}.`),
      " ",
      el("span", { class: "state" }),
      " ",
      el("code", { class: "hash", hidden: true }),
    );
    made.value = index + 1;
    this.lines.set(step.key, made);
    return made;
  }
}
