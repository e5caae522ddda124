# SPDX-License-Identifier: Apache-2.0
"""What to do about a contract's refusal, in the words of the commands.

A contract's reason is "family: what". Many contracts refuse the same things, so the remedy is
looked up by what follows the colon. The web page has its own words for the same reasons: it speaks
of wallets to connect, and a command of its options.
"""

from __future__ import annotations

_REMEDIES = {
    # anybody
    "not the owner": "--account must name the wallet that owns the node.",
    "not the owner or operator": "--account must name the node's owner or its operator.",
    "not sponsor": "--account must name the wallet that created the job.",
    "not a member": "--account must name a member of the committee.",
    "zero address": "Give an address that is not zero.",
    "zero amount": "Give an amount above zero.",
    "transfer failed": "The token refused: does the account have as much ZOO?",
    "insufficient allowance": "An earlier command may have been carried out meanwhile, and used up "
    "what was allowed. Look before you repeat it: `ape run status` shows jobs and nodes, `ape run "
    "job show` a job's escrow, `ape run task list` tasks.",
    "paused": "The committee has paused this. Try again once it is resumed.",
    "too late": "The time for this has passed.",
    # NodeRegistry
    "bad roles": "Name at least one --role.",
    "stake too low": "The roles need a larger stake; `ape run node add-stake` adds to it.",
    "addition too small": "Add a larger amount.",
    "too many additions": "Additions ripen for a while: wait until one has, then add more.",
    "no consent": "The operator's key has to sign for this owner, and each signature counts once: "
    "`ape run node consent` makes another.",
    "operator in use": "Each node has an operator key of its own: choose another.",
    "banned": "The node is banned for good: `ape run node exit` takes its stake out.",
    "exiting": "The node is leaving already: `ape run node withdraw` takes out what has unbonded.",
    "closed": "The node has left.",
    "not exiting": "`ape run node exit` comes first: the stake unbonds then.",
    "still unbonding": "The stake has not unbonded yet.",
    "stake locked": "A report on the node is open: wait until it is decided, or appeal.",
    "unknown node": "There is no such node: `ape run status` lists them.",
    # TrainingJobs, RewardPool
    "unknown job": "There is no such job: `ape run status` lists them.",
    "another job": "A reorganisation has put another job in its place: look at it again with "
    "`ape run job show`.",
    "job ended": "The job has ended and takes no money any more.",
    "job not ended": "`ape run job cancel` ends it, once its running round is over.",
    "job not active": "The job has ended, or there is none of this id.",
    "cancel requested": "The job is cancelled already.",
    "nothing to refund": "The escrow is empty: it was spent, or has been returned already.",
    # ScoreConsensus
    "already adopted": "The job is paid by scores already.",
    "round opened": "It is too late: the job's first round has opened. `ape run job cancel` ends "
    "the job.",
    "bad window": "Give other --score-commit-s and --score-reveal-s: each longer than 1/20,000 of "
    "the time that stakes unbond in, and a day at most.",
    # Coordinator
    "already proposed": "The same operation exists already: approve that one.",
    "already approved": "The account has approved it already.",
    "already voted": "The account has voted already.",
    "approvals": "Some who approved it are no members any more: it needs more approvals.",
    "no code at target": "The contract that it would call does not exist.",
    "not queued": "Too few members have approved it.",
    "too early": "Its delay is not over yet.",
    "zero target": "The operation names no contract to call.",
    # ViolationReports, TaskAppeals
    "not confirmed": "Only a report that is confirmed can be appealed.",
    "not the node": "--account must name the owner or the operator of the accused node.",
    "nothing to appeal": "The task has no outcome that can be appealed.",
    "too few verifiers": "Too few verifiers were bonded before the task existed: nobody could "
    "judge it.",
    # RedundantTasks and its executors
    "bad fee": "Give another --fee, or none: the least is the default.",
    "bad run time": "Give another --run-s, or none: what the class needs is the default.",
    "too few executors": "Too few executors have a seat in that pool: `ape run task list` shows "
    "how many.",
    "operator": "An operator's key can't pay for a task: use another account.",
    "has a seat": "The node has a seat already.",
    "just left": "A node that has left a pool waits a little before it takes a seat again.",
    "no seat": "The node has no seat.",
    "not the node's": "--account must name the node's owner or its operator.",
    "too little stake": "`ape run node add-stake` adds to the node's stake.",
    "unknown class": "There is no such pool: `ape run task list` has them.",
}


def remedy_of(reason: str) -> str:
    """A sentence about a contract's reason, empty where there is none."""
    family, _, what = reason.partition(": ")
    return _REMEDIES["no consent"] if family == "ecdsa" else _REMEDIES.get(what, "")
