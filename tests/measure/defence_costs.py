# SPDX-License-Identifier: Apache-2.0
"""What each defence costs: gas, and storage slots created, of the calls that it makes dearer.

    python -m tests.measure.defence_costs              # all of them, most of a minute each
    python -m tests.measure.defence_costs --only bond

The same days are played on the contracts as they are and without each defence that
`tests/attacks/defences.toml` lists, by the cuts that `tests.attacks.without` makes. What differs is
the defence's, beyond what several plain days differ by: draws decide who is paid for the first
time. A cut leaves the functions that only a defence needs; their own prices are in the list of all
calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import ZOO
from scripts._net.anvil import start_anvil
from scripts._net.deployment import TaskTerms
from scripts._net.processes import Supervisor
from tests.attacks.without import cut_out, defences, repository_copy
from tests.measure.slots import Touched, touched
from tests.stage.chain.adopted_job import EQUAL, TRUTH, VERIFIERS, adopt
from tests.stage.chain.people import FUNDED_ROUNDS, TERMS, People, found
from tests.stage.chain.tasks import FAKE, RIGHT, Tasks

_TRAINERS = ("ann", "bob", "cat", "hal", "eve")
_NOISE = 100  # gas by which one call differs from itself: zero bytes of its data
_SCORED = 3  # rounds that are scored
_PLAIN = 8  # days as they are
_WORD = b"\1" * 32
_TERMS = TaskTerms(max_fee=10 * ZOO, fee_per_s=ZOO // 1_000)

Costs = dict[str, tuple[int, int]]
"""By call: gas and slots created, the least of the days'."""


def play(folder: Path) -> Costs:
    """Play the days on a chain of its own."""
    seen: dict[str, list[Touched]] = defaultdict(list)
    within: list[str] = []  # what the calls belong to whose costs are told apart
    with Supervisor(folder / "logs") as supervisor:
        anvil = start_anvil(supervisor, folder)
        people = found(anvil.url, (), tasks=_TERMS)
        send = people.chain.send

        def traced(account: Any, contract: Any, function: str, *args: Any) -> dict[str, Any]:
            receipt = send(account, contract, function, *args)
            one = touched(anvil, receipt["transactionHash"], int(receipt["gasUsed"], 16))
            seen[f"{contract.name}.{function}{''.join(within)}"].append(one)
            return receipt

        people.chain.send = traced  # type: ignore[method-assign]
        _days(people, within)
    return {
        call: (min(one.gas for one in ones), min(one.created for one in ones))
        for call, ones in seen.items()
    }


def _days(people: People, within: list[str]) -> None:
    """Every call of rounds, scores, reports, challenges, benchmarks and tasks, some of them several
    times, so that most are of nodes that are known."""
    for name in _TRAINERS:
        people.benchmark(people.enlist(name, spare=100 * ZOO))
    ann, bob, cat, hal, eve = (people.nodes[name] for name in _TRAINERS)
    funds = TERMS.reward_per_round * FUNDED_ROUNDS
    people.person("sponsor", funds)
    people.job = people.create_job(
        people.sponsor, (_WORD, _WORD, _WORD, 64, *TERMS.figures()), funds
    )
    for _ in range(3):
        people.train(ann, bob, cat, hal, eve)
        people.finish(dict.fromkeys((ann, bob, cat, hal, eve), 1))
    people.chain.send(ann.payout, people.pool, "claim")
    job = people.job
    with _apart(within, " of a scored round"):
        _scored(people)
    people.job = job
    people.train(ann, bob, cat, hal, silent=[eve])
    people.chain.send(people.faucet, people.rounds, "slash_unrevealed", *people.place, eve.node_id)
    people.finish(dict.fromkeys((ann, bob, cat, hal), 1))
    people.execute(people.convict(hal, ann, bob, cat))
    people.train(ann, bob, cat)
    people.offer(dict.fromkeys((ann, bob, cat), 1), label="wrong")
    finder = people.nodes["vito"].operator
    people.announce_challenge(finder)
    people.resolve(people.challenge(finder), upheld=True)
    _tasks(Tasks.build(people), within)


@contextmanager
def _apart(within: list[str], what: str) -> Iterator[None]:
    within.append(what)
    yield
    within.pop()


def _scored(people: People) -> None:
    """A job paid by scores; the first round's proposer leaves out a node that the scores pay."""
    funds = TERMS.reward_per_round * _SCORED
    people.give(people.sponsor, funds)
    people.job = people.create_job(
        people.sponsor, (_WORD, _WORD, _WORD, 64, *TERMS.figures()), funds
    )
    job = adopt(people)
    for left_out in ("ann", *[""] * (_SCORED - 1)):
        job.train()
        job.score(dict.fromkeys(VERIFIERS, TRUTH))
        assert job.upkeep() == "close_scoring"
        paid = {job.node(name): EQUAL for name in TRUTH if name != left_out}
        people.confirm(people.offer(paid), *VERIFIERS)


def _tasks(tasks: Tasks, within: list[str]) -> None:
    for _ in range(3):
        tasks.played(RIGHT, RIGHT)
        with _apart(within, " of a task without inputs"):
            tasks.played(UNAVAILABLE, UNAVAILABLE)
        task, _, _ = tasks.outvoted()
        tasks.finalize(task)
    task, cheat, other = tasks.played(FAKE, FAKE)
    tasks.appeal(task, tasks.people.nodes["vic"].operator)
    tasks.judge(task)
    for node in tasks.executors:
        if node not in (cheat, other):
            tasks.leave(node)


def differences(plain: list[Costs], without: Costs) -> Iterator[str]:
    """The calls that are dearer with a defence, in words."""
    for call in sorted(plain[0]):
        gases, slots = zip(*(day[call] for day in plain), strict=True)
        gas, created = without.get(call, (min(gases), min(slots)))
        dearer, more = min(gases) - gas, min(slots) - created
        spread = max(gases) - min(gases)
        if abs(dearer) > _NOISE + spread or abs(more) > max(slots) - min(slots):
            yield f"{call} {dearer:+,} gas, {more:+d} slots"


def measured(place: Path) -> Costs | str:
    """The costs with the contracts of a copy of the repository; why they can't be had."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.measure.defence_costs", "--play"],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        return (run.stderr.strip().splitlines() or ["no word"])[-1]
    found: Costs = {call: (gas, slots) for call, (gas, slots) in json.loads(run.stdout).items()}
    return found


@click.command()
@click.option("--only", default="", help="Defences with this in their name.")
@click.option("--play", "once", is_flag=True, hidden=True)
def main(only: str, once: bool) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if once:
            print(json.dumps(play(Path(folder))))
            return
        copy = repository_copy(Path(folder))
        plain = [day for _ in range(_PLAIN) if not isinstance(day := measured(copy), str)]
        for call, (gas, slots) in sorted(plain[0].items()):
            print(f"{call:58} {gas:>10,} gas {slots:3} slots", flush=True)
        for defence in defences():
            if only not in defence.name or not all(
                c.file.startswith("contracts/") for c in defence.cuts
            ):
                continue
            with cut_out(copy, defence):
                found = measured(copy)
            said = [found] if isinstance(found, str) else list(differences(plain, found))
            print(f"{defence.item:5} {defence.name}: {'; '.join(said) or 'nothing'}", flush=True)


if __name__ == "__main__":
    main()
