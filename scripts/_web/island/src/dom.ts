// SPDX-License-Identifier: Apache-2.0
// Makes elements. Text is set as text and never as HTML: much of what a page shows was written by
// strangers.

export type Child = Node | string;

/** Make an element. `attributes`: a value of `true` sets an empty one, `false` leaves it out. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | boolean> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Make a button that does not submit the form around it. */
export function button(
  label: string,
  press: () => unknown,
  attributes: Record<string, string> = {},
): HTMLButtonElement {
  const made = el("button", { type: "button", class: "button", ...attributes }, label);
  made.addEventListener("click", () => void press());
  return made;
}

/** Find elements below a root, by selector. */
export function all<T extends HTMLElement = HTMLElement>(
  selector: string,
  root: ParentNode = document,
): T[] {
  return [...root.querySelectorAll<T>(selector)];
}
