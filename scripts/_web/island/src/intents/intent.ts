// SPDX-License-Identifier: Apache-2.0
// What a reader wants done: the sentences that say it, and the signatures that it takes.

import type { Call, Event, Reader } from "../chain/reader";
import type { Hex } from "../chain/provider";

/** What a form holds, by the names of its fields. */
export class Fields {
  constructor(readonly values: [string, string][]) {}

  static of(form: HTMLFormElement): Fields {
    const named = [...new FormData(form)].filter(([, value]) => typeof value === "string");
    return new Fields(named as [string, string][]);
  }

  /** The value of a field, empty where the form has none. */
  get(name: string): string {
    return (this.values.find(([each]) => each === name)?.[1] ?? "").trim();
  }

  all(name: string): string[] {
    return this.values.filter(([each]) => each === name).map(([, value]) => value.trim());
  }
}

/** Who acts, and through which contracts. */
export interface Actor {
  reader: Reader;
  account: Hex;
  accounts: Hex[];
  /** Keys of the steps that were sent before: their effects are on the chain, perhaps. */
  begun: ReadonlySet<string>;
}

/** What earlier steps have brought. */
export interface Done {
  events(key: string): Promise<Event[]>;
  signature(key: string): Hex | undefined;
}

/** A transaction. `words` finish the sentence "Your wallet signs that it will …". */
export interface Send {
  kind: "send";
  key: string;
  words: string;
  call(done: Done): Promise<Call> | Call;
  /** Whether it is still to do; always, where it is left out. */
  needed?(): Promise<boolean>;
  /** Keys of earlier steps without which it can't be rehearsed. */
  after?: string[];
}

/** A signature that is no transaction: it costs nothing and changes nothing by itself. */
export interface Sign {
  kind: "sign";
  key: string;
  words: string;
  signer: Hex;
  typed: {
    domain: Record<string, unknown>;
    types: Record<string, { name: string; type: string }[]>;
    primaryType: string;
    message: Record<string, unknown>;
  };
}

export type Step = Send | Sign;

export interface Result {
  text: string;
  href: string;
}

export interface Intent {
  title: string;
  /** What will happen, in whole sentences. */
  happens: string[];
  steps: Step[];
  result(done: Done): Promise<Result> | Result;
}

/** Makes an intent of a form. Throws a Refusal where what the form holds can't be done. */
export type Action = (fields: Fields, actor: Actor) => Promise<Intent>;

/** A transaction with arguments that are known from the beginning. */
export function send(key: string, words: string, call: Call): Send {
  return { kind: "send", key, words, call: () => call };
}
