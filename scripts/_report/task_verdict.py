# SPDX-License-Identifier: Apache-2.0
"""What must hold at the end of a run of redundant tasks, each as one sentence with its figures.

Rule: results are compared with a re-execution on this machine; who is to be slashed for what, and
who is to be paid how much, follows from the tasks as they stand on chain and is derived here again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from agents.protocol import formulas
from agents.protocol.network import Network
from agents.protocol.numbers import LaneState, Violation
from agents.protocol.slashing import DEFAULTS, Row
from agents.tasks.contract import Task, Tasks
from scripts._report.amounts import zoo
from scripts._report.task_history import TaskHistory, TaskStory
from scripts._report.verdict import Check, check_holdings, expected_slashes

Offences = Counter[tuple[int, Violation]]


def check_final(tasks: Sequence[Task], history: TaskHistory) -> Check:
    """No transaction can change any task any more."""
    open_ = [str(task.task_id) for task in tasks if not task.settled(history.now)]
    if open_:
        return Check(False, f"not final: tasks {', '.join(open_)}")
    return Check(bool(tasks), f"all {len(tasks)} tasks are final")


def check_results(
    tasks: Sequence[Task],
    history: TaskHistory,
    truth: Mapping[int, bytes],
    cheats: Collection[int],
) -> list[Check]:
    """What stands is what this machine computes. `truth`: results by task; `cheats`: nodes.

    A fake may stand in one case: both who agreed were cheats, and no verifier drew the task.
    """
    wrong, bought, right, without, denied = [], [], 0, [], []
    for task in tasks:
        story = history.tasks[task.task_id]
        if story.unavailable:
            denied.append(task.task_id)
        elif story.stands is None:
            without.append(task.task_id)
        elif story.stands == truth[task.task_id]:
            right += 1
        elif story.verdict is None and set(_agreed(task)) <= set(cheats):
            bought.append(task.task_id)
        else:
            wrong.append(task.task_id)
    said = f"{right} results equal a re-execution on this machine, bit for bit"
    if wrong:
        said = f"{said}; NOT those of tasks {_list(wrong)}"
    found = [Check(not wrong and right > 0, said)]
    if bought:
        found.append(
            Check(
                True,
                f"a fake stands in tasks {_list(bought)}: both who were drawn are cheats, and no "
                "verifier had it in its sample",
            )
        )
    if without:
        found.append(Check(True, f"no two agreed in tasks {_list(without)}: the fees went back"))
    if denied:
        found.append(
            Check(
                True,
                f"two agreed that the inputs of tasks {_list(denied)} can't be had: the fees went "
                "back but for the treasury's part",
            )
        )
    return found


def check_slashes(
    tasks: Sequence[Task],
    history: TaskHistory,
    reader: Tasks,
    cheats: Mapping[str, int],
    allowed: Mapping[str, Collection[Violation]],
    table: Mapping[int, Row] = DEFAULTS,
) -> list[Check]:
    """Each cheat was slashed for what it did, by exactly the table; nobody else was slashed.

    Args:
        cheats: nodes by what they do.
        allowed: the rows that what they do can come under.
        table: the network's slashing table.
    """
    wanted: Offences = Counter()
    logged: Offences = Counter()
    for task in tasks:
        story = history.tasks[task.task_id]
        wanted += offences(task, story, reader)
        logged += Counter((node, violation) for node, violation, _ in story.slashed)
    recorded = Counter((slash.node_id, slash.violation) for slash in history.slashes)
    amounts = expected_slashes(history, table)
    same = wanted == logged == recorded
    found = [
        Check(
            same,
            f"{recorded.total()} slashes, each by the row that follows from its task's lanes"
            if same
            else f"slashes {_rows(recorded, history)}, expected {_rows(wanted, history)}",
        )
    ]
    for kind, node in cheats.items():
        mine = [slash for slash in history.slashes if slash.node_id == node]
        exact = [slash.amount for slash in mine] == amounts.get(node, [])
        right = bool(mine) and all(slash.violation in allowed[kind] for slash in mine)
        shown = ", ".join(f"{s.violation.name} {zoo(s.amount)} ZOO" for s in mine)
        by_table = "by exactly the table" if exact else "NOT by the table"
        name = history.label(node)
        found.append(Check(right and exact, f"{name} slashed {by_table}: {shown or 'never'}"))
    others = {slash.node_id for slash in history.slashes} - set(cheats.values())
    if others:
        guilty = ", ".join(sorted(map(history.label, others)))
        found.append(Check(False, f"slashed although honest: {guilty}"))
    else:
        honest = len(history.nodes) - len(cheats)
        found.append(Check(True, f"none of the other {honest} nodes was slashed"))
    return found


def offences(task: Task, story: TaskStory, reader: Tasks) -> Offences:
    """What must have been slashed in a task that is over, by node and row of the table."""
    found: Offences = Counter()
    for node, state, answer in zip(task.nodes, task.states, task.answers, strict=True):
        if state == LaneState.ABORTED:
            found[node, Violation.ABORT] += 1
            continue
        agreed = state in (LaneState.AGREED, LaneState.OPENED)
        if story.verdict is not None:
            shown = story.verdict if state == LaneState.OPENED else None
            if answer != (shown or reader.tag(task.task_id, story.verdict)):
                found[node, Violation.COLLUSION if agreed else Violation.REDUNDANCY_MISMATCH] += 1
        elif story.contested and not story.appellants and not agreed:
            found[node, Violation.REDUNDANCY_MISMATCH] += 1
    return found


def check_money(
    network: Network, history: TaskHistory, tasks: Sequence[Task], holders: list[str]
) -> list[Check]:
    """Every fee, credit, stake and bond, to the last unit."""
    payouts = {node.node_id: node.payout for node in history.nodes.values()}
    treasury = str(network.chain.call(network.registry, "parameters").treasury)
    rate = int(network.chain.call(network.tasks, "terms").fee_per_s)
    wanted: dict[str, int] = defaultdict(int)
    for task in tasks:
        story = history.tasks[task.task_id]
        for account, amount in credits_of(task, story, payouts, treasury, rate).items():
            wanted[account] += amount
    fees = sum(task.fee for task in tasks)
    credited = dict(history.credited[network.tasks.address.lower()])
    exact = {a: v for a, v in wanted.items() if v} == {a: v for a, v in credited.items() if v}
    found = [
        Check(
            exact and fees == sum(credited.values()),
            f"fees {zoo(fees)} ZOO = credits {zoo(sum(credited.values()))}, to each of "
            f"{len(credited)} accounts {'exactly' if exact else 'NOT'} what its tasks' outcomes "
            "say",
            f"fees {fees}, credits {sum(credited.values())}",
        ),
    ]
    for contract in (network.tasks, network.appeals):
        address = contract.address.lower()
        owed = sum(history.credited[address].values()) - sum(history.withdrawn[address].values())
        held = network.chain.call(contract, "bonds_held")
        found.append(
            Check(
                held == owed,
                f"{contract.name} escrows {zoo(held)} ZOO: all of it is credited, {zoo(owed)}",
                f"escrows {held}, credited {owed}",
            )
        )
    paid_in = history.taken[network.appeals.address.lower()] + history.seized
    paid_out = sum(history.credited[network.appeals.address.lower()].values())
    found.append(
        Check(
            paid_in == paid_out,
            f"appeals: bonds and seized stake {zoo(paid_in)} ZOO = credits {zoo(paid_out)}",
            f"bonds and seized stake {paid_in}, credits {paid_out}",
        )
    )
    first = sum(node.stakes[0][1] for node in history.nodes.values())
    slashed = sum(slash.amount for slash in history.slashes)
    now = network.chain.call(network.registry, "total_stake")
    found.append(
        Check(
            first - slashed == now,
            f"stakes {zoo(first)} ZOO - slashes {zoo(slashed)} = stakes now {zoo(now)}",
            f"stakes {first}, slashes {slashed}, stakes now {now}",
        )
    )
    return [*found, *check_holdings(network, holders)]


def credits_of(
    task: Task, story: TaskStory, payouts: Mapping[int, str], treasury: str = "", rate: int = 0
) -> dict[str, int]:
    """What RedundantTasks must have credited for a task that is over, in 1e-18 ZOO by account.

    `rate`: what the treasury gets for each second of a task whose inputs could not be had.
    """
    due: dict[str, int] = defaultdict(int)
    if story.undecided:
        due[task.creator] += task.fee
    elif story.unavailable:
        due[task.creator] += task.fee - task.run_s * rate
        due[treasury] += task.run_s * rate
    elif story.contested and story.overturned:
        due[task.creator] += task.fee
    else:
        agreed, opened = formulas.fee_shares(task.fee)
        for node, state in zip(task.nodes, task.states, strict=True):
            if state == LaneState.AGREED:
                due[payouts[node]] += agreed
            elif state == LaneState.OPENED:
                due[payouts[node]] += opened
    return due


def _agreed(task: Task) -> list[int]:
    lanes = zip(task.nodes, task.states, strict=True)
    return [node for node, state in lanes if state in (LaneState.AGREED, LaneState.OPENED)]


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _rows(found: Offences, history: TaskHistory) -> str:
    parts = [f"{history.label(node)} {row.name} x{n}" for (node, row), n in sorted(found.items())]
    return "; ".join(parts) or "none"
