// SPDX-License-Identifier: Apache-2.0
// Carries an intent out, one signature after the other, and shows where it stands.
//
// Each step is looked up before it is signed: what is done already (in this page, before a reload, or
// by somebody else) is not signed again. A transaction is rehearsed by `eth_call` right before the
// wallet is asked, and followed until enough blocks lie over it.
//
// A plan that is not shown any more asks nothing: its run ends before the next step. One tab carries
// an intent out at a time, and reads before each step what the journal says of it by then.

import { recoverTypedDataAddress } from "viem";
import { amount, ether } from "../chain/amounts";
import { answered, noted } from "../chain/asked";
import { ask, type Hex, isRpcError, type Receipt } from "../chain/provider";
import type { Call, Event } from "../chain/reader";
import { type Fate, PACE, type Sent, same, Tracker } from "../chain/track";
import { all } from "../dom";
import { Refusal } from "../refusal";
import { type Session, WrongChain } from "../wallet/session";
import type { Actor, Done, Intent, Send, Sign, Step } from "./intent";
import { alone } from "./alone";
import { drop, type Entry, find, save } from "./journal";
import { Plan } from "./plan";
import { LOST, REJECTED, refused, sentence, standing, unseen } from "./words";

const UNAUTHORIZED = 4100;
const ALLOWANCE = /insufficient allowance/;

/** Thrown to end a run whose step says what has happened. `next`: what the button says then. */
class Halted extends Error {
  constructor(readonly next = "Try again") {
    super();
  }
}

/** Thrown where another tab has finished or closed the intent. */
class Gone extends Halted {}

/** The runs whose plans are shown. */
const shown = new Set<Run>();

export class Run implements Done {
  private readonly receipts = new Map<string, Receipt>();
  private readonly plan: Plan;
  private closed = false;
  /** Steps whose lost answers the reader was told of. */
  private readonly warned = new Set<string>();

  /** `written`: whether the journal has the entry. */
  constructor(
    private readonly session: Session,
    private readonly actor: Actor,
    private readonly intent: Intent,
    private readonly entry: Entry,
    place: HTMLElement,
    private written: boolean,
  ) {
    this.plan = new Plan(intent, () => this.carryOut(), () => this.close());
    place.replaceChildren(this.plan.element);
    shown.add(this);
  }

  /** Look at each step, rehearse what can be, and say what it costs. Signs nothing. */
  async prepare(): Promise<void> {
    let fee = 0n;
    let most = 0n;
    let unknown = false;
    const open = new Set<string>();
    for (const step of this.intent.steps) {
      if (await this.isDone(step)) {
        this.plan.show(step.key, "done", "Done already.");
        continue;
      }
      open.add(step.key);
      if (step.kind === "sign" || step.after?.some((key) => open.has(key))) {
        unknown ||= step.kind === "send";
        continue;
      }
      const call = await step.call(this);
      const revert = await this.actor.reader.rehearse(call, this.actor.account);
      if (revert && !(ALLOWANCE.test(revert.reason) && open.size > 1)) {
        throw refused(revert);
      }
      if (revert) {
        unknown = true;
        continue;
      }
      const cost = await this.actor.reader.cost(call, this.actor.account);
      fee += cost.fee;
      most += cost.most;
    }
    const rest = unknown ? ", and what the later steps cost, which is known when they come" : "";
    this.plan.cost(`The network's fee is about ${ether(fee)} (at most ${ether(most)})${rest}.`);
    await this.afford(most);
  }

  /** Bring the reader's keyboard to the plan. */
  focus(): void {
    this.plan.focus();
  }

  /** Show a refusal below the steps, and let the reader try again. */
  refuse(error: unknown): void {
    this.plan.refuse(sentence(error));
    if (!(error instanceof WrongChain)) return;
    this.plan.remedy(`Switch to chain ${error.wanted}`, () =>
      this.session.switchTo(error.wanted).catch((why: unknown) => this.refuse(why)),
    );
  }

  /** Sign and follow what is left to do, once no other tab does. */
  async carryOut(): Promise<void> {
    this.plan.begin();
    try {
      await alone(this.entry.id, () => this.wait(), () => this.steps());
    } catch (error) {
      if (error instanceof Gone) {
        this.closed = true;
        this.plan.end();
      } else if (error instanceof Halted) {
        this.plan.offer(error.next);
      } else {
        this.refuse(error);
      }
    }
  }

  private async steps(): Promise<void> {
    this.plan.elsewhere(false);
    for (const step of this.intent.steps) {
      this.read();
      await this.checkActor();
      if (await this.isDone(step)) this.plan.show(step.key, "done", this.plan.text(step.key) || "Done already.");
      else if (step.kind === "sign") await this.sign(step);
      else await this.send(step);
    }
    this.read();
    await this.finish();
  }

  /** Say what another tab is doing with it. */
  private wait(): void {
    this.plan.elsewhere(true);
    for (const { key } of this.intent.steps) {
      const sent = this.entry.sent[key];
      if (sent) this.plan.show(key, "sent", "Sent. Another tab follows it.", sent.hash);
    }
  }

  /** Go on with transactions that were sent before a reload. */
  async resume(): Promise<void> {
    if (!isEmpty(this.entry)) this.plan.label("Continue");
    const open = this.intent.steps.find(({ key }) => this.entry.sent[key] ?? this.entry.asked[key]);
    if (open) await this.carryOut();
  }

  // -- what the journal says

  /** Read the entry anew. Throws Halted where the plan was closed, here or in another tab. */
  private read(): void {
    if (this.closed) throw new Halted();
    const held = find(this.entry.id);
    if (held) Object.assign(this.entry, held);
    else if (this.written) throw new Gone();
  }

  /**
   * Change the entry as it stands in the journal by now. Throws Halted where it was closed.
   *
   * Nothing is written where nothing has changed: what another tab does is seen here a moment later,
   * and an entry written in that moment would undo that it was closed there.
   */
  private write(change: (entry: Entry) => void): void {
    this.read();
    const before = JSON.stringify(this.entry);
    change(this.entry);
    if (this.written && JSON.stringify(this.entry) === before) return;
    this.written = !isEmpty(this.entry);
    if (this.written) save(this.entry);
    else drop(this.entry.id);
  }

  // -- what earlier steps have brought

  async events(key: string): Promise<Event[]> {
    const receipt = this.receipts.get(key);
    return receipt ? this.actor.reader.events(receipt.logs) : [];
  }

  signature(key: string): Hex | undefined {
    return this.entry.signed[key];
  }

  // -- one step

  private async isDone(step: Step): Promise<boolean> {
    if (step.kind === "sign") return this.entry.signed[step.key] !== undefined;
    if (this.receipts.has(step.key)) return true;
    if (this.entry.sent[step.key]) return false;
    const asked = this.entry.asked[step.key];
    const answer = asked ? await answered(this.actor.reader.provider, asked) : "none";
    if (typeof answer === "object") {
      this.answer(step.key, answer);
      return false;
    }
    if (step.needed && !(await step.needed())) return true;
    if (answer === "unclear") throw unseen(this.actor.account);
    if (asked && !this.warned.has(step.key)) {
      this.warned.add(step.key);
      this.plan.show(step.key, "unknown", LOST);
      throw new Halted("Continue");
    }
    return false;
  }

  private async sign(step: Sign): Promise<void> {
    this.read();
    this.plan.show(step.key, "signing", `Sign it in your wallet, as ${step.signer}.`);
    const typed = { ...step.typed, types: { EIP712Domain: DOMAIN, ...step.typed.types } };
    const signature = await this.asked(step.key, () =>
      ask<Hex>(this.session.wallet.provider, "eth_signTypedData_v4", step.signer, JSON.stringify(typed)),
    );
    const signer = await recoverTypedDataAddress({ ...(step.typed as never as object), signature } as never);
    if (signer.toLowerCase() !== step.signer.toLowerCase()) {
      this.plan.show(step.key, "failed", `The signature is ${signer}'s.`);
      throw new Refusal(
        `The signature is ${signer}'s, not ${step.signer}'s.`,
        "Choose the other account in the wallet, then try again.",
      );
    }
    this.write((entry) => {
      entry.signed[step.key] = signature;
    });
    this.plan.show(step.key, "done", "Signed.");
  }

  private async send(step: Send): Promise<void> {
    let sent = this.entry.sent[step.key];
    if (!sent) {
      const call = await step.call(this);
      const revert = await this.actor.reader.rehearse(call, this.actor.account);
      if (revert) throw refused(revert);
      sent = await this.submit(step, call);
    }
    await this.follow(step, sent);
  }

  private async submit(step: Send, call: Call): Promise<Sent> {
    const { reader, account } = this.actor;
    const cost = await reader.cost(call, account);
    await this.afford(cost.most);
    const to = reader.contract(call.contract).address;
    const data = reader.data(call);
    const asked = await noted(reader.provider, account, to, data);
    await this.checkActor(); // again: the reader may have switched since the step began
    this.write((entry) => {
      entry.asked[step.key] = asked;
    });
    this.plan.show(step.key, "signing", "Confirm it in your wallet.");
    const [gas, chainId] = [cost.gas, reader.deployment.chainId].map((each) => `0x${each.toString(16)}`);
    const wanted = { from: account, to, data, gas, chainId };
    const hash = await this.asked(step.key, () =>
      ask<Hex>(reader.provider, "eth_sendTransaction", wanted),
    );
    const sent = { hash, from: account, to, data, nonce: null, block: asked.block };
    this.answer(step.key, sent);
    return sent;
  }

  /** Write down what a wallet has sent. */
  private answer(key: string, sent: Sent): void {
    this.write((entry) => {
      delete entry.asked[key];
      entry.sent[key] = sent;
    });
  }

  /** Ask the wallet's user. A refusal ends the run with words of its own. */
  private async asked<T>(key: string, question: () => Promise<T>): Promise<T> {
    try {
      return await question();
    } catch (error) {
      if (!isRpcError(error)) throw error;
      this.write((entry) => {
        delete entry.asked[key];
      });
      if (error.code === REJECTED) {
        this.plan.show(key, "rejected", "You rejected it in the wallet. Nothing was sent.");
        throw new Halted();
      }
      this.plan.show(key, "waiting", "");
      if (error.code === UNAUTHORIZED) {
        throw new Refusal("Your wallet is locked, or has withdrawn its permission.", "Unlock it, then try again.");
      }
      throw new Refusal(`Your wallet refused: ${error.message}`, "Nothing was sent.");
    }
  }

  /** Wait until a transaction is mined. It is watched on, behind what comes next. */
  private async follow(step: Send, sent: Sent): Promise<void> {
    const tracker = new Tracker(this.actor.reader.provider, sent, paced());
    let last: Fate | undefined;
    for (;;) {
      const fate = await this.look(tracker);
      this.write((entry) => {
        entry.sent[step.key] = sent; // with its number, once a node knows it
      });
      if (!same(last, fate) || fate.state === "slow") this.told(step, sent, fate);
      last = fate;
      if (fate.state === "done") {
        this.receipts.set(step.key, fate.receipt);
        void this.watch(step, sent, tracker, fate);
        return;
      }
      if (fate.state === "failed") {
        const why = await this.ended(step, fate.receipt);
        this.forget(step, sent);
        throw why;
      }
      if (fate.state === "cancelled" || fate.state === "replaced") {
        this.forget(step, sent);
        throw new Halted();
      }
      await pause(paced().everyMs);
    }
  }

  /** Look once. Another chain has other transactions, so what it says of this one counts for nothing. */
  private async look(tracker: Tracker): Promise<Fate> {
    const { provider, deployment } = this.actor.reader;
    const fate = await tracker.look();
    const chainId = await ask<Hex>(provider, "eth_chainId").then(Number, () => null);
    if (chainId === null) return { state: "offline" };
    return chainId === deployment.chainId ? fate : { state: "elsewhere" };
  }

  private async watch(step: Send, sent: Sent, tracker: Tracker, mined: Fate): Promise<void> {
    let last = mined;
    for (;;) {
      await pause(paced().everyMs);
      if (this.closed) return;
      const fate = await this.look(tracker);
      if (!same(last, fate)) this.told(step, sent, fate);
      if (fate.state === "done") this.receipts.set(step.key, fate.receipt);
      if (fate.state === "failed") {
        this.refuse(await this.ended(step, fate.receipt));
        if (find(this.entry.id)) this.forget(step, sent);
        return;
      }
      last = fate;
      if (fate.state !== "offline" && (await tracker.settled(fate).catch(() => false))) return;
    }
  }

  /** Have a step signed again: what was sent for it has come to nothing. */
  private forget(step: Send, sent: Sent): void {
    this.receipts.delete(step.key);
    this.write((entry) => {
      if (entry.sent[step.key]?.hash === sent.hash) delete entry.sent[step.key];
    });
  }

  /** A mined transaction that failed: the same call at its block says why. */
  private async ended(step: Send, receipt: Receipt): Promise<Refusal> {
    const call = await step.call(this);
    const revert = await this.actor.reader
      .rehearse(call, this.actor.account, receipt.blockNumber)
      .catch(() => undefined);
    const found = refused(revert ?? { reason: "", remedy: "It may have run out of gas; try again." });
    const why = `It was mined in block ${Number(receipt.blockNumber)} and failed. ${found.message}`;
    this.plan.show(step.key, "failed", why);
    return new Refusal(why);
  }

  private told(step: Send, sent: Sent, fate: Fate): void {
    const { chainId } = this.actor.reader.deployment;
    this.plan.show(step.key, fate.state, standing(fate, chainId), "hash" in fate ? fate.hash : sent.hash);
  }

  private async finish(): Promise<void> {
    const result = await this.intent.result(this);
    drop(this.entry.id);
    this.plan.finish(result);
    document.dispatchEvent(new CustomEvent("menagerie:acted"));
  }

  private async checkActor(): Promise<void> {
    const account = await this.session.unlocked();
    await this.session.reader();
    if (account.toLowerCase() === this.actor.account.toLowerCase()) return;
    throw new Refusal(
      `This was begun by ${this.actor.account}, but your wallet shows ${account}.`,
      "Choose the first account in the wallet, or close this and begin again.",
    );
  }

  private async afford(most: bigint): Promise<void> {
    const { reader, account } = this.actor;
    const held = BigInt(await ask<Hex>(reader.provider, "eth_getBalance", account, "latest"));
    if (held >= most) return;
    throw new Refusal(
      `${account} has ${amount(held, "ETH")}, but the network's fee may be ${ether(most)}.`,
      "Send it some ether for fees.",
    );
  }

  /** Forget the intent, and ask nothing more of it. What was sent stays sent. */
  close(): void {
    this.closed = true;
    shown.delete(this);
    drop(this.entry.id);
    this.plan.element.remove();
  }

}

/** Whether an entry says nothing that a reload must not lose. */
function isEmpty({ sent, signed, asked }: Entry): boolean {
  return [sent, signed, asked].every((each) => Object.keys(each).length === 0);
}

const DOMAIN = [
  { name: "name", type: "string" },
  { name: "version", type: "string" },
  { name: "chainId", type: "uint256" },
  { name: "verifyingContract", type: "address" },
];

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** The usual pace, or what the page asks for. */
function paced(): typeof PACE {
  const slow = Number(document.documentElement.dataset.slowMs);
  return slow > 0 ? { ...PACE, slowMs: slow } : PACE;
}

/** Close all plans, and remove what else forms have shown: one intent is carried out at a time. */
export function clearPlans(): void {
  for (const run of [...shown]) run.close();
  for (const place of all(".action-place")) place.replaceChildren();
}
