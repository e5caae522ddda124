// SPDX-License-Identifier: Apache-2.0
// Counts down: `<time data-until="…" data-now="…">`, both in seconds of the chain's clock.
//
// `data-now` is the chain's time when the page was made, so a reader's wrong clock does not matter.

import { all } from "../dom";

const began = new WeakMap<HTMLElement, number>();

/** Spell what is left: "1 h 02 min", "4 min 09 s", "12 s". */
export function left(seconds: number): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  const [days, hours, minutes] = [86_400, 3_600, 60].map((size) => Math.floor(seconds / size)) as [number, number, number];
  if (days) return `${days} d ${two(hours % 24)} h`;
  if (hours) return `${hours} h ${two(minutes % 60)} min`;
  if (minutes) return `${minutes} min ${two(seconds % 60)} s`;
  return `${seconds} s`;
}

function tick(): void {
  for (const clock of all("time[data-until][data-now]")) {
    const start = began.get(clock) ?? performance.now();
    began.set(clock, start);
    const passed = (performance.now() - start) / 1000;
    const rest = Math.ceil(Number(clock.dataset.until) - Number(clock.dataset.now) - passed);
    if (!Number.isFinite(rest)) continue;
    const words = rest > 0 ? left(rest) : (clock.dataset.over ?? "due");
    if (clock.textContent !== words) clock.textContent = words;
  }
}

/** Count all clocks of the page down, also those that are swapped in. */
export function begin(): void {
  tick();
  window.setInterval(tick, 1000);
  document.addEventListener("menagerie:swapped", tick);
}
