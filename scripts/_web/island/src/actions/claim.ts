// SPDX-License-Identifier: Apache-2.0
// Takes out everything that is credited to a wallet, of all jobs and all contracts, in one list.
//
// Pay that was retained or held and is free by now is released first. Where it may be, the server
// only hints: each item is rehearsed against the contract.

import { amount } from "../chain/amounts";
import type { Action, Actor, Send } from "../intents/intent";
import { Refusal } from "../refusal";

/** Where amounts are credited: contract, view, and the function that takes them out. */
const CREDITS: [key: string, what: string, contract: string, view: string, take: string][] = [
  ["rewards", "rewards", "RewardPool", "pending", "claim"],
  ["bounties", "bounties", "NodeRegistry", "bounty", "claim_bounty"],
  ["challenges", "bonds of challenges", "TrainingResults", "bond_credit", "withdraw_bond"],
  ["appeals", "bonds, deposits and bounties of reports", "ViolationReports", "bond_credit", "withdraw_bond"],
  ["fees", "fees of redundant tasks", "RedundantTasks", "bond_credit", "withdraw_bond"],
  ["task-appeals", "appeals of redundant tasks", "TaskAppeals", "bond_credit", "withdraw_bond"],
];

/** The nodes that an account is paid by, and the jobs that each has worked in. */
type Hint = { node: number; jobs: number[] }[];

const MOST_NODES = 50;

async function json<T>(path: string): Promise<T | null> {
  try {
    const answer = await fetch(path, { cache: "no-cache" });
    return answer.ok ? ((await answer.json()) as T) : null;
  } catch {
    return null;
  }
}

/** Whole numbers, each once: a release that is listed twice would be counted twice in what is shown. */
function numbers(found: unknown[]): number[] {
  return [...new Set(found)].filter((each): each is number => Number.isSafeInteger(each) && Number(each) > 0);
}

/** What the server knows of it; nothing where it does not answer. */
async function hinted(account: string): Promise<Hint> {
  const found = await json<{ paid_by: number[] }>(`/api/accounts/${account}`);
  const nodes = numbers(found?.paid_by ?? []).slice(0, MOST_NODES);
  return Promise.all(
    nodes.map(async (node) => {
      const page = await json<{ deeds: { job_id: number }[] }>(`/api/nodes/${node}`);
      return { node, jobs: numbers((page?.deeds ?? []).map(({ job_id }) => job_id)) };
    }),
  );
}

/** The releases that the contract allows now and that credit this wallet. */
async function releases(actor: Actor): Promise<{ step: Send; units: bigint }[]> {
  const { reader, account } = actor;
  const hint = await hinted(account);
  const calls = hint.flatMap(({ node, jobs }) => [
    ...jobs.map((job) => ({
      node,
      fn: "release_retained",
      view: "retained",
      args: [BigInt(job), BigInt(node)],
      words: `that job ${job} retained of node ${node}`,
    })),
    {
      node,
      fn: "release",
      view: "held",
      args: [BigInt(node)],
      words: `that are held for node ${node}`,
    },
  ]);
  const found = [];
  for (const { node, fn, view, args, words } of calls) {
    const { payout } = await reader.read<{ payout: string }>("NodeRegistry", "node", BigInt(node));
    if (payout.toLowerCase() !== account.toLowerCase()) continue;
    const units = await reader.read<bigint>("RewardPool", view, ...args);
    const call = { contract: "RewardPool", fn, args };
    if (!units || (await reader.rehearse(call, account))) continue;
    const step: Send = {
      kind: "send",
      key: `${fn}-${args.join("-")}`,
      words: `release ${amount(units)} ${words}`,
      call: () => call,
      needed: async () => (await reader.read<bigint>("RewardPool", view, ...args)) > 0n,
    };
    found.push({ step, units });
  }
  return found;
}

const claim: Action = async (_fields, actor) => {
  const { reader, account } = actor;
  const free = await releases(actor);
  const freed = free.reduce((sum, { units }) => sum + units, 0n);
  const steps: Send[] = free.map(({ step }) => step);
  const happens = [];
  let total = 0n;
  for (const [key, what, contract, view, take] of CREDITS) {
    const credited = await reader.read<bigint>(contract, view, account);
    const units = key === "rewards" ? credited + freed : credited;
    if (!units && !actor.begun.has(key)) continue;
    total += units;
    happens.push(`${amount(units)} of ${what} move from ${contract} to ${account}.`);
    steps.push({
      kind: "send",
      key,
      words: `take out ${amount(units)} of ${what}`,
      call: () => ({ contract, fn: take, args: [] }),
      needed: async () => (await reader.read<bigint>(contract, view, account)) > 0n || (key === "rewards" && freed > 0n),
      ...(key === "rewards" && free.length ? { after: free.map(({ step }) => step.key) } : {}),
    });
  }
  if (!total && !actor.begun.size) {
    throw new Refusal(
      `Nothing is credited to ${account}.`,
      "A node's pay is credited to its payout address when a round ends.",
    );
  }
  return {
    title: total ? `Claim ${amount(total)}` : "Claim",
    happens,
    steps,
    result: async (done) => {
      const all = await Promise.all(CREDITS.map(([key]) => done.events(key)));
      const taken = all
        .flat()
        .filter(({ name, args }) => name === "Transfer" && args.receiver === account)
        .reduce((sum, { args }) => sum + (args.value as bigint), 0n);
      const held = await reader.read<bigint>("ZooToken", "balanceOf", account);
      return { text: `${amount(taken)} were taken out. ${account} has ${amount(held)}.`, href: "/operator" };
    },
  };
};

export const claimActions: Record<string, Action> = { claim };
