// SPDX-License-Identifier: Apache-2.0
// What is said to the reader where something can't be done: what is wrong, and what to do about it.

/** A refusal in sentences. `field`: the name of the form's field that it is about. */
export class Refusal extends Error {
  constructor(
    readonly what: string,
    readonly remedy = "",
    readonly field = "",
  ) {
    super(remedy ? `${what} ${remedy}` : what);
  }
}
