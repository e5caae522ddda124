// SPDX-License-Identifier: Apache-2.0
// The box in which a reader tries a job's newest model: the server computes, within its limits.

import { all, el } from "./dom";

interface Answer {
  text?: string;
  model?: string;
  tokens?: number;
  seconds?: number;
  detail?: unknown;
}

/** Send a prompt and show what the model makes of it. */
export async function generate(form: HTMLFormElement): Promise<void> {
  const place = placeOf(form);
  const buttons = all<HTMLButtonElement>("button", form);
  for (const each of buttons) each.disabled = true;
  place.replaceChildren(el("p", { class: "hint" }, "The model is at work …"));
  try {
    const held = Object.fromEntries(new FormData(form)) as Record<string, string>;
    const [seed] = crypto.getRandomValues(new Uint32Array(1));
    const body = { prompt: held.prompt ?? "", max_tokens: Number(held.max_tokens ?? 64), seed };
    const answer = await fetch(form.action, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const found = (await answer.json()) as Answer;
    place.replaceChildren(
      ...(answer.ok
        ? written(body.prompt, found)
        : [el("p", { class: "error", role: "alert" }, refusal(answer, found))]),
    );
  } catch {
    place.replaceChildren(
      el("p", { class: "error", role: "alert" }, "The server does not answer. Try again later."),
    );
  } finally {
    for (const each of buttons) each.disabled = false;
  }
}

/** The prompt, what follows it, and which model has written that. */
function written(prompt: string, { text = "", model, tokens, seconds }: Answer): HTMLElement[] {
  const rest = text.startsWith(prompt) ? text.slice(prompt.length) : text;
  const by = `${tokens ?? "?"} tokens in ${(seconds ?? 0).toFixed(1)} s, by the model ${model ?? ""}`;
  return [
    el("pre", { class: "generated" }, el("b", {}, prompt), rest),
    el("p", { class: "hint" }, by),
  ];
}

function refusal(answer: Response, found: Answer): string {
  if (answer.status === 429) {
    const wait = answer.headers.get("retry-after");
    return `Too many readers try the model now. Try again ${wait ? `in ${wait} s` : "later"}.`;
  }
  return typeof found.detail === "string" ? found.detail : `The server refuses with status ${answer.status}.`;
}

function placeOf(form: HTMLFormElement): HTMLElement {
  const next = form.nextElementSibling;
  if (next instanceof HTMLElement && next.classList.contains("generate-place")) return next;
  const made = el("div", { class: "generate-place", "aria-live": "polite" });
  form.after(made);
  return made;
}
