// SPDX-License-Identifier: Apache-2.0
// What a member of the committee does: approve, execute and cancel operations.
//
// What an operation would do is read from the chain and decoded with the checked ABIs: the server's
// words are not needed for it.

import { decodeFunctionData, toFunctionSelector } from "viem";
import type { AbiFunction } from "viem";
import type { Hex } from "../chain/provider";
import { type Action, type Actor, type Fields, send } from "../intents/intent";
import { Refusal } from "../refusal";
import { bytes32, moment } from "./words";

interface Operation {
  target: Hex;
  data: Hex;
  eta: bigint;
  proposed_at: bigint;
}

const PROPOSED = 1n;
const QUEUED = 2n;

/** Spell an argument, structs by their fields. */
function spelled(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spelled).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).map(([name, each]) => `${name} ${spelled(each)}`).join(", ");
  }
  return String(value);
}

/** Say what an operation calls, with the names of its arguments. */
export function calls({ reader }: Actor, { target, data }: Operation): string {
  const all = [...reader.deployment.contracts.values()];
  const contract = all.find(({ address }) => address.toLowerCase() === target.toLowerCase());
  if (!contract) return `It calls ${target}, which is no contract of this network, with ${data}.`;
  try {
    const { functionName, args } = decodeFunctionData({ abi: contract.abi, data });
    const item = contract.abi.find(
      (each): each is AbiFunction =>
        each.type === "function" && toFunctionSelector(each) === data.slice(0, 10),
    );
    const said = (args ?? []).map((value, at) => `${item?.inputs[at]?.name || `#${at + 1}`} = ${spelled(value)}`);
    return `It calls ${functionName} of ${contract.name}${said.length ? ` with ${said.join("; ")}` : ""}.`;
  } catch {
    return `It calls ${contract.name} with bytes that fit none of its functions: ${data}.`;
  }
}

async function operationOf(fields: Fields, { reader }: Actor): Promise<[Hex, Operation]> {
  const id = bytes32(fields.get("op_id"), "The operation", "op_id");
  const operation = await reader.read<Operation>("Coordinator", "operation", id);
  if (!operation.proposed_at) throw new Refusal(`There is no operation ${id} on this chain.`);
  return [id, operation];
}

const approve: Action = async (fields, actor) => {
  const [id, operation] = await operationOf(fields, actor);
  const has = await actor.reader.read<bigint>("Coordinator", "approvals", id);
  const needs = await actor.reader.read<bigint>("Coordinator", "threshold");
  const state = await actor.reader.read<bigint>("Coordinator", "state", id);
  // Where a change of members made the quorum, all that remain may have approved, and can't again:
  // without a signature this starts the delay.
  const waits = state === PROPOSED && has >= needs;
  const call = waits
    ? { contract: "Coordinator", fn: "approve_by_sig", args: [id, []] }
    : { contract: "Coordinator", fn: "approve", args: [id] };
  const after = waits
    ? "A change of members made them enough, and this begins its delay."
    : has + 1n >= needs ? "With yours it has enough, and its delay begins." : "";
  return {
    title: "Approve an operation",
    happens: [calls(actor, operation), `${has} of ${needs} approvals are there. ${after}`.trim()],
    steps: [send("approve", `approve operation ${id}`, call)],
    result: async () => {
      const now = await actor.reader.read<bigint>("Coordinator", "approvals", id);
      return { text: `It has ${now} of ${needs} approvals.`, href: "/committee" };
    },
  };
};

const execute: Action = async (fields, actor) => {
  const [id, operation] = await operationOf(fields, actor);
  const state = await actor.reader.read<bigint>("Coordinator", "state", id);
  if (state === QUEUED && Number(operation.eta) > (await actor.reader.now())) {
    throw new Refusal(
      `The operation's delay is over at ${moment(Number(operation.eta))}.`,
      "Anyone can execute it then.",
    );
  }
  const call = { contract: "Coordinator", fn: "execute", args: [id] };
  return {
    title: "Execute an operation",
    happens: [calls(actor, operation), "Anyone may execute it once its delay is over."],
    steps: [send("execute", `execute operation ${id}`, call)],
    result: () => ({ text: "The operation was executed.", href: "/committee" }),
  };
};

const cancel: Action = async (fields, actor) => {
  const [id, operation] = await operationOf(fields, actor);
  const call = { contract: "Coordinator", fn: "cancel", args: [id] };
  return {
    title: "Vote to cancel an operation",
    happens: [calls(actor, operation), "It is cancelled once enough members have voted for that."],
    steps: [send("cancel", `vote to cancel operation ${id}`, call)],
    result: () => ({ text: "Your vote counts.", href: "/committee" }),
  };
};

export const committeeActions: Record<string, Action> = {
  "approve-operation": approve,
  "execute-operation": execute,
  "cancel-operation": cancel,
};
