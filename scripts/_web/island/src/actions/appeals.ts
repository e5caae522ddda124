// SPDX-License-Identifier: Apache-2.0
// Appeals: against a report on a node's work, and against the outcome of a redundant task.

import { amount, parseWhole } from "../chain/amounts";
import type { Hex } from "../chain/provider";
import { type Action, type Actor, send } from "../intents/intent";
import { Refusal } from "../refusal";
import { afford, allow, bytes32, moment } from "./words";

const INVALID = 2n;
const COPIED = 3n;
const CONFIRMED = 2n;
const NOTHING = `0x${"0".repeat(64)}` as const;

interface Report {
  status: bigint;
  deadline: bigint;
}

/** The confirmed report on a node's work in a round. Throws a Refusal where there is none. */
async function confirmed(
  { reader, begun }: Actor,
  place: [bigint, bigint, bigint],
): Promise<[Hex, Report]> {
  for (const violation of [INVALID, COPIED]) {
    const id = await reader.read<Hex>("ViolationReports", "report_id_of", ...place, violation);
    const report = await reader.read<Report>("ViolationReports", "report_of", id);
    if (report.status === CONFIRMED || (begun.size && report.status)) return [id, report];
  }
  throw new Refusal(
    `No report on node ${place[2]} in round ${place[1]} of job ${place[0]} can be appealed.`,
    "Only a confirmed report can be, in its appeal window.",
  );
}

const appealReport: Action = async (fields, actor) => {
  const { reader } = actor;
  const numbers = ["job_id", "round_id", "node_id"].map((name) => parseWhole(fields.get(name), name, 1));
  const [job, round, node] = numbers.map(BigInt) as [bigint, bigint, bigint];
  const [id, report] = await confirmed(actor, [job, round, node]);
  if ((await reader.now()) > Number(report.deadline) && !actor.begun.size) {
    throw new Refusal(`The time to appeal ended at ${moment(Number(report.deadline))}.`);
  }
  const given = fields.get("statement");
  const statement = given ? bytes32(given, "The statement's digest", "statement") : NOTHING;
  const bond = await reader.read<bigint>("ViolationReports", "appeal_bond");
  await afford(actor, bond, "statement");
  const what = `node ${node} in round ${round} of job ${job}`;
  const call = { contract: "ViolationReports", fn: "appeal", args: [id, statement] };
  return {
    title: `Appeal for ${what}`,
    happens: [
      `A bond of ${amount(bond)} moves from your wallet to the reports' contract, and the committee's agents do the node's work again.`,
      "Was it right, the bond comes back, the node gets its share, and the verifiers who reported it are slashed. Was it wrong, the bond is lost with the slash.",
      "An appeal that nobody decides in time ends in the node's favour.",
    ],
    steps: [
      allow(actor, "ViolationReports", "the reports' contract", bond),
      send("appeal", `appeal for ${what}`, call),
    ],
    result: async () => {
      const { deadline } = await reader.read<Report>("ViolationReports", "report_of", id);
      return {
        text: `The committee decides until ${moment(Number(deadline))}.`,
        href: `/jobs/${job}/rounds/${round}`,
      };
    },
  };
};

/** Both appeals of tasks pay the same bond to the same contract. */
function taskAppeal(fn: "appeal" | "contest", title: string, happens: string): Action {
  return async (fields, actor) => {
    const task = parseWhole(fields.get("task_id"), "task_id", 1);
    const terms = await actor.reader.read<{ appeal_bond: bigint }>("RedundantTasks", "terms");
    const bond = terms.appeal_bond;
    await afford(actor, bond, "task_id");
    const call = { contract: "TaskAppeals", fn, args: [BigInt(task)] };
    return {
      title: `${title} ${task}`,
      happens: [`A bond of ${amount(bond)} moves from your wallet to the appeals' contract.`, happens],
      steps: [
        allow(actor, "TaskAppeals", "the appeals' contract", bond),
        send(fn, `${fn} task ${task}`, call),
      ],
      result: () => ({ text: "It is before its judges.", href: `/tasks/${task}` }),
    };
  };
}

export const appealActions: Record<string, Action> = {
  appeal: appealReport,
  "appeal-task": taskAppeal(
    "appeal",
    "Appeal the outcome of task",
    "Verifiers run the task again. Was the outcome wrong, the bond comes back with a share of what is slashed; else the verifiers share it.",
  ),
  "contest-task": taskAppeal(
    "contest",
    "Contest the verdict on task",
    "The committee names the result. Was the verdict wrong, the bond comes back; else it goes to the treasury.",
  ),
};
