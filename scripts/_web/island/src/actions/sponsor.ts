// SPDX-License-Identifier: Apache-2.0
// What a sponsor does: create and fund a job, adopt scores, cancel, refund.
//
// The data is packed and published by `ape run job pack` on the sponsor's own machine; what it prints
// is pasted here. Every number of it is shown in words before anything is signed.

import { amount, parseAmount, parseWhole } from "../chain/amounts";
import type { Hex } from "../chain/provider";
import { digestOf } from "../download/cid";
import { type Action, type Done, type Fields, type Send, send } from "../intents/intent";
import { Refusal } from "../refusal";
import { afford, allow, bytes32, span } from "./words";

const DIGESTS = ["spec", "genesis_model", "genesis_checkpoint"] as const;
const NUMBERS = [
  "rounds",
  "reward_per_round",
  "verifier_bps",
  "aggregator_bps",
  "max_nodes",
  "commit_s",
  "reveal_s",
  "aggregate_s",
  "challenge_s",
  "appeal_s",
  "dispute_s",
  "challenge_bond",
  "retain_rounds",
] as const;
const NO_KEY = `0x${"0".repeat(64)}`;

type Terms = Record<(typeof DIGESTS)[number], Hex> & Record<(typeof NUMBERS)[number], bigint>;

/** What `ape run job pack` prints. `key_id`: of encrypted data, else null. */
interface Packed {
  chain_id: number;
  spec_cid: string;
  terms: Terms;
  scores: [bigint, bigint] | null;
  key_id: Hex | null;
}

/** Read what was pasted. Throws a Refusal that says what is wrong with it. */
export function readPacked(text: string): Packed {
  const wrong = (what: string): Refusal =>
    new Refusal(what, "Paste all that `ape run job pack` has printed, from { to }.", "packed");
  let found: Record<string, unknown>;
  try {
    // What a terminal shows before and after it does no harm.
    const object = text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1);
    found = JSON.parse(object) as Record<string, unknown>;
  } catch {
    throw wrong("This is not what `ape run job pack` prints.");
  }
  const given = (found.terms ?? {}) as Record<string, unknown>;
  const whole = (value: unknown, name: string): bigint => {
    if (!/^\d{1,78}$/.test(String(value))) throw wrong(`“${name}” is no number.`);
    return BigInt(String(value));
  };
  const terms: Record<string, Hex | bigint> = {};
  for (const name of DIGESTS) terms[name] = bytes32(String(given[name]), name, "packed");
  for (const name of NUMBERS) terms[name] = whole(given[name], name);
  const cid = String(found.spec_cid ?? "");
  if (digestOf(cid) !== String(terms.spec).toLowerCase()) {
    throw wrong(`The spec that it names, “${cid}”, is not the one of its terms, ${terms.spec}.`);
  }
  const windows = found.scores as unknown[] | null | undefined;
  const scores = windows
    ? ([whole(windows[0], "scores"), whole(windows[1], "scores")] as [bigint, bigint])
    : null;
  const key = found.key_id ? bytes32(String(found.key_id), "key_id", "packed") : null;
  return {
    chain_id: Number(found.chain_id),
    spec_cid: cid,
    terms: terms as unknown as Terms,
    scores,
    key_id: key,
  };
}

/** Say terms in whole sentences. */
export function inWords(terms: Terms): string[] {
  const percent = (bps: bigint): string => `${Number(bps) / 100} %`;
  return [
    `The job trains for ${terms.rounds} rounds with at most ${terms.max_nodes} trainers each.`,
    `A round pays ${amount(terms.reward_per_round)}: ${percent(terms.verifier_bps)} to verifiers, ${percent(terms.aggregator_bps)} to the aggregator, the rest to trainers.`,
    `A round takes ${span(Number(terms.commit_s))} to commit, ${span(Number(terms.reveal_s))} to reveal, ${span(Number(terms.aggregate_s))} for a result, ${span(Number(terms.challenge_s))} to challenge it; appeals have ${span(Number(terms.appeal_s))}, the committee ${span(Number(terms.dispute_s))}.`,
    `A challenge takes a bond of ${amount(terms.challenge_bond)}. The pay of a trainer's first ${terms.retain_rounds} rounds answers for its work.`,
  ];
}

async function created(done: Done): Promise<bigint> {
  const event = (await done.events("create")).find(({ name }) => name === "JobCreated");
  if (!event) throw new Refusal("The job's number is not known yet.");
  return event.args.job_id as bigint;
}

const create: Action = async (fields, actor) => {
  const { reader, account } = actor;
  const packed = readPacked(fields.get("packed"));
  const { terms, scores, key_id: key } = packed;
  if (packed.chain_id !== reader.deployment.chainId) {
    throw new Refusal(
      `It was packed for chain ${packed.chain_id}, but this network is on chain ${reader.deployment.chainId}.`,
      "Pack it again with the right --network.",
      "packed",
    );
  }
  const given = fields.get("fund_rounds");
  const most = Number(terms.rounds);
  const rounds = given ? parseWhole(given, "fund_rounds", 0, most) : most;
  const units = BigInt(rounds) * terms.reward_per_round;
  await afford(actor, units, "fund_rounds");
  const whose = `the escrow of the new job`;
  const steps: Send[] = [
    ...(units ? [allow(actor, "RewardPool", "the reward pool", units)] : []),
    send("create", `create a job of ${terms.rounds} rounds, ${amount(terms.reward_per_round)} each`, {
      contract: "TrainingJobs",
      fn: "create_job",
      args: [terms],
    }),
  ];
  if (scores) {
    steps.push({
      kind: "send",
      key: "adopt",
      words: "have its verifiers' scores pay for the work",
      after: ["create"],
      call: async (done) => ({
        contract: "ScoreConsensus",
        fn: "adopt",
        args: [await created(done), ...scores],
      }),
    });
  }
  if (units) {
    steps.push({
      kind: "send",
      key: "fund",
      words: `pay ${amount(units)} into ${whose}`,
      after: ["create"],
      call: async (done) => ({
        contract: "RewardPool",
        fn: "fund",
        args: [await created(done), account, terms.spec, units],
      }),
    });
  }
  if (key && key !== NO_KEY) {
    steps.push({
      kind: "send",
      key: "announce",
      words: "announce the key of its data",
      after: ["create"],
      call: async (done) => ({
        contract: "DataKeys",
        fn: "set_key",
        args: [await created(done), key],
      }),
    });
  }
  return {
    title: "Create a job",
    happens: [
      ...inWords(terms),
      `Its spec is ${packed.spec_cid}.`,
      units
        ? `${amount(units)} move from your wallet into its escrow, which pays ${rounds} rounds. What no round has taken comes back when the job has ended.`
        : "Nothing is paid into its escrow now; no round opens before that.",
    ],
    steps,
    result: async (done) => {
      const id = await created(done);
      return { text: `Job ${id} has ${amount(units)} in escrow.`, href: `/jobs/${id}` };
    },
  };
};

function jobOf(fields: Fields): bigint {
  return BigInt(parseWhole(fields.get("job_id"), "job_id", 1));
}

const fund: Action = async (fields, actor) => {
  const { reader, account } = actor;
  const id = jobOf(fields);
  const units = parseAmount(fields.get("amount"), "amount");
  await afford(actor, units, "amount");
  const [sponsor, spec] = await reader.read<[Hex, Hex]>("TrainingJobs", "origin_of", id);
  const own = sponsor.toLowerCase() === account.toLowerCase();
  const call = { contract: "RewardPool", fn: "fund", args: [id, sponsor, spec, units] };
  return {
    title: `Fund job ${id}`,
    happens: [
      `${amount(units)} move from your wallet into the escrow of job ${id}, whose sponsor is ${own ? "you" : sponsor} and whose spec is ${spec}.`,
      own ? "What no round has taken comes back to you when the job has ended." : "Only its sponsor gets back what no round has taken: you do not.",
    ],
    steps: [
      allow(actor, "RewardPool", "the reward pool", units),
      send("fund", `pay ${amount(units)} into the escrow of job ${id}`, call),
    ],
    result: async () => {
      const escrow = await reader.read<bigint>("RewardPool", "escrow", id);
      return { text: `Job ${id} has ${amount(escrow)} in escrow.`, href: `/jobs/${id}` };
    },
  };
};

const adopt: Action = async (fields) => {
  const id = jobOf(fields);
  const windows = ["commit_s", "reveal_s"].map((name) => BigInt(parseWhole(fields.get(name), name, 1)));
  const call = { contract: "ScoreConsensus", fn: "adopt", args: [id, ...windows] };
  return {
    title: `Adopt scores for job ${id}`,
    happens: [
      "The verifiers' scores decide what each trainer's work is paid, in all rounds of the job. This can't be undone, and must be done before its first round.",
    ],
    steps: [send("adopt", `have the scores of verifiers pay for the work of job ${id}`, call)],
    result: () => ({ text: `Job ${id} is paid by scores.`, href: `/jobs/${id}` }),
  };
};

const cancel: Action = async (fields, actor) => {
  const { reader } = actor;
  const id = jobOf(fields);
  const carried = await reader.read<bigint>("RewardPool", "carried", id);
  const call = { contract: "TrainingJobs", fn: "cancel_job", args: [id] };
  return {
    title: `Cancel job ${id}`,
    happens: [
      `Job ${id} ends after its running round, for good. What is left in its escrow can be refunded then.`,
      ...(carried ? [`${amount(carried)} that earlier rounds did not pay go to the treasury.`] : []),
    ],
    steps: [send("cancel", `end job ${id} after its running round`, call)],
    result: async () => {
      const ended = await reader.read<boolean>("TrainingJobs", "job_ended", id);
      const text = ended ? `Job ${id} has ended.` : `Job ${id} ends once its running round is over.`;
      return { text, href: `/jobs/${id}` };
    },
  };
};

const refund: Action = async (fields, actor) => {
  const id = jobOf(fields);
  const units = await actor.reader.read<bigint>("RewardPool", "escrow", id);
  const call = { contract: "RewardPool", fn: "refund", args: [id] };
  return {
    title: `Refund job ${id}`,
    happens: [`${amount(units)} move from the escrow of job ${id} to its sponsor.`],
    steps: [send("refund", `take ${amount(units)} out of the escrow of job ${id}`, call)],
    result: async (done) => {
      const event = (await done.events("refund")).find(({ name }) => name === "EscrowRefunded");
      const back = (event?.args.amount as bigint | undefined) ?? units;
      return { text: `${amount(back)} are back with the sponsor of job ${id}.`, href: `/jobs/${id}` };
    },
  };
};

export const sponsorActions: Record<string, Action> = {
  "create-job": create,
  "fund-job": fund,
  "adopt-scores": adopt,
  "cancel-job": cancel,
  "refund-job": refund,
};
