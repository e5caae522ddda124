# SPDX-License-Identifier: Apache-2.0
"""`ape run committee propose ...`: one command for each thing that the timelock may change.

Each names only what is to change; what it doesn't name stays as it is on chain now.
"""

from __future__ import annotations

from typing import Any

import click

from agents.protocol.numbers import PAUSES, ZERO_DIGEST, Role, Violation
from scripts._committee.acting import Operation, literal, proposing
from scripts._committee.kinds import DIGEST, SHARE, SPAN
from scripts._shared.connecting import ConnectedProviderCommand
from scripts._shared.operation_words import DELAY_CLASSES
from scripts._shared.operator import ADDRESS, NUMBER, ZOO_AMOUNT
from scripts._shared.quorum import refuse_quorum

_ROLES = [role.name for role in (Role.VERIFIER, Role.AGGREGATOR) if role.name]
_KEPT = "What isn't named stays as it is."


@click.group()
def propose() -> None:
    """Propose an operation: what it does is said, and tried from the timelock, before you sign."""


def _command(name: str) -> Any:
    return propose.command(name, cls=ConnectedProviderCommand)


@_command("penalty")
@click.argument("row", type=click.Choice([row.name for row in Violation], case_sensitive=False))
@click.option("--share", "bps", type=SHARE, help="Part of the stake that is taken.")
@click.option("--escalation", "escalation_bps", type=SHARE, help="Added for each earlier offence.")
@click.option("--suspension", type=SPAN, help="How long the node gets no work.")
@click.option("--strike/--no-strike", default=None, help="Whether it counts towards REPEATED.")
@click.option("--ban/--no-ban", default=None, help="Whether it bans the node.")
@click.option("--reporter", "reporter_bps", type=SHARE, help="The reporter's part of the slash.")
@proposing
def penalty(reader: Any, row: str, **given: Any) -> Operation:
    """Change ROW of the slashing table. What isn't named stays as it is."""
    violation = Violation[row.upper()]
    before = reader.chain.call(reader.registry, "penalty", violation)
    return "NodeRegistry", "set_penalty", (int(violation), _replaced(before, given))


@_command("parameters")
@click.option("--unbonding", "unbonding_period", type=SPAN)
@click.option("--trainer-stake", type=ZOO_AMOUNT, help="Least stake of a trainer.")
@click.option("--verifier-stake", type=ZOO_AMOUNT, help="Least stake of a verifier.")
@click.option("--aggregator-stake", type=ZOO_AMOUNT, help="Least stake of an aggregator.")
@click.option("--benchmark-window", type=SPAN, help="Time to answer a benchmark.")
@click.option(
    "--benchmark-quorum", type=click.IntRange(1), help="Verdicts that settle a benchmark."
)
@click.option("--treasury", type=ADDRESS, help="Who gets what no reporter gets of a slash.")
@proposing
def parameters(reader: Any, **given: Any) -> Operation:
    """Change parameters of the node registry. What isn't named stays as it is."""
    before = reader.chain.call(reader.registry, "parameters")
    return "NodeRegistry", "set_parameters", (_replaced(before, given),)


@_command("bounds")
@click.option("--least-bond", type=ZOO_AMOUNT, help="Of a challenge.")
@click.option("--most-bond", type=ZOO_AMOUNT, help="Of a challenge.")
@click.option("--least-reward", type=ZOO_AMOUNT, help="Of a round.")
@click.option(
    "--least-retained", type=click.IntRange(0), help="Rounds' pay that a job retains at least."
)
@proposing
def bounds(reader: Any, **given: Any) -> Operation:
    """Change what the terms of jobs may hold. What isn't named stays as it is."""
    before = reader.chain.call(reader.jobs, "bounds")
    return "TrainingJobs", "set_bounds", (_replaced(before, given),)


@_command("members")
@click.option("--add", "added", type=ADDRESS, multiple=True, help="A new member.")
@click.option("--remove", "removed", type=ADDRESS, multiple=True, help="A member who leaves.")
@click.option("--threshold", type=click.IntRange(1), help="Approvals that an operation needs.")
@proposing
def members(
    reader: Any, added: tuple[str, ...], removed: tuple[str, ...], threshold: int | None
) -> Operation:
    """Change the committee: its members, and how many of them must approve."""
    chain, contract = reader.chain, reader.coordinator
    before = list(chain.call(contract, "members"))
    strangers = [who for who in removed if who not in before]
    if strangers:
        raise click.UsageError(f"{strangers[0]} is no member, and so can't be removed.")
    after = [who for who in before if who not in removed]
    after += [who for who in added if who not in after]
    needed = chain.call(contract, "threshold") if threshold is None else threshold
    refuse_quorum(len(after), needed)
    return "Coordinator", "set_members", (after, needed)


@_command("delays")
@click.option("--routine", type=SPAN, help="Of the calls that a running network needs.")
@click.option("--governance", type=SPAN, help="Of all other calls.")
@proposing
def delays(reader: Any, routine: int | None, governance: int | None) -> Operation:
    """Change how long operations wait after their quorum. What isn't named stays as it is."""
    before = reader.chain.call(reader.coordinator, "delays")
    new = [
        old if given is None else given
        for old, given in zip(before, (routine, governance), strict=True)
    ]
    return "Coordinator", "set_delays", new


@_command("delay-class")
@click.argument("contract")
@click.argument("function")
@click.argument("kind", type=click.Choice(DELAY_CLASSES))
@proposing
def delay_class(reader: Any, contract: str, function: str, kind: str) -> Operation:
    """Let calls of FUNCTION of CONTRACT wait the routine or the governance delay."""
    target = _contract(reader, contract)
    selector = _function(target, function).selector
    args = (target.address, selector, DELAY_CLASSES.index(kind))
    return "Coordinator", "set_delay_class", args


@_command("role")
@click.argument("node_id", type=NUMBER)
@click.argument("role", type=click.Choice(_ROLES, case_sensitive=False))
@click.option("--withdraw", is_flag=True, help="Take the approval back.")
@proposing
def role(reader: Any, node_id: int, role: str, withdraw: bool) -> Operation:
    """Admit node NODE_ID to ROLE, or take that back."""
    return "NodeRegistry", "approve_role", (node_id, int(Role[role.upper()]), not withdraw)


@_command("slasher")
@click.argument("contract")
@click.option("--delist", is_flag=True, help="Take the right away.")
@proposing
def slasher(reader: Any, contract: str, delist: bool) -> Operation:
    """Let CONTRACT, a name or an address, slash stakes, or take that right away."""
    is_address = contract.startswith("0x")
    address = (
        ADDRESS.convert(contract, None, None) if is_address else _contract(reader, contract).address
    )
    return "NodeRegistry", "set_slasher", (address, not delist)


@_command("pool")
@click.argument("label")
@proposing
def pool(reader: Any, label: str) -> Operation:
    """Open a pool of executors for the determinism class LABEL, such as cuda:sm_90/132/13.0."""
    from agents.tasks.compute.classes import limits_of

    try:
        limits_of(label)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    return "RedundantTasks", "add_class", (label.encode("ascii").ljust(32, b"\0"),)


@_command("pause")
@click.argument("contract", type=click.Choice(sorted(PAUSES)))
@click.argument("functions", nargs=-1)
@proposing
def pause(reader: Any, contract: str, functions: tuple[str, ...]) -> Operation:
    """Pause FUNCTIONS of CONTRACT, by default all that can be paused."""
    return _pausing(reader, contract, functions, True)


@_command("resume")
@click.argument("contract", type=click.Choice(sorted(PAUSES)))
@click.argument("functions", nargs=-1)
@proposing
def resume(reader: Any, contract: str, functions: tuple[str, ...]) -> Operation:
    """Let FUNCTIONS of CONTRACT run again, by default all."""
    return _pausing(reader, contract, functions, False)


@_command("end-job")
@click.argument("job_id", type=NUMBER)
@proposing
def end_job(reader: Any, job_id: int) -> Operation:
    """End job JOB_ID in its sponsor's place; its escrow is the sponsor's all the same."""
    return "TrainingJobs", "cancel_job", (job_id,)


@_command("attest")
@click.argument("job_id", type=NUMBER)
@click.argument("checkpoint", type=DIGEST)
@click.option("--model", type=DIGEST, help="A model that the ledger records (default: the last).")
@click.option("--statement", type=DIGEST, default=ZERO_DIGEST, help="Anything else to say of it.")
@proposing
def attest(
    reader: Any, job_id: int, checkpoint: bytes, model: bytes | None, statement: bytes
) -> Operation:
    """Attest a model of JOB_ID: the committee's word that CHECKPOINT, a CID, holds it."""
    model = reader.job(job_id).model if model is None else model
    return "TrainingLedger", "attest_model", (job_id, model, checkpoint, statement)


@_command("owner")
@click.argument("contract")
@click.argument("new_owner", type=ADDRESS)
@proposing
def owner(reader: Any, contract: str, new_owner: str) -> Operation:
    """Offer CONTRACT to a NEW_OWNER, who must accept it."""
    return _contract(reader, contract).name, "transfer_ownership", (new_owner,)


@_command("pay")
@click.argument("to", type=ADDRESS)
@click.argument("amount", type=ZOO_AMOUNT)
@proposing
def pay(reader: Any, to: str, amount: int) -> Operation:
    """Pay AMOUNT of the ZOO that the timelock holds as the treasury."""
    return "ZooToken", "transfer", (to, amount)


@_command("collect")
@click.argument("contract")
@proposing
def collect(reader: Any, contract: str) -> Operation:
    """Take out what CONTRACT owes the timelock as the treasury."""
    target = _contract(reader, contract)
    takes = {"NodeRegistry": "claim_bounty", "RewardPool": "claim"}
    return target.name, takes.get(target.name, "withdraw_bond"), ()


@_command("call")
@click.argument("contract")
@click.argument("function")
@click.argument("arguments", nargs=-1)
@proposing
def call(reader: Any, contract: str, function: str, arguments: tuple[str, ...]) -> Operation:
    """Any other call: FUNCTION of CONTRACT with ARGUMENTS as JSON (0x... for bytes).

    The decisions on challenges, appeals, tasks and benchmarks are made by the members' agents, and
    this is how members make one by hand: call ViolationReports resolve_appeal 0x<report> true
    """
    return _contract(reader, contract).name, function, [literal(text) for text in arguments]


# -- helpers -------------------------------------------------------------------------------------


def _replaced(before: Any, given: dict[str, Any]) -> tuple[Any, ...]:
    """A struct with the fields that were named replaced. Raises click.UsageError for none."""
    new = {name: value for name, value in given.items() if value is not None}
    if not new:
        raise click.UsageError("Name at least one thing to change; --help lists them.")
    return tuple(before._replace(**new))


def _contract(network: Any, name: str) -> Any:
    known = network.deployment.contracts
    if name not in known:
        raise click.UsageError(f"There is no contract {name!r}; there are {', '.join(known)}.")
    return known[name]


def _function(contract: Any, name: str) -> Any:
    takes = [
        len(i["inputs"]) for i in contract.abi if i["type"] == "function" and i["name"] == name
    ]
    if not takes:
        raise click.UsageError(f"{contract.name} has no function {name!r}.")
    return contract.function(name, takes[0])


def _pausing(network: Any, contract: str, functions: tuple[str, ...], paused: bool) -> Operation:
    names = PAUSES[contract]
    unknown = [name for name in functions if name not in names]
    if unknown:
        raise click.UsageError(f"{contract} can pause {', '.join(names)}, not {unknown[0]!r}.")
    bits = network.chain.call(network.deployment[contract], "paused")
    for place, name in enumerate(names):
        if not functions or name in functions:
            bits = bits | 1 << place if paused else bits & ~(1 << place)
    return contract, "set_paused", (bits,)
