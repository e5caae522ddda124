// SPDX-License-Identifier: Apache-2.0
// What a node's owner does: register, add stake, settings, exit, withdraw.

import { amount, parseAddress, parseAmount, parseWhole } from "../chain/amounts";
import type { Hex } from "../chain/provider";
import { type Action, type Actor, type Fields, type Send, type Sign, send } from "../intents/intent";
import { Refusal } from "../refusal";
import { afford, allow, moment, span } from "./words";

const ROLES: Record<string, { bit: bigint; stake: "trainer_stake" | "verifier_stake" | "aggregator_stake" }> = {
  trainer: { bit: 1n, stake: "trainer_stake" },
  verifier: { bit: 2n, stake: "verifier_stake" },
  aggregator: { bit: 4n, stake: "aggregator_stake" },
};
const NO_KEY = `0x${"0".repeat(64)}` as const;

interface Parameters {
  unbonding_period: bigint;
  trainer_stake: bigint;
  verifier_stake: bigint;
  aggregator_stake: bigint;
}

interface Node {
  owner: Hex;
  payout: Hex;
  operator: Hex;
  stake: bigint;
  unbonding: bigint;
  unlock_at: bigint;
}

async function nodeOf({ reader }: Actor, fields: Fields): Promise<[number, Node]> {
  const id = parseWhole(fields.get("node_id"), "node_id", 1);
  return [id, await reader.read<Node>("NodeRegistry", "node", BigInt(id))];
}

/**
 * The operator's consent: empty where it is the owner, the pasted one, or a signature that the
 * wallet makes with the operator's account. Throws a Refusal where none can be had.
 */
async function consent(
  { reader, account, accounts }: Actor,
  operator: Hex,
  pasted: string,
): Promise<{ steps: Sign[]; given: Hex | null }> {
  if (operator.toLowerCase() === account.toLowerCase()) return { steps: [], given: "0x" };
  if (pasted) {
    if (!/^0x[0-9a-f]{130}$/i.test(pasted)) {
      throw new Refusal(
        "The consent is no signature: it has 0x and 130 hexadecimal digits.",
        "Paste what `ape run node consent` has printed.",
        "consent",
      );
    }
    return { steps: [], given: pasted as Hex };
  }
  if (!accounts.some((each) => each.toLowerCase() === operator.toLowerCase())) {
    throw new Refusal(
      `${operator} must agree, and this wallet does not show that account.`,
      `Where its key is, run \`ape run node consent --account … --owner ${account}\` and paste ` +
        "what it prints, or let the wallet show that account to this page.",
      "consent",
    );
  }
  const { address } = reader.contract("NodeRegistry");
  const nonce = await reader.read<bigint>("NodeRegistry", "consents_used", operator);
  const step: Sign = {
    kind: "sign",
    key: "consent",
    words: `agree, with the operator's account ${operator}, to serve a node of ${account} (a signature, no transaction)`,
    signer: operator,
    typed: {
      domain: {
        name: "Menagerie NodeRegistry",
        version: "1",
        chainId: reader.deployment.chainId,
        verifyingContract: address,
      },
      types: {
        OperatorConsent: [
          { name: "operator", type: "address" },
          { name: "owner", type: "address" },
          { name: "nonce", type: "uint256" },
        ],
      },
      primaryType: "OperatorConsent",
      message: { operator, owner: account, nonce: nonce.toString() },
    },
  };
  return { steps: [step], given: null };
}

/** The address of a field, or of the wallet where the field is empty. */
function addressOr(fields: Fields, name: string, otherwise: Hex): Hex {
  return fields.get(name) ? parseAddress(fields.get(name), name) : otherwise;
}

const register: Action = async (fields, actor) => {
  const { reader, account } = actor;
  const names = fields.all("roles").filter((name) => name in ROLES);
  if (!names.length) throw new Refusal("Choose at least one role.", "", "roles");
  const operator = addressOr(fields, "operator", account);
  const payout = addressOr(fields, "payout", account);
  const limits = await reader.read<Parameters>("NodeRegistry", "parameters");
  const least = names
    .map((name) => limits[(ROLES[name] as (typeof ROLES)[string]).stake])
    .reduce((a, b) => (a > b ? a : b));
  const stake = fields.get("stake") ? parseAmount(fields.get("stake"), "stake") : least;
  if (stake < least) {
    throw new Refusal(`${names.join(", ")} needs a stake of ${amount(least)}.`, "", "stake");
  }
  await afford(actor, stake, "stake");
  const taken = await reader.read<bigint>("NodeRegistry", "node_of", operator);
  if (taken && !actor.begun.size) {
    throw new Refusal(
      `${operator} operates node ${taken} already; each node has an operator key of its own.`,
      "Choose another operator.",
      "operator",
    );
  }
  const { steps, given } = await consent(actor, operator, fields.get("consent"));
  const bits = names.reduce((sum, name) => sum | (ROLES[name]?.bit ?? 0n), 0n);
  const enrol: Send = {
    kind: "send",
    key: "register",
    words: `register a node as ${names.join(", ")}, operated by ${operator}`,
    call: (done) => ({
      contract: "NodeRegistry",
      fn: "register_node",
      args: [operator, payout, bits, stake, NO_KEY, given ?? done.signature("consent")],
    }),
    after: steps.map(({ key }) => key),
  };
  const approved = bits > 1n ? ["As verifier or aggregator it works once the committee has approved the role."] : [];
  return {
    title: "Register a node",
    happens: [
      `${amount(stake)} move from your wallet into the registry as the node's stake.`,
      `The stake can be slashed for bad work. You get it back after an exit, which takes ${span(Number(limits.unbonding_period))}.`,
      `What the node earns is credited to ${payout}.`,
      ...approved,
    ],
    steps: [...steps, allow(actor, "NodeRegistry", "the registry", stake), enrol],
    result: async (done) => {
      const event = (await done.events("register")).find(({ name }) => name === "NodeRegistered");
      const id = event?.args.node_id;
      return { text: `Node ${id} is registered with ${amount(stake)}.`, href: `/nodes/${id}` };
    },
  };
};

const addStake: Action = async (fields, actor) => {
  const [id, node] = await nodeOf(actor, fields);
  const units = parseAmount(fields.get("amount"), "amount");
  await afford(actor, units, "amount");
  const call = { contract: "NodeRegistry", fn: "add_stake", args: [BigInt(id), units] };
  return {
    title: `Add stake to node ${id}`,
    happens: [
      `${amount(units)} move from your wallet into the stake of node ${id}, which is ${amount(node.stake)} now.`,
      "It can be slashed for bad work from then on, and comes back after an exit.",
    ],
    steps: [
      allow(actor, "NodeRegistry", "the registry", units),
      send("add", `add ${amount(units)} to the stake of node ${id}`, call),
    ],
    result: () => ({ text: `Node ${id} stakes ${amount(node.stake + units)}.`, href: `/nodes/${id}` }),
  };
};

const setOperator: Action = async (fields, actor) => {
  const [id, node] = await nodeOf(actor, fields);
  const operator = parseAddress(fields.get("operator"), "operator");
  const { steps, given } = await consent(actor, operator, fields.get("consent"));
  const change: Send = {
    kind: "send",
    key: "change",
    words: `make ${operator} the operator of node ${id}`,
    call: (done) => ({
      contract: "NodeRegistry",
      fn: "set_operator",
      args: [BigInt(id), operator, given ?? done.signature("consent")],
    }),
    after: steps.map(({ key }) => key),
  };
  return {
    title: `Change the operator of node ${id}`,
    happens: [
      `The key of ${node.operator} can do nothing for node ${id} any more; ${operator} does its work from then on.`,
      "Restart the agent with the new key right after it.",
    ],
    steps: [...steps, change],
    result: () => ({ text: `${operator} operates node ${id}.`, href: `/nodes/${id}` }),
  };
};

const setPayout: Action = async (fields, actor) => {
  const [id, node] = await nodeOf(actor, fields);
  const payout = parseAddress(fields.get("payout"), "payout");
  const call = { contract: "NodeRegistry", fn: "set_payout", args: [BigInt(id), payout] };
  return {
    title: `Change where node ${id} is paid`,
    happens: [
      `What node ${id} earns from now on is credited to ${payout}. What is credited to ${node.payout} already stays there.`,
    ],
    steps: [send("change", `pay the rewards of node ${id} to ${payout}`, call)],
    result: () => ({ text: `Node ${id} is paid to ${payout}.`, href: `/nodes/${id}` }),
  };
};

const setActive: Action = async (fields, actor) => {
  const [id] = await nodeOf(actor, fields);
  const active = fields.get("active") === "yes";
  const call = { contract: "NodeRegistry", fn: "set_active", args: [BigInt(id), active] };
  const words = active ? `let node ${id} take part in new rounds` : `pause node ${id}`;
  return {
    title: active ? `Let node ${id} work again` : `Pause node ${id}`,
    happens: [
      active
        ? `Node ${id} can be drawn for rounds that open from then on.`
        : `Node ${id} is drawn for no round that opens from then on. Rounds that run go on, and its stake stays.`,
    ],
    steps: [send("change", words, call)],
    result: () => ({ text: `Node ${id} ${active ? "takes part" : "is paused"}.`, href: `/nodes/${id}` }),
  };
};

const beginExit: Action = async (fields, actor) => {
  const [id, node] = await nodeOf(actor, fields);
  const limits = await actor.reader.read<Parameters>("NodeRegistry", "parameters");
  const call = { contract: "NodeRegistry", fn: "begin_exit", args: [BigInt(id)] };
  return {
    title: `Begin the exit of node ${id}`,
    happens: [
      `Node ${id} works no more, for good: this can't be undone.`,
      `Its ${amount(node.stake)} unbond for ${span(Number(limits.unbonding_period))} and can still be slashed meanwhile. Then you withdraw them.`,
    ],
    steps: [send("exit", `end node ${id} for good`, call)],
    result: async (done) => {
      const event = (await done.events("exit")).find(({ name }) => name === "ExitBegun");
      const left = event?.args as { amount: bigint; unlock_at: bigint } | undefined;
      const text = left
        ? `${amount(left.amount)} can be withdrawn from ${moment(Number(left.unlock_at))} on.`
        : `Node ${id} is exiting.`;
      return { text, href: `/nodes/${id}` };
    },
  };
};

const withdraw: Action = async (fields, actor) => {
  const [id, node] = await nodeOf(actor, fields);
  const begun = actor.begun.size > 0;
  if (!node.unlock_at && !begun) throw new Refusal(`Node ${id} is not exiting.`, "Begin the exit first.");
  if (Number(node.unlock_at) > (await actor.reader.now()) && !begun) {
    throw new Refusal(
      `The stake of node ${id} unbonds until ${moment(Number(node.unlock_at))}.`,
      "Come back then.",
    );
  }
  const call = { contract: "NodeRegistry", fn: "withdraw", args: [BigInt(id)] };
  return {
    title: `Withdraw the stake of node ${id}`,
    happens: [`${amount(node.unbonding)} move from the registry to ${node.owner}, and the node is closed.`],
    steps: [send("withdraw", `take out ${amount(node.unbonding)} of node ${id} and close it`, call)],
    result: async (done) => {
      const event = (await done.events("withdraw")).find(({ name }) => name === "StakeWithdrawn");
      const units = (event?.args.amount as bigint | undefined) ?? node.unbonding;
      return { text: `${amount(units)} are back with ${node.owner}.`, href: `/nodes/${id}` };
    },
  };
};

export const operatorActions: Record<string, Action> = {
  register,
  "add-stake": addStake,
  "set-operator": setOperator,
  "set-payout": setPayout,
  "set-active": setActive,
  "begin-exit": beginExit,
  withdraw,
};
