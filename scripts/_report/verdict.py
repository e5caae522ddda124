# SPDX-License-Identifier: Apache-2.0
"""What must hold at the end of a demo, each as one sentence with its figures.

Rule: everything is recomputed from the chain and the store; the expected slashes follow from the
slashing table of the network (`agents.protocol.slashing`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agents.audit.explain import Explainer, credited
from agents.audit.sources.record import Record
from agents.jobs.model_files import hash_of
from agents.protocol.network import Network
from agents.protocol.numbers import Phase, Role, Violation
from agents.protocol.slashing import DEFAULTS, Offender, Row, slash_amount
from agents.protocol.structs import read
from agents.rounds.models import Models
from agents.storage.cid import digest_of
from scripts._report.amounts import zoo
from scripts._report.story import Story, losses

LOSS_GOAL = 0.8


@dataclass(frozen=True)
class Check:
    """One sentence, and whether it holds. `exact`: its amounts in 1e-18 ZOO, if it has any."""

    holds: bool
    sentence: str
    exact: str = ""


@dataclass(frozen=True)
class Books:
    """What RewardPool owes at the end, in 1e-18 ZOO."""

    escrow: int
    reserved: int
    pending: int
    held: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.escrow + self.reserved + self.pending + self.held


def read_books(network: Network) -> Books:
    """Read them."""
    names = ("total_escrow", "total_reserved", "total_pending", "total_held")
    return Books(*(_figure(network, "RewardPool", name) for name in names))


def expected_slashes(history: Story, table: Mapping[int, Row] = DEFAULTS) -> dict[int, list[int]]:
    """By node, the amounts the table gives for the violations that were logged, in order."""
    offenders: dict[int, Offender] = defaultdict(Offender)
    amounts: dict[int, list[int]] = defaultdict(list)
    for slash in history.slashes:
        row = offenders[slash.node_id].offend(slash.violation, table)
        amounts[slash.node_id].append(slash_amount(slash.stake_before, 0, row.bps))
    return dict(amounts)


def check_loss(history: Story, goal: float = LOSS_GOAL) -> Check:
    """The model has learnt."""
    curve = losses(history)
    if len(curve) < 2:
        return Check(False, "no round was finalized")
    ratio = curve[-1] / curve[0]
    return Check(
        ratio <= goal,
        f"validation loss {curve[0]:.4f} -> {curve[-1]:.4f} ({ratio:.3f} of the first, "
        f"at most {goal} wanted)",
    )


def check_cheats(
    history: Story, cheats: dict[str, Violation], table: Mapping[int, Row] = DEFAULTS
) -> list[Check]:
    """Each cheat was slashed for what it did, by exactly the table; nobody else was slashed."""
    expected = expected_slashes(history, table)
    found = []
    ids = {node.name: node.node_id for node in history.nodes.values()}
    for name, violation in cheats.items():
        mine = [s for s in history.slashes if s.node_id == ids.get(name)]
        kinds = [s.violation.name for s in mine]
        amounts = [s.amount for s in mine]
        right = bool(mine) and mine[0].violation == violation
        exact = amounts == expected.get(ids.get(name, 0), [])
        shown = ", ".join(
            f"{kind} {zoo(amount)} ZOO" for kind, amount in zip(kinds, amounts, strict=True)
        )
        by_table = "by exactly the table" if exact else "NOT by the table"
        found.append(
            Check(
                right and exact,
                f"{name} slashed {by_table}: {shown or 'never'}",
                f"{', '.join(map(str, amounts))}, by the table "
                f"{', '.join(map(str, expected.get(ids.get(name, 0), [])))}",
            )
        )
    others = {s.node_id for s in history.slashes} - {ids.get(name) for name in cheats}
    honest = len(history.nodes) - len(cheats)
    if others:
        guilty = ", ".join(sorted(history.label(node) for node in others))
        found.append(Check(False, f"slashed although honest: {guilty}"))
    else:
        found.append(Check(True, f"none of the other {honest} nodes was slashed"))
    return found


def check_books(network: Network, history: Story, holders: list[str]) -> list[Check]:
    """Every token is where the contracts say; what was funded was paid or is still in escrow."""
    books = read_books(network)
    earned = sum(node.earned for node in history.nodes.values()) + history.unclaimed
    paid_out = sum(history.claimed.values())
    kept = books.total + paid_out + history.refunded
    return [
        *check_holdings(network, holders),
        Check(
            history.funded == kept and earned - paid_out == books.pending,
            f"funded {zoo(history.funded)} ZOO = in the pool {zoo(books.total)} + claimed "
            f"{zoo(paid_out)} + refunded {zoo(history.refunded)}; earned {zoo(earned)}",
            f"funded {history.funded}, in the pool {books.total}, claimed {paid_out}, refunded "
            f"{history.refunded}, earned {earned}, not claimed yet {books.pending}",
        ),
    ]


def check_holdings(network: Network, holders: list[str]) -> list[Check]:
    """Every contract holds what it owes, and nobody else but `holders` holds anything."""
    owed = {
        "NodeRegistry": ("total_stake", "total_bounties"),
        "RewardPool": ("total_escrow", "total_reserved", "total_pending", "total_held"),
        "TrainingResults": ("bonds_held",),
        "ViolationReports": ("bonds_held",),
        "RedundantTasks": ("bonds_held",),
        "TaskAppeals": ("bonds_held",),
    }
    found = []
    for name, figures in owed.items():
        held = _balance(network, network.deployment[name].address)
        debt = sum(_figure(network, name, figure) for figure in figures)
        sentence = f"{name} holds {zoo(held)} ZOO and owes {zoo(debt)}"
        found.append(Check(held == debt, sentence, f"holds {held}, owes {debt}"))
    everyone = {*holders, *(network.deployment[name].address for name in owed)}
    everyone.add(network.coordinator.address)
    total = sum(_balance(network, address) for address in everyone)
    supply = network.chain.call(network.token, "totalSupply")
    found.append(
        Check(
            total == supply,
            f"all balances together are {zoo(total)} ZOO, the supply is {zoo(supply)}",
            f"balances {total}, supply {supply}",
        )
    )
    return found


def _balance(network: Network, address: str) -> int:
    return read(int, network.chain.call(network.token, "balanceOf", address))


def _figure(network: Network, contract: str, function: str) -> int:
    return read(int, network.chain.call(network.deployment[contract], function))


def check_explained(network: Network) -> Check:
    """Every payment of every job follows from the chain, step by step, and adds up to the unit."""
    explained: Counter[str] = Counter()
    paid: dict[str, int] = {}
    payments = 0
    for job_id in range(1, network.job_count() + 1):
        record = Record(network, job_id)
        rounds = Explainer(record).all()
        explained += credited(rounds)
        for event in record.of("CarriedForfeited"):
            explained[event.args["treasury"]] += event.args["amount"]
        payments += sum(len(node.payments) for found in rounds for node in found.nodes)
        paid = record.payees
    accounts = {a for a in {*explained, *paid} if explained[a] != paid.get(a, 0)}
    wrong = f"; they are NOT what {len(accounts)} accounts were credited" if accounts else ""
    return Check(
        not accounts,
        f"{payments} payments explained: {zoo(sum(explained.values()))} ZOO, to each of "
        f"{len(paid)} accounts exactly what the pool credited{wrong}",
        ", ".join(f"{a}: {explained[a]} of {paid.get(a, 0)}" for a in sorted(accounts)),
    )


def check_held(held: Mapping[str, int], stages: Sequence[int]) -> Check:
    """No miner that was not reported has ever held more than one stage of the model.

    `held`: by miner, the numbers of the largest part of a model that it held. `stages`: how many
    each stage has.
    """
    most, whole = max(stages), sum(stages)
    wrong = [f"{name} {count:,}" for name, count in held.items() if not 0 < count <= most]
    found = f"; NOT {', '.join(wrong)}" if wrong else ""
    return Check(
        bool(held) and not wrong,
        f"each of {len(held)} miners that nobody reported held one of {len(stages)} stages at a "
        f"time: at most {max(held.values(), default=0):,} of {whole:,} numbers, and the largest "
        f"stage has {most:,}{found}",
    )


def check_earned(history: Story, cheats: Collection[str]) -> Check:
    """Each trainer that is no cheat was paid. `cheats`: their names."""
    honest = [
        node
        for node in history.nodes.values()
        if node.roles == Role.TRAINER and node.name not in cheats
    ]
    unpaid = [node.name for node in honest if node.earned <= 0]
    amounts = sorted(node.earned for node in honest) or [0]
    found = f"; NOT {', '.join(unpaid)}" if unpaid else ""
    return Check(
        bool(honest) and not unpaid,
        f"each of {len(honest)} honest trainers earned pay: from {zoo(amounts[0])} to "
        f"{zoo(amounts[-1])} ZOO{found}",
        ", ".join(f"{node.name} {node.earned}" for node in honest),
    )


def attested_rounds(network: Network, models: Models, job_id: int) -> dict[int, bool]:
    """By round that publishes a checkpoint: whether the committee attests that very file."""
    found = {}
    for entry in models.ledger(job_id):
        cid = models.report(entry.report).checkpoint
        if cid is not None:
            place = job_id, entry.new_model
            word = network.chain.call(network.ledger, "checkpoint_of", *place)
            found[entry.round_id] = word == digest_of(cid)
    return found


def check_attested(network: Network, models: Models, job_id: int) -> Check:
    """The committee attests the model of every checkpoint."""
    found = attested_rounds(network, models, job_id)
    good = [str(number) for number, attested in found.items() if attested]
    missing = [str(number) for number, attested in found.items() if not attested]
    words = f"the committee attests the checkpoint of round {', '.join(good) or 'none'}"
    return Check(
        bool(good) and not missing,
        words
        + (f", and NOT of {', '.join(missing)}" if missing else ", recomputed by its members"),
    )


def check_ledger(network: Network, models: Models, history: Story, job_id: int) -> Check:
    """The ledger's chain is unbroken, and the published artefacts lead to its last model."""
    count = network.ledger_length(job_id)
    entries = [network.ledger_entry(job_id, index) for index in range(count)]
    linked = all(one.new_model == two.prev_model for one, two in pairwise(entries))
    final = sum(r.phase == Phase.FINALIZED for r in history.rounds.values())
    rebuilt = hash_of(models.job(job_id), models.current(job_id)) if count else b""
    same = bool(count) and rebuilt == entries[-1].new_model
    return Check(
        linked and same and count == final,
        f"ledger of {count} rounds is {'unbroken' if linked else 'BROKEN'}; the model rebuilt from "
        f"the store has {'its' if same else 'ANOTHER'} hash",
    )
