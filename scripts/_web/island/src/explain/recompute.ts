// SPDX-License-Identifier: Apache-2.0
// Recomputes an explanation in front of the reader, from the reader's own node where there is one.
//
// The server's explanation is a claim. Here each formula is evaluated with integers, each number that
// the job's terms fix is read from the contract, and each payment is looked for in the receipt of the
// transaction that is said to prove it, decoded with the checked ABIs.

import { amount } from "../chain/amounts";
import { loadDeployment } from "../chain/deployment";
import { ask, type Hex, overHttp, type Provider, type Receipt } from "../chain/provider";
import { type Event, Reader } from "../chain/reader";
import { el } from "../dom";
import { sentence } from "../intents/words";
import { Refusal } from "../refusal";
import { current } from "../wallet/header";
import { evaluate, type Term } from "./formula";

type Numbers = Record<string, bigint>;

interface Step {
  result: Term;
  formula: string;
  terms: Term[];
}

interface Outcome {
  what: string;
  amount: string;
  account: Hex | null;
  tx: Hex | null;
  then: Outcome | null;
}

interface Payment {
  role: string;
  due: string;
  steps: Step[];
  outcomes: Outcome[];
}

interface Deed {
  sentence: string;
  tx: Hex;
}

interface Node {
  node: number;
  deeds: Deed[];
  payments: Payment[];
}

/** What `ape run explain --json` prints. */
export interface Explained {
  job: number;
  round_id: number;
  nodes: Node[];
}

/** One comparison. `equal` null: it can't be compared now. */
export interface Line {
  text: string;
  equal: boolean | null;
}

/** What the pool does with a node's pay, by the word that an outcome begins with. */
const EVENTS: [begins: string, events: string[]][] = [
  ["credited", ["CutCredited", "RewardsDistributed", "PayReleased", "RetainedReleased", "ShareSettled"]],
  ["retained", ["PayRetained"]],
  ["held", ["PayHeld"]],
  ["set aside", ["ShareSetAside"]],
  ["forfeited", ["RetainedForfeited"]],
  ["carried", ["PayCarried", "ShareSettled"]],
];

function shown(term: Term): string {
  return term.unit === "ZOO" ? amount(BigInt(term.value)) : `${term.value}${term.unit ? ` ${term.unit}` : ""}`;
}

/** Evaluate the formulas of a payment, and compare what they are built from. */
export function compute(payment: Payment): Line[] {
  const lines: Line[] = [];
  const results = new Map<string, string>();
  for (const { result, formula, terms } of payment.steps) {
    for (const term of terms) {
      const before = results.get(term.name);
      if (before !== undefined && before !== term.value) {
        lines.push({ text: `${term.name} is ${shown(term)} here, but was ${before} before`, equal: false });
      }
    }
    let found: bigint | null = null;
    try {
      found = evaluate(formula, terms);
    } catch {
      lines.push({ text: `${result.name} = ${formula} can't be computed`, equal: false });
    }
    if (found !== null) {
      const equal = found === BigInt(result.value);
      const own = shown({ ...result, value: found.toString() });
      const text = equal ? `${result.name} = ${formula} = ${own}` : `${result.name} = ${formula} = ${own}, but ${shown(result)} is claimed`;
      lines.push({ text, equal });
    }
    results.set(result.name, result.value);
  }
  const last = payment.steps.at(-1)?.result.value ?? "0";
  const due = BigInt(payment.due);
  const told = BigInt(last) === due;
  lines.push({ text: `what was due as ${payment.role} is ${amount(due)}`, equal: told });
  const sum = payment.outcomes.reduce((total, outcome) => total + BigInt(outcome.amount), 0n);
  lines.push({ text: `where it went adds up to ${amount(sum)}`, equal: sum === due });
  return lines;
}

/** Whether an event says that this amount of this node had this fate. */
export function proves(event: Event, outcome: Outcome, node: number): boolean {
  const names = EVENTS.find(([begins]) => outcome.what.startsWith(begins))?.[1] ?? [];
  if (event.contract !== "RewardPool" || !names.includes(event.name)) return false;
  const { args } = event;
  const units = BigInt(outcome.amount);
  const same = (address: unknown): boolean =>
    outcome.account === null || String(address).toLowerCase() === outcome.account.toLowerCase();
  if (event.name === "RewardsDistributed") {
    const nodes = args.nodes as bigint[];
    const at = nodes.indexOf(BigInt(node));
    return at >= 0 && (args.amounts as bigint[])[at] === units && same((args.payouts as Hex[])[at]);
  }
  const to = args.payout ?? args.treasury;
  const about = args.node_id === undefined || args.node_id === BigInt(node);
  // A release may bring several rounds' pay at once: it brings at least this.
  const enough = /Released|Settled|Forfeited|Carried/.test(event.name) ? (args.amount as bigint) >= units : args.amount === units;
  return about && enough && (to === undefined || same(to));
}

class Prover {
  private readonly receipts = new Map<Hex, Promise<Event[]>>();

  constructor(
    private readonly reader: Reader,
    private readonly explained: Explained,
  ) {}

  private events(tx: Hex): Promise<Event[]> {
    const known = this.receipts.get(tx);
    if (known) return known;
    const asked = ask<Receipt | null>(this.reader.provider, "eth_getTransactionReceipt", tx).then(
      (receipt) => (receipt && Number(receipt.status) === 1 ? this.reader.events(receipt.logs) : []),
    );
    this.receipts.set(tx, asked);
    return asked;
  }

  /** Compare what the contracts themselves hold: the job's terms, and the round's pool. */
  async held(payment: Payment): Promise<Line[]> {
    const place = [BigInt(this.explained.job), BigInt(this.explained.round_id)] as const;
    const { terms } = await this.reader.read<{ terms: Numbers }>("TrainingJobs", "job", place[0]);
    const pool = await this.reader.read<Numbers>("RewardPool", "pool", ...place);
    const own: Record<string, bigint | undefined> = {
      reward: terms.reward_per_round,
      "aggregator's share": terms.aggregator_bps,
      "verifiers' share": terms.verifier_bps,
      pool: pool.amount,
      "for trainers alone": pool.for_trainers,
      "trainers' part": pool.trainer_amount,
      "all contributions": pool.total_contribution,
      "all scores": pool.total_contribution,
    };
    const named = payment.steps.flatMap(({ result, terms: each }) => [result, ...each]);
    const given = new Map(named.map((term) => [term.name, term]));
    return [...given.values()].flatMap((term) => {
      const value = own[term.name];
      if (value === undefined) return [];
      const text = `${term.name} on chain is ${shown({ ...term, value: String(value) })}`;
      return [{ text, equal: value === BigInt(term.value) }];
    });
  }

  async outcome(outcome: Outcome, node: number): Promise<Line[]> {
    const lines: Line[] = [];
    for (let each: Outcome | null = outcome; each; each = each.then) {
      const now: Outcome = { ...each, amount: outcome.amount };
      const text = `${amount(BigInt(outcome.amount))} ${each.what}${each.account ? ` to ${each.account}` : ""}`;
      if (!each.tx) {
        lines.push({ text: `${text}: no transaction is named for it`, equal: null });
        continue;
      }
      const found = (await this.events(each.tx)).some((event) => proves(event, now, node));
      lines.push({ text: `${text}: ${found ? "in" : "not in"} the receipt of ${each.tx}`, equal: found });
    }
    return lines;
  }

  async deed(deed: Deed, node: number): Promise<Line> {
    const events = await this.events(deed.tx);
    const about = events.some(({ args }) =>
      Object.values(args).flat().some((value) => value === BigInt(node) || args.report_id !== undefined),
    );
    return { text: `it ${deed.sentence}: ${about ? "in" : "not in"} the receipt of ${deed.tx}`, equal: about };
  }
}

/** The reader's own node: the wallet's, else the one that the page names. */
function provider(): [Provider, string] {
  const session = current();
  if (session) return [session.wallet.provider, "your wallet's node"];
  const url = document.documentElement.dataset.rpc;
  if (url) return [overHttp(url), `the node ${url}`];
  throw new Refusal("There is no node to read the chain from.", "Connect a wallet: its node is asked then.");
}

/** Compare every line of an explanation. */
export async function check(explained: Explained, reader: Reader): Promise<Line[]> {
  const prover = new Prover(reader, explained);
  const lines: Line[] = [];
  for (const { node, deeds, payments } of explained.nodes) {
    for (const deed of deeds) lines.push(await prover.deed(deed, node));
    for (const payment of payments) {
      lines.push(...compute(payment), ...(await prover.held(payment)));
      for (const outcome of payment.outcomes) lines.push(...(await prover.outcome(outcome, node)));
    }
  }
  return lines;
}

/** Handle the button inside `<section data-explain="…">`. */
export async function recompute(button: HTMLButtonElement): Promise<void> {
  const section = button.closest<HTMLElement>("[data-explain]");
  if (!section) return;
  button.disabled = true;
  const place = section.querySelector<HTMLElement>(".recomputed") ?? el("div", { class: "recomputed", "aria-live": "polite" });
  section.append(place);
  place.replaceChildren(el("p", {}, "Recomputing …"));
  try {
    const [asked, whose] = provider();
    const deployment = await loadDeployment();
    const chain = Number(await ask<Hex>(asked, "eth_chainId"));
    if (chain !== deployment.chainId) {
      throw new Refusal(`${whose} is on chain ${chain}, not ${deployment.chainId}.`, "Switch the wallet to it.");
    }
    const answer = await fetch(section.dataset.explain ?? "");
    if (!answer.ok) throw new Refusal(`The server answers with status ${answer.status}.`, "Try again later.");
    const lines = await check((await answer.json()) as Explained, new Reader(deployment, asked));
    show(place, lines, whose);
  } catch (error) {
    place.replaceChildren(el("p", { class: "error", role: "alert" }, sentence(error)));
  } finally {
    button.disabled = false;
  }
}

function show(place: HTMLElement, lines: Line[], whose: string): void {
  const different = lines.filter(({ equal }) => equal === false).length;
  const compared = lines.filter(({ equal }) => equal !== null).length;
  const verdict = different
    ? `${different} of ${compared} numbers are different: do not trust this server.`
    : `All ${compared} numbers are equal, recomputed here and read through ${whose}.`;
  const items = lines.map(({ text, equal }) => {
    const word = equal === null ? "open" : equal ? "equal" : "different";
    return el("li", { "data-equal": word }, el("strong", {}, word), ` ${text}`);
  });
  const state = different ? "different" : "equal";
  place.replaceChildren(el("p", { class: "verdict", "data-equal": state }, verdict), el("ul", {}, ...items));
}
