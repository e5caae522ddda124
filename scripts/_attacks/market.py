# SPDX-License-Identifier: Apache-2.0
"""A job and everybody around it on the embedded contracts, and what each of them owns.

Rule: every deed is a transaction of the address that may do it, the committee's too. What somebody
has won is what all of its addresses own or may draw: wallets, stakes, pay, retained pay, bounties,
bond credits and escrow, and its part of what a job has carried to its next round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from agents.jobs.publish import Terms
from agents.protocol import formulas
from agents.protocol.benchmark_verdict import benchmark_verdict
from agents.protocol.consent import operator_consent
from agents.protocol.draw_chance import FINDINGS
from agents.protocol.numbers import BPS, UNCLAIMED, ZOO, Phase, ReportStatus, Role, Violation
from agents.protocol.slashing import DEFAULTS, NO_ROW, Row, reporter_share, slash_amount
from scripts._attacks.embedded import CHAIN_ID, Embedded
from scripts._net.deployment import DeploymentSettings

EMPTY = bytes(32)
UNLIMITED = 2**255
SPEC = keccak(text="spec")
EVIDENCE = keccak(text="evidence")
_UNITS = 6_000  # of a benchmark
_VERDICTS = 16  # on it that one transaction carries
_ROOT, _ARTEFACT = keccak(text="root"), keccak(text="artefact")
_MEMBERS = 5  # of the committee, where no deployment says how many
_SPARE = 1_000 * ZOO  # of each owner and operator, for bonds
_BONDS = 2  # of a challenge, beside that
_TASKS = 1_000  # whose fees the sponsor has beside what its rounds pay
_SUPPLY = 10**15 * ZOO
"""No term of a network: it is enough for rounds that pay all that there is."""
_CREDITS = (
    ("ZooToken", "balanceOf"),
    ("RewardPool", "pending"),
    ("NodeRegistry", "bounty"),
    ("TrainingResults", "bond_credit"),
    ("ViolationReports", "bond_credit"),
    ("RedundantTasks", "bond_credit"),
    ("TaskAppeals", "bond_credit"),
)
_SPENDERS = (
    "NodeRegistry",
    "RewardPool",
    "TrainingResults",
    "ViolationReports",
    "RedundantTasks",
    "TaskAppeals",
)


@dataclass(frozen=True)
class Numbers:
    """What the attacks are played at. Amounts in 1e-18 ZOO.

    Attributes:
        nodes: trainers of the job, and executors of the pool of tasks, that play.
        trainers: of the job, where more come than play; 0: none do.
        stake: of each of them.
        verifiers: how many, each with `verifier_stake`.
        aggregators: how many, each with `aggregator_stake`.
        share: of nodes, and of verifiers, that may be one attacker's; rounded down.
        compute: what a round's work costs a node, as a share of its pay.
        sample: `audit_sample` of the job's spec.
        terms: of the job.
        job_rounds: over which a verifier's work is taken as a mean; the attacks play some of them.
        settings: of the deployment, of whose members the number counts; None for
            `DeploymentSettings`' own.
        spec: fields of the job's spec that decide merge, score and checks; the rest is a small
            job's.
        part: of a drawn trainer's work, that is done again, and `carried`: rounds between resets of
            what nodes take from round to round, as `agents.jobs.verifying_pay` has them.
        rounds: of training that a score is played over, and `seeds`: how many times.
        table: rows of the slashing table that differ from the contracts' defaults.
    """

    nodes: int = 9
    stake: int = 100 * ZOO
    verifiers: int = 3
    verifier_stake: int = 1_000 * ZOO
    aggregators: int = 3
    aggregator_stake: int = 1_000 * ZOO
    share: float = 1 / 3
    compute: float = 0.5
    sample: int = 2
    terms: Terms = field(default_factory=Terms)
    job_rounds: int = 50
    settings: DeploymentSettings | None = None
    table: Mapping[Violation, Row] = field(default_factory=lambda: dict(DEFAULTS))
    spec: Mapping[str, Any] = field(default_factory=dict)
    part: Fraction = Fraction(1)
    carried: int = 0
    rounds: int = 6
    seeds: int = 1
    trainers: int = 0

    @property
    def crowd(self) -> int:
        """Trainers that come to a round of the job."""
        return max(self.nodes, self.trainers)

    @property
    def evil_nodes(self) -> int:
        """Trainers of one attacker: its share, but one at least."""
        return max(1, int(self.share * self.nodes + 1e-9))

    @property
    def evil_verifiers(self) -> int:
        """Verifiers of one attacker; 0 if its share is less than one of them."""
        return int(self.share * self.verifiers + 1e-9)


@dataclass(frozen=True)
class Player:
    """A node and its three addresses."""

    name: str
    node: int
    owner: str
    operator: str
    payout: str

    @property
    def addresses(self) -> tuple[str, str, str]:
        return self.owner, self.operator, self.payout


@dataclass(frozen=True)
class Work:
    """What a trainer's commitment binds. Equal labels are equal work."""

    input_root: bytes
    content: bytes
    trace_root: bytes
    salt: bytes

    @property
    def parts(self) -> tuple[bytes, bytes, bytes, bytes]:
        """In the order of the contract's arguments."""
        return self.input_root, self.content, self.trace_root, self.salt

    @staticmethod
    def of(label: str, content: str | None = None) -> Work:
        """Work that is another one for each label. `content`: the label of its payload."""
        root, trace, salt = (keccak(text=f"{part} of {label}") for part in ("in", "trace", "salt"))
        return Work(root, keccak(text=f"content of {content or label}"), trace, salt)


class Market:
    """One job, its people, and an attacker who owns some of them.

    `trainers`, `verifiers`, `aggregators`: everybody. The attacker's are the first ones of each:
    `evil`, `evil_verifiers`; it has no aggregator unless an attack takes one.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        known = () if numbers.settings is None else numbers.settings.members
        members = (_key(f"member {i}").address for i in range(len(known) or _MEMBERS))
        self.members = tuple(sorted(members, key=lambda address: int(address, 16)))
        self.holder = _key("holder").address
        settings = replace(
            numbers.settings or DeploymentSettings(members=(), holder=""),
            members=self.members,
            holder=self.holder,
            supply=_SUPPLY,
        )
        self.settings = settings
        self.chain = Embedded(settings)
        self._operators: dict[str, LocalAccount] = {}
        self._salts = 0
        self._jobs: set[int] = set()
        self._snapshots: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        for violation, row in numbers.table.items():
            if row != DEFAULTS.get(violation):
                self.decide(
                    "NodeRegistry", "set_penalty", int(violation), astuple(row), governance=True
                )
        self.verifiers = [
            self.join(f"verifier {i}", Role.VERIFIER, numbers.verifier_stake)
            for i in range(numbers.verifiers)
        ]
        self.aggregators = [
            self.join(f"aggregator {i}", Role.AGGREGATOR, numbers.aggregator_stake)
            for i in range(numbers.aggregators)
        ]
        for player, role in (
            *((p, Role.VERIFIER) for p in self.verifiers),
            *((p, Role.AGGREGATOR) for p in self.aggregators),
        ):
            self.decide("NodeRegistry", "approve_role", player.node, int(role), True)
        self.chain.wait(int(self.chain.read("NodeRegistry", "maturity")) + 1)
        self.trainers = [
            self.join(f"trainer {i}", Role.TRAINER, numbers.stake) for i in range(numbers.nodes)
        ]
        for player in self.trainers:
            self.benchmark(player)
        self.chain.wait(int(self.chain.read("NodeRegistry", "maturity")) + 1)
        fees = _TASKS * settings.tasks.max_fee
        self.sponsor = self.person("sponsor", 100 * numbers.terms.reward_per_round + fees)
        # It pays for a round of somebody else's job, and challenges.
        terms = numbers.terms
        paid = terms.reward_per_round + 5 * terms.challenge_bond
        self.stranger = self.person("stranger", 10_000 * ZOO + paid)
        self.job = self.create_job(self.sponsor, rounds=50, funded=50)

    # -- people --------------------------------------------------------------------------------

    @property
    def evil(self) -> list[Player]:
        """The attacker's trainers."""
        return self.trainers[: self.numbers.evil_nodes]

    @property
    def honest(self) -> list[Player]:
        """Everybody else's trainers."""
        return self.trainers[self.numbers.evil_nodes :]

    @property
    def evil_verifiers(self) -> list[Player]:
        """The attacker's verifiers."""
        return self.verifiers[: self.numbers.evil_verifiers]

    @property
    def honest_verifiers(self) -> list[Player]:
        """Everybody else's verifiers."""
        return self.verifiers[self.numbers.evil_verifiers :]

    def person(self, name: str, amount: int = 0) -> str:
        """An address that is always the same for a name, with ZOO that the contracts may take."""
        address = str(_key(name).address)
        if amount:
            self.give(address, amount)
        for spender in _SPENDERS:
            at = self.chain[spender].address
            self.chain.send(address, "ZooToken", "approve", at, UNLIMITED)
        return address

    def give(self, address: str, amount: int) -> None:
        """Somebody comes by more ZOO, in 1e-18."""
        self.chain.send(self.holder, "ZooToken", "transfer", address, amount)

    def join(self, name: str, role: Role, stake: int, owner: str | None = None) -> Player:
        """A new node; `owner`: the name of a person who has others already."""
        spare = _SPARE + _BONDS * self.numbers.terms.challenge_bond
        cold = self.person(owner or f"{name} owner", stake + spare)
        key = _key(name)
        payout = str(_key(f"{name} payout").address)
        _, signed = self.consent(name, cold)
        args = (key.address, payout, int(role), stake, EMPTY, signed)
        node = int(self.chain.send(cold, "NodeRegistry", "register_node", *args))
        self._operators[key.address] = key
        # Of all nodes of a round, and of one in several jobs.
        deposits = (self.numbers.nodes + FINDINGS) * self.bounty(Violation.REPEATED)
        self.person(name, spare + deposits)
        return Player(name, node, cold, str(key.address), payout)

    def consent(self, name: str, owner: str) -> tuple[str, bytes]:
        """The operator of this name, and its signature that it serves a node of `owner`."""
        key, registry = _key(name), self.chain["NodeRegistry"].address
        nonce = self.chain.read("NodeRegistry", "consents_used", key.address)
        data = operator_consent(registry, CHAIN_ID, key.address, owner, nonce)
        return str(key.address), bytes(key.sign_message(encode_typed_data(*data)).signature)

    def benchmark(self, player: Player) -> None:
        """A passed benchmark, by the verdicts of as many verifiers as the network asks for."""
        chain, node = self.chain, player.node
        chain.send(player.operator, "NodeBenchmarks", "request_benchmark", node)
        chain.wait(24, 2)
        seed = chain.send(player.operator, "NodeBenchmarks", "capture_benchmark_seed", node)
        answer = (node, seed, _UNITS, _ROOT, _ARTEFACT)
        chain.send(player.operator, "NodeBenchmarks", "submit_benchmark", *answer)
        chain.wait(24, 2)
        chain.send(player.operator, "NodeBenchmarks", "capture_check_seed", node)
        attempt = chain.read("NodeBenchmarks", "benchmark", node)
        place = (chain["NodeBenchmarks"].address, CHAIN_ID, node)
        data = encode_typed_data(*benchmark_verdict(*place, attempt, attempt.check_seed, True))
        for first in range(0, len(self.verifiers), _VERDICTS):
            some = self.verifiers[first : first + _VERDICTS]
            signed = [bytes(self._operators[v.operator].sign_message(data).signature) for v in some]
            given = (node, True, [v.node for v in some], signed)
            chain.send(player.operator, "NodeBenchmarks", "submit_verdicts", *given)
            if chain.read("NodeBenchmarks", "benchmark", node).settled:
                return

    def decide(self, name: str, function: str, *args: Any, governance: bool = False) -> None:
        """As many members as it takes make a call, after its delay. Raises Refused."""
        chain = self.chain
        self._salts += 1
        salt = self._salts.to_bytes(32, "big")
        target = chain[name]
        data = target.function(function, len(args)).encode(args)
        proposed = (target.address, data, salt)
        op_id = chain.send(self.members[0], "Coordinator", "propose", *proposed)
        for member in self.members[1 : self.settings.threshold]:
            chain.send(member, "Coordinator", "approve", op_id)
        delays = (self.settings.routine_delay, self.settings.governance_delay)
        chain.wait(delays[governance] + 1)
        chain.send(self.stranger_address, "Coordinator", "execute", op_id)

    @cached_property
    def stranger_address(self) -> str:
        """Whoever sends what anybody may send."""
        return str(_key("anybody").address)

    # -- jobs and rounds -----------------------------------------------------------------------

    def create_job(self, sponsor: str, rounds: int, funded: int, **changes: Any) -> int:
        """A new job with the market's terms; `changes` replaces some. Raises Refused."""
        terms = replace(self.numbers.terms, **changes)
        digests = (SPEC, keccak(text="genesis"), keccak(text="checkpoint"))
        made = (*digests, rounds, *terms.figures())
        job = int(self.chain.send(sponsor, "TrainingJobs", "create_job", made))
        self._jobs.add(job)
        if funded:
            amount = funded * terms.reward_per_round
            self.chain.send(sponsor, "RewardPool", "fund", job, sponsor, SPEC, amount)
        return job

    def open(self) -> int:
        """Open the job's next round, with its seats drawn; its number."""
        chain = self.chain
        number = int(chain.send(self.stranger_address, "TrainingRounds", "open_round", self.job))
        (opened,) = chain.events("TrainingRounds", "RoundOpened")
        chain.wait(blocks=2)
        if self.state(number).n_eligible == 0:
            seated = (self.job, number, opened["nodes"], opened["weights"])
            chain.send(self.stranger_address, "TrainingRounds", "seat", *seated)
            opened = chain.events("TrainingRounds", "RoundSeated")[-1]
        self._snapshots[self.job, number] = list(opened["nodes"]), list(opened["weights"])
        return number

    def state(self, number: int) -> Any:
        """The round, as the contract has it."""
        return self.chain.read("TrainingRounds", "round", self.job, number)

    def phase(self, number: int) -> Phase:
        return Phase(self.chain.read("TrainingRounds", "phase", self.job, number))

    def work(self, player: Player, number: int) -> Work:
        """What the player made itself."""
        return Work.of(f"{player.name} {number}")

    def digest(self, number: int, player: Player, work: Work) -> bytes:
        """What the player commits to."""
        at = self.chain["TrainingRounds"].address
        place = (self.job, number, player.node)
        return formulas.round_commitment(CHAIN_ID, at, place, player.operator, work.parts)

    def commit(self, number: int, player: Player, work: Work | None = None) -> None:
        """Commit to work (to the player's own by default). Raises Refused."""
        digest = self.digest(number, player, work or self.work(player, number))
        self.chain.send(
            player.operator, "TrainingRounds", "commit", self.job, number, player.node, digest
        )

    def reveal(self, number: int, player: Player, work: Work | None = None) -> None:
        """Open the player's commitment. Raises Refused."""
        shown = work or self.work(player, number)
        args = (self.job, number, player.node, *shown.parts, EMPTY)
        self.chain.send(player.operator, "TrainingRounds", "reveal", *args)

    def pass_phase(self, number: int, phase: Phase) -> None:
        """Let a phase's time pass and move the round on, if it is still in this phase."""
        if self.phase(number) != phase:
            return
        self.chain.wait(max(1, int(self.state(number).deadline) + 1 - self.chain.now))
        name = "TrainingRounds" if phase in (Phase.COMMIT, Phase.REVEAL) else "TrainingResults"
        self.chain.send(self.stranger_address, name, "advance", self.job, number)

    def train(
        self,
        players: Sequence[Player] | None = None,
        works: Mapping[str, Work] | None = None,
        silent: Sequence[Player] = (),
    ) -> int:
        """A round to its AGGREGATE: `players` commit and reveal (all trainers by default), the
        `silent` ones only commit. `works`: by name, where it is not the player's own. Its number.
        """
        number = self.open()
        self.hand_in(number, players, works, silent)
        return number

    def hand_in(
        self,
        number: int,
        players: Sequence[Player] | None = None,
        works: Mapping[str, Work] | None = None,
        silent: Sequence[Player] = (),
    ) -> None:
        """As `train`, in a round that is open already."""
        works = works or {}
        everyone = [p for p in (self.trainers if players is None else players) if p not in silent]
        for player in (*everyone, *silent):
            self.commit(number, player, works.get(player.name))
        self.pass_phase(number, Phase.COMMIT)
        for player in everyone:
            self.reveal(number, player, works.get(player.name))
        self.pass_phase(number, Phase.REVEAL)

    def propose(
        self,
        number: int,
        pay: Mapping[Player, int],
        by: Player | None = None,
        label: str = "right",
        unclaimed: int = 0,
    ) -> tuple[list[int], list[int]]:
        """Propose a result, by the aggregator on duty unless told; its arrays. Raises Refused.

        `unclaimed`: what counts for nobody (`agents.rounds.unread`).
        """
        proposer = by or self.on_duty(number)
        line = sorted((player.node, amount) for player, amount in pay.items())
        if unclaimed:
            line = [(UNCLAIMED, unclaimed), *line]
        arrays = [node for node, _ in line], [amount for _, amount in line]
        digests = [keccak(text=f"{part} of {label}") for part in ("model", "update", "report")]
        place = (self.job, number, proposer.node)
        self.chain.send(
            proposer.operator, "TrainingResults", "propose_result", *place, *digests, *arrays
        )
        return arrays

    def on_duty(self, number: int) -> Player:
        """The aggregator whose turn it is."""
        node = self.chain.read("TrainingResults", "aggregator_on_duty", self.job, number)
        return next(p for p in self.aggregators if p.node == node)

    def attest(self, number: int, verifiers: Iterable[Player] | None = None) -> None:
        """Verifiers (the honest ones by default) attest the proposed result. Raises Refused."""
        result = bytes(self.state(number).result_hash)
        for player in self.honest_verifiers if verifiers is None else verifiers:
            place = (self.job, number, player.node, result)
            self.chain.send(player.operator, "TrainingResults", "attest", *place)

    def bounty(self, *violations: Violation) -> int:
        """The most that the finder of a trainer earns by one of these, in 1e-18 ZOO: what it must
        deposit to have all of it."""
        rows = [self.numbers.table.get(violation, NO_ROW) for violation in violations]
        stake = self.numbers.stake
        return max(reporter_share(slash_amount(stake, 0, r.bps), r.reporter_bps) for r in rows)

    def announce(
        self, number: int, node: Player, judge: Player, deposit: int | None = None
    ) -> bytes:
        """A verifier announces that it has found something of a node, by default with the deposit
        of an agent (`agents.verify.deposits`); the digest. Raises Refused."""
        if deposit is None:
            deposit = max(1, self.bounty(Violation.INVALID, Violation.COPIED))
        at = self.chain["ViolationReports"].address
        place = (self.job, number)
        digest = formulas.announcement(CHAIN_ID, at, place, node.node, judge.node, EVIDENCE)
        args = (*place, judge.node, digest, deposit)
        self.chain.send(judge.operator, "ViolationReports", "announce_report", *args)
        self.chain.wait(1)  # a later block; a minute's window has room for many
        return digest

    def open_announcement(self, number: int, node: Player, judge: Player) -> None:
        """Open a verifier's announcement of a node that others have convicted. Raises Refused."""
        args = (self.job, number, judge.node, node.node, EVIDENCE)
        self.chain.send(judge.operator, "ViolationReports", "open_announcement", *args)

    def report(
        self,
        number: int,
        node: Player,
        violation: Violation,
        judges: Iterable[Player],
        announced: bool = True,
    ) -> bytes:
        """Verifiers announce and report a node until that is confirmed, the first of them found it;
        the report's id. Who expects no bounty need not have it `announced`."""
        place = (self.job, number, node.node, int(violation))
        report = bytes(self.chain.read("ViolationReports", "report_id_of", *place))
        for judge in judges:
            if announced:
                self.announce(number, node, judge)
            args = (self.job, number, judge.node, node.node, int(violation), EVIDENCE)
            self.chain.send(judge.operator, "ViolationReports", "report", *args)
            found = self.chain.read("ViolationReports", "report_of", report)
            if found.status != ReportStatus.OPEN:
                break
        return report

    def execute(self, report: bytes) -> None:
        """Anyone carries a report out that was confirmed and that nobody appealed; one that was not
        confirmed lapses."""
        found = self.chain.read("ViolationReports", "report_of", report)
        if found.status == ReportStatus.OPEN:
            self.chain.send(self.stranger_address, "ViolationReports", "lapse", report)
            return
        self.chain.wait(max(1, int(found.deadline) + 1 - self.chain.now))
        self.chain.send(self.stranger_address, "ViolationReports", "execute", report)

    def finalize(self, number: int, arrays: tuple[list[int], list[int]]) -> None:
        """Anyone makes the result final, as soon as it can be."""
        deadline, half = int(self.state(number).deadline), self.numbers.terms.challenge_s // 2
        for at in (deadline - half, deadline + 1):
            if not self.chain.read("TrainingResults", "can_finalize", self.job, number):
                self.chain.wait(max(1, at - self.chain.now))
        place = (self.job, number)
        self.chain.send(self.stranger_address, "TrainingResults", "finalize", *place, *arrays)

    def finish(self, number: int, pay: Mapping[Player, int]) -> None:
        """Propose, attest by all honest verifiers, finalize."""
        arrays = self.propose(number, pay)
        self.attest(number)
        self.finalize(number, arrays)

    def ordinary_round(self) -> None:
        """A round in which everybody works and is paid alike."""
        number = self.train()
        arrays = self.propose(number, dict.fromkeys(self.trainers, 1))
        self.attest(number, self.verifiers)
        self.finalize(number, arrays)

    def snapshot(self, number: int) -> tuple[list[int], list[int]]:
        """The nodes of a round of the job, and their weights, as they were seated."""
        return self._snapshots[self.job, number]

    # -- money ---------------------------------------------------------------------------------

    def wealth(self, people: Iterable[Player | str]) -> int:
        """All that these people own or may draw, in 1e-18 ZOO. A name stands for an address."""
        addresses: set[str] = set()
        total = 0
        next_round = self._next_round()
        for one in people:
            if isinstance(one, Player):
                addresses.update(one.addresses)
                total += next_round.get(one.node, 0)
                total += int(self.chain.read("NodeRegistry", "bonded", one.node))
                kept = (
                    self.chain.read("RewardPool", "retained", job, one.node) for job in self._jobs
                )
                total += sum(map(int, kept))
            else:
                addresses.add(one)
        for address in addresses:
            total += sum(int(self.chain.read(*credit, address)) for credit in _CREDITS)
        if self.sponsor in addresses:
            total += int(self.chain.read("RewardPool", "escrow", self.job))
        return total

    def _next_round(self) -> dict[int, int]:
        """What jobs have carried, by who gets it if all that may work do so in the next rounds."""
        carried = alone = 0
        for job in self._jobs:
            carried += int(self.chain.read("RewardPool", "carried", job))
            alone += int(self.chain.read("RewardPool", "carried_for_trainers", job))
        if not carried:
            return {}
        terms = self.numbers.terms
        shared = BPS - terms.verifier_bps - terms.aggregator_bps
        parts: dict[int, int] = {}
        for players, amount in (
            (self.verifiers, (carried - alone) * terms.verifier_bps // BPS),
            (self.aggregators, (carried - alone) * terms.aggregator_bps // BPS),
            (self.trainers, (carried - alone) * shared // BPS + alone),
        ):
            able = [p.node for p in players if self._may_act(p)]
            parts |= {node: amount // len(able) for node in able}
        return parts

    def _may_act(self, player: Player) -> bool:
        """Whether a node is neither suspended nor banned nor gone."""
        acting = self.chain.read("NodeRegistry", "acting_operator", player.node)
        return str(acting) == player.operator

    @property
    def everybody(self) -> list[Player | str]:
        """All nodes, the sponsor, and a stranger who has money."""
        nodes = (*self.trainers, *self.verifiers, *self.aggregators)
        return [*nodes, self.sponsor, self.stranger]

    @contextmanager
    def attack(self) -> Iterator[None]:
        """While this holds, an attack may be played; afterwards nothing of it has happened."""
        with self.chain.undone():
            yield


def _key(name: str) -> LocalAccount:
    """The key of a name."""
    return Account.from_key(keccak(text=f"menagerie attack {name}"))  # type: ignore[no-any-return]
