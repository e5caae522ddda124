// SPDX-License-Identifier: Apache-2.0
// Lets one tab of this browser carry an intent out at a time.
//
// The browser takes the lock back from a tab that is closed or loaded again, so no tab waits for one
// that is gone.

/** Do something with an intent while no other tab does. `waits` is called where another one has it. */
export async function alone(id: string, waits: () => void, work: () => Promise<void>): Promise<void> {
  const name = `menagerie:${id}`;
  const had = await navigator.locks.request(name, { ifAvailable: true }, async (lock) => {
    if (lock) await work();
    return lock !== null;
  });
  if (had) return;
  waits();
  await navigator.locks.request(name, work);
}
