// SPDX-License-Identifier: Apache-2.0
// Spells the local command of a form: `<form data-command="ape run job pack">`.
//
// Fields with `data-option` become options of the command; what the shell would read as something
// else is quoted. The page and this script need no key for it: the command runs at the reader's.

import { all } from "./dom";

/** Quote a word for a POSIX shell where it needs that. */
export function quoted(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The command that a form describes. */
export function command(form: HTMLFormElement): string {
  const words = [form.dataset.command ?? ""];
  for (const field of all<HTMLInputElement | HTMLTextAreaElement>("[data-option]", form)) {
    const option = field.dataset.option ?? "";
    if (field instanceof HTMLInputElement && field.type === "checkbox") {
      if (field.checked) words.push(option);
      continue;
    }
    for (const value of field.value.split("\n").map((line) => line.trim())) {
      if (value) words.push(`${option} ${quoted(value)}`);
    }
  }
  return words.join(" ");
}

function show(form: HTMLFormElement): void {
  const output = form.querySelector("[data-shown]");
  if (output) output.textContent = command(form);
}

/** Keep the commands of the page's forms up to date with what is typed. */
export function begin(): void {
  for (const form of all<HTMLFormElement>("form[data-command]")) show(form);
  document.addEventListener("input", (event) => {
    const form = (event.target as HTMLElement).closest<HTMLFormElement>("form[data-command]");
    if (form) show(form);
  });
}
