// SPDX-License-Identifier: Apache-2.0
// Says what a contract refused, in its own words, and what to do about it.
//
// A contract's reason is "family: what". The remedy is looked up by the whole reason first, then by
// what follows the colon, because many contracts refuse the same things.

import { decodeErrorResult, type Abi } from "viem";
import { type Hex, isRpcError } from "./provider";

const REMEDIES: Record<string, string> = {
  // anybody
  "not the owner": "Connect the wallet that owns the node.",
  "not the owner or operator": "Connect the node's owner or its operator.",
  "not operator": "Connect the node's operator.",
  "not the operator": "Connect the node's operator.",
  "not sponsor": "Connect the wallet that created the job.",
  "not a member": "Only members of the committee can do this. Connect such a wallet.",
  "zero address": "Give an address that is not zero.",
  "zero amount": "Give an amount above zero.",
  "transfer failed": "The token refused. Look at your ZOO balance.",
  paused: "The committee has paused this. Try again once it is resumed.",
  "too late": "The time for this has passed.",
  // NodeRegistry
  "bad roles": "Choose at least one of trainer, verifier and aggregator.",
  "stake too low": "Stake at least what the roles need; the form shows it.",
  "addition too small": "Add a larger amount.",
  "too many additions": "Additions ripen for a while; wait until one has, then add more.",
  "no consent": "The operator's key must sign for this owner, and each signature counts once. Have it signed again.",
  "operator in use": "Each node has an operator key of its own. Choose another key.",
  banned: "The node is banned for good; only its exit is left.",
  exiting: "The node is leaving already.",
  closed: "The node has left.",
  "not exiting": "Begin the exit first; the stake unbonds then.",
  "still unbonding": "Wait until the stake has unbonded; the page says when.",
  "stake locked": "A report on the node is open. Wait until it is decided, or appeal.",
  "unknown node": "There is no such node on this chain.",
  "nothing to claim": "All of it has been taken out already.",
  // RewardPool
  "unknown job": "There is no such job on this chain.",
  "another job": "The job is not the one that this page shows: a reorganisation has put another in its place. Load the page again.",
  "job ended": "The job has ended and takes no money any more.",
  "job not ended": "Cancel the job, and wait until its running round is over.",
  "nothing to refund": "The escrow is empty: it was spent or has been returned already.",
  "nothing held": "Nothing is held for this node.",
  "nothing retained": "Nothing is retained for this node.",
  "node locked": "A report on the node is open. Wait until it is decided.",
  "still working": "The node still works in the job. Wait until it has left it, or until the job has ended.",
  // TrainingJobs
  "bad amount": "Give amounts that fit the contract.",
  "bad bond": "Give a challenge bond within the network's bounds.",
  "bad node count": "Allow 1 to 128 trainers a round.",
  "bad retention": "Retain the pay of at most 32 rounds, and at least what the network asks for.",
  "bad round count": "Ask for at least one round.",
  "bad window": "Give each phase of a round a time that the contract allows.",
  "cuts too high": "Lower the verifiers' or the aggregator's share.",
  "dispute window too short": "Give the committee more time to decide.",
  "empty artefact": "Pack the data again: a digest is missing.",
  "windows exceed unbonding": "Shorten the windows: a round must be over before stakes unbond.",
  "reward too low": "Offer at least the network's least reward per round.",
  "cancel requested": "The job is cancelled already.",
  "job not active": "The job has ended.",
  // ScoreConsensus
  "already adopted": "The job has adopted scores already.",
  "round opened": "A round has opened, and after that scores can't be adopted. Create the job again.",
  // Coordinator
  "already proposed": "The same operation exists already. Approve that one.",
  "already approved": "You have approved it already.",
  "already voted": "You have voted already.",
  "not queued": "Too few members have approved it.",
  "too early": "Its delay is not over yet; the page says when it may be executed.",
  approvals: "Some who approved it are no members any more. It needs more approvals.",
  cancelled: "It was cancelled.",
  executed: "It was executed already.",
  expired: "Its time has passed. Propose it again.",
  "unknown operation": "There is no such operation on this chain.",
  "no code at target": "The contract that it would call does not exist.",
  // ViolationReports, TaskAppeals
  "not confirmed": "Only a report that is confirmed can be appealed.",
  "not the node": "Connect the owner or the operator of the accused node.",
  "appeal pending": "It is appealed already.",
  "nothing to appeal": "The task has no outcome that can be appealed.",
  "nothing to withdraw": "All of it has been taken out already.",
  "already contested": "Somebody has contested it already.",
  "no verdict": "There is no verdict to contest.",
  "too few verifiers": "Too few verifiers were bonded before the task existed; nobody could judge it.",
  // DataKeys
  "empty key": "Pack the data again: the key's name is missing.",
  "key unchanged": "The job has announced this key already.",
  // ZooToken (snekmate)
  "transfer amount exceeds balance": "Your wallet has too little ZOO.",
  "insufficient allowance": "Let the contract take the amount first; the list's earlier step does that.",
};

/** A refusal of a contract. `reason` is what the contract says, empty where it says nothing. */
export interface Revert {
  reason: string;
  remedy: string;
}

/** Say what to do about a contract's reason. */
export function remedyOf(reason: string): string {
  const what = reason.slice(reason.indexOf(": ") + 2);
  return (
    REMEDIES[reason] ??
    REMEDIES[what] ??
    (reason.startsWith("ecdsa: ") ? REMEDIES["no consent"] : undefined) ??
    "Load the page again: the state of the chain may have changed since it was made."
  );
}

/** The bytes that a failed call reverted with, wherever the provider has put them. */
function dataOf(error: unknown, depth = 0): Hex | undefined {
  if (typeof error !== "object" || error === null || depth > 4) return undefined;
  const { data, error: inner, cause } = error as Record<string, unknown>;
  const bytes = typeof data === "string" ? /^(?:Reverted )?(0x[0-9a-f]*)$/i.exec(data)?.[1] : undefined;
  if (bytes !== undefined) return bytes as Hex;
  return dataOf(data, depth + 1) ?? dataOf(inner, depth + 1) ?? dataOf(cause, depth + 1);
}

/** Read a revert from what a provider threw. Undefined where it is another failure. */
export function revertOf(error: unknown, abi: Abi): Revert | undefined {
  const data = dataOf(error);
  if (data !== undefined && data.length >= 10) {
    try {
      const { args, errorName } = decodeErrorResult({ abi, data });
      const reason = errorName === "Error" ? String(args?.[0]) : errorName;
      return { reason, remedy: remedyOf(reason) };
    } catch {
      return { reason: "", remedy: remedyOf("") };
    }
  }
  if (!isRpcError(error) || !/revert/i.test(error.message)) return undefined;
  const said = /reverted(?: with reason string)?:? ['"]?([a-z]+: [^'"]+?)['"]?$/i.exec(error.message);
  const reason = said?.[1] ?? "";
  return { reason, remedy: remedyOf(reason) };
}
