# SPDX-License-Identifier: Apache-2.0
"""Gas of what people pay for, as receipts have it: 21,000 and calldata included.

With each, the storage slots that it creates and rewrites, and its gas under Ethereum's next rules
(`slots`). Signed transactions, one per block, on an anvil with the EIP-7825 transaction gas cap. A
job of 32 trainers and one of 16 run nine rounds each, so that histories are full and payouts known;
then the figures are taken. Of a series the median is shown; the first of a series, which stores
slots that all share, and the last, which also ends the phase, are not part of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from web3.contract.contract import ContractFunction

from agents.jobs.publish import Terms
from agents.protocol.consent import operator_consent
from agents.protocol.formulas import commit_place
from scripts._net.local_keys import Batch
from scripts._net.localnet import Localnet, LocalnetSettings, Seat, build_localnet
from scripts._net.processes import Supervisor
from tests.measure.rows import Row, gas_row
from tests.measure.slots import REFERENCE, TOLERANCE, Touched, touched

TRAINERS = 32
HISTORY = 9
_GAS = 5_000_000
_DAY = 86_400
_TERMS = Terms(
    commit_s=600, reveal_s=600, aggregate_s=600, challenge_s=600, appeal_s=600, dispute_s=600
)
COMMIT_GOAL, REVEAL_GOAL, CREDIT_GOAL, CLAIM_GOAL = 60_000, 75_000, 10_000, 60_000
# Peers' figures: receipt totals of their contracts on anvil 1.7.1, one transaction per block, at
# Crynux a317516, PrimeIntellect a1156fe, rl-swarm 4a75391, EigenLayer f84a515, Uniswap npm 1.0.1.
_CRYNUX, _SWARM, _PRIME = "Crynux", "rl-swarm", "PrimeIntellect"


Secret = Callable[[int, int, Seat], list[bytes]]
"""What a node's commitment binds in a round of a job: input root, content, trace root and salt."""


def settings(trainers: int = TRAINERS) -> LocalnetSettings:
    """A network that mines at once."""
    return LocalnetSettings(
        trainers=trainers,
        block_time=None,  # type: ignore[arg-type]
        routine_delay=0,
        governance_delay=0,
        unbonding_period=14 * _DAY,
        benchmark_window=_DAY,
        benchmark_quorum=1,
    )


@dataclass
class Bench:
    """Sends what the figures are about. `trainers` are benchmarked.

    While `tracing`, `traces` keeps what each transaction touched, by its function.
    """

    net: Localnet
    batch: Batch
    tracing: bool = False
    traces: dict[str, list[Touched]] = field(default_factory=dict)

    @property
    def trainers(self) -> list[Seat]:
        return self.net.of_role("trainer")

    def contract(self, name: str) -> Any:
        return self.net.contract(name)

    def send(self, account: LocalAccount, call: ContractFunction) -> int:
        """Send one transaction; returns its gas. RuntimeError when it fails."""
        self.batch.add(account, call, gas=_GAS)
        (receipt,) = self.batch.settle()
        gas = int(receipt["gasUsed"])
        if self.tracing:
            found = touched(self.net.anvil, receipt["transactionHash"].to_0x_hex(), gas)
            self.traces.setdefault(call.fn_name, []).append(found)
        return gas

    def mine(self, seconds: int = 0) -> None:
        """Mine an empty block, `seconds` later."""
        if seconds:
            self.net.anvil.rpc("evm_increaseTime", seconds)
        self.net.anvil.rpc("evm_mine")

    # -- before ------------------------------------------------------------------------------------

    def benchmark_all(self) -> None:
        """Give every trainer a verified score."""
        benchmarks = self.contract("NodeBenchmarks").functions
        verifiers = self.net.of_role("verifier")
        # They have a voice once their stake is old enough.
        self.mine(self.contract("NodeRegistry").functions.maturity().call() + 1)
        for seat in self.trainers:
            self.send(seat.operator, benchmarks.request_benchmark(seat.node_id))
        for _ in range(2):  # the last seed's block has a block behind it
            self.mine()
        for seat in self.trainers:
            seed = benchmarks.capture_benchmark_seed(seat.node_id).call()
            answer = (seat.node_id, seed, 100, _word("root"), _word("artefact"))
            self.send(seat.operator, benchmarks.submit_benchmark(*answer))
        self.mine()
        for seat in self.trainers:
            digest = bytes(benchmarks.verdict_digest(seat.node_id, True).call())
            ids = [verifier.node_id for verifier in verifiers]
            signed = [Account.unsafe_sign_hash(digest, v.operator.key) for v in verifiers]
            signatures = [bytes(one.signature) for one in signed]
            verdict = benchmarks.submit_verdicts(seat.node_id, True, ids, signatures)
            self.send(verifiers[0].operator, verdict)

    def create_job(self, max_nodes: int) -> int:
        pool, jobs = self.contract("RewardPool"), self.contract("TrainingJobs")
        token = self.contract("ZooToken")
        terms = replace(_TERMS, max_nodes=max_nodes)
        digests = (_word("spec"), _word("genesis"), _word("checkpoint"))
        self.send(self.net.sponsor, jobs.functions.create_job((*digests, 99, *terms.figures())))
        job_id = int(jobs.functions.job_count().call())
        amount = 20 * _TERMS.reward_per_round
        self.send(self.net.faucet, token.functions.transfer(self.net.sponsor.address, amount))
        self.send(self.net.sponsor, token.functions.approve(pool.address, amount))
        self.send(
            self.net.sponsor,
            pool.functions.fund(job_id, self.net.sponsor.address, digests[0], amount),
        )
        return job_id

    # -- a round -----------------------------------------------------------------------------------

    def round(
        self,
        job_id: int,
        paid: int | None = None,
        silent: Sequence[int] = (),
        secret: Secret | None = None,
    ) -> dict[str, list[int]]:
        """Run a round to its end; returns the gas of each step.

        `paid`: how many nodes the result names (default: all). `silent`: nodes that don't reveal.
        `secret`: what nodes commit to (default: random words).
        """
        secret = secret or _secret
        rounds = self.contract("TrainingRounds").functions
        results = self.contract("TrainingResults").functions
        gas: dict[str, list[int]] = {}
        gas["open_round"] = [self.send(self.net.sponsor, rounds.open_round(job_id))]
        self.mine()
        number = int(self.contract("TrainingJobs").functions.rounds_opened(job_id).call())
        opened = self.contract("TrainingRounds").events.RoundOpened().get_logs(from_block=0)[-1]
        lists = opened["args"]["nodes"], opened["args"]["weights"]
        if not any(rounds.is_expected(job_id, number, node).call() for node in lists[0]):
            gas["seat"] = [self.send(self.net.sponsor, rounds.seat(job_id, number, *lists))]
        seats = [
            seat
            for seat in self.trainers
            if rounds.is_expected(job_id, number, seat.node_id).call()
        ]
        gas["commit"] = [self._commit(job_id, number, seat, secret) for seat in seats]
        speaking = [seat for seat in seats if seat.node_id not in silent]
        gas["reveal"] = [self._reveal(job_id, number, seat, secret) for seat in speaking]
        if silent:
            self.mine(_TERMS.reveal_s + 1)
            gas["slash_unrevealed"] = [
                self.send(self.net.faucet, rounds.slash_unrevealed(job_id, number, node))
                for node in silent
            ]
        nodes = [seat.node_id for seat in speaking][:paid]
        shares = [12_000_000 + node for node in nodes]
        duty = int(results.aggregator_on_duty(job_id, number).call())
        proposer = next(s for s in self.net.of_role("aggregator") if s.node_id == duty)
        gas["propose_result"] = [
            self.send(
                proposer.operator,
                results.propose_result(
                    job_id,
                    number,
                    duty,
                    _word(f"model {job_id} {number}"),
                    _word("update"),
                    _word("report"),
                    nodes,
                    shares,
                ),
            )
        ]
        result = rounds.round(job_id, number).call()[18]
        gas["attest"] = [
            self.send(seat.operator, results.attest(job_id, number, seat.node_id, result))
            for seat in self.net.of_role("verifier")
        ]
        gas["finalize"] = [
            self.send(self.net.sponsor, results.finalize(job_id, number, nodes, shares))
        ]
        return gas

    def _commit(self, job_id: int, number: int, seat: Seat, secret: Secret) -> int:
        rounds = self.contract("TrainingRounds").functions
        digest = rounds.commitment_digest(
            job_id, number, seat.node_id, seat.operator.address, *secret(job_id, number, seat)
        ).call()
        # As a trainer's agent commits: on the chain that its work was made on.
        block = self.net.w3.eth.get_block("latest")
        seen = (int(block["number"]), bytes(block["hash"]))
        place = commit_place(job_id, number, seat.node_id, seen)
        return self.send(seat.operator, rounds.commit_on(place, digest))

    def _reveal(self, job_id: int, number: int, seat: Seat, secret: Secret) -> int:
        rounds = self.contract("TrainingRounds").functions
        parts = secret(job_id, number, seat)
        call = rounds.reveal(job_id, number, seat.node_id, *parts, _word(f"proof {parts}"))
        return self.send(seat.operator, call)

    def claim(self, seat: Seat) -> int:
        return self.send(seat.owner, self.contract("RewardPool").functions.claim())

    def register(self) -> int:
        """Another trainer joins."""
        registry, token = self.contract("NodeRegistry"), self.contract("ZooToken")
        stake = self.net.settings.trainer_stake
        owner = self.net.sponsor
        self.send(self.net.faucet, token.functions.transfer(owner.address, stake))
        self.send(owner, token.functions.approve(registry.address, stake))
        key = Account.create()
        chain = self.net.settings.chain_id
        typed = operator_consent(registry.address, chain, key.address, owner.address, 0)
        consent = bytes(key.sign_typed_data(*typed).signature)
        args = (key.address, owner.address, 1, stake, _word("key"), consent)
        call = registry.functions.register_node(*args)
        return self.send(owner, call)


def build(supervisor: Supervisor, directory: Path, trainers: int = TRAINERS) -> Bench:
    """The network, its trainers benchmarked."""
    net = build_localnet(supervisor, directory, settings(trainers))
    bench = Bench(net, net.batch())
    bench.benchmark_all()
    return bench


def bench(bench: Bench) -> list[Row]:
    half = TRAINERS // 2
    bench.tracing = True
    register = [bench.register() for _ in range(2)][-1]
    bench.benchmark_all()
    bench.tracing = False
    large, small = bench.create_job(TRAINERS), bench.create_job(half)
    for _ in range(HISTORY - 1):
        bench.round(large)
        bench.round(small)
    seat = bench.trainers[0]
    first_claim = bench.claim(seat)
    few = bench.round(large, paid=half)
    claim = bench.claim(seat)
    bench.round(large)  # what the claim emptied is a known node's slot again
    less, full = bench.round(small), bench.round(large)
    bench.tracing = True
    bench.round(small)
    bench.claim(seat)
    silent = [seat.node_id for seat in bench.trainers[-2:]]
    slashed = bench.round(large, silent=silent)
    bench.tracing = False

    def per_node(more: int, fewer: int) -> int:
        return -(-(more - fewer) // half)

    credit = per_node(full["finalize"][0], few["finalize"][0])
    commit, reveal = typical(full["commit"]), typical(full["reveal"])
    opened, proposed = full["open_round"][0], full["propose_result"][0]
    rows = [
        gas_row("commit", commit, COMMIT_GOAL, f"{_CRYNUX}: 115,650"),
        gas_row("reveal", reveal, REVEAL_GOAL, f"{_CRYNUX}: 133,833 (disclose)"),
        gas_row("credit of one more known node", credit, CREDIT_GOAL),
        gas_row(
            "claim", claim, CLAIM_GOAL, "Uniswap distributor: 70,987; EigenLayer: 85,687 (repeats)"
        ),
        gas_row("claim into an empty wallet", first_claim, None, "88,097; 119,909"),
        gas_row(
            "a node's whole round: commit, reveal, credit",
            commit + reveal + credit,
            None,
            f"{_SWARM}: 232,004; {_PRIME}: 234,983 (neither verifies the work)",
        ),
        gas_row("first commit of a round (stores the seed)", full["commit"][0]),
        gas_row(
            "last commit / reveal (ends the phase)", max(full["commit"][-1], full["reveal"][-1])
        ),
        gas_row(f"open_round, {TRAINERS} trainers", opened),
        gas_row("open_round, each further trainer", per_node(opened, less["open_round"][0])),
        gas_row(f"propose_result, {TRAINERS} nodes", proposed),
        gas_row("propose_result, each further node", per_node(proposed, few["propose_result"][0])),
        gas_row("attest", typical(full["attest"])),
        gas_row(f"finalize, {TRAINERS} nodes paid, 3 verifiers", full["finalize"][0]),
        gas_row(
            "slash_unrevealed", slashed["slash_unrevealed"][-1], None, f"{_PRIME}: 93,255 (slash)"
        ),
        gas_row(
            "register_node",
            register,
            None,
            f"{_CRYNUX}: 490,455 (10th join); {_SWARM}: 141,717 (no stake)",
        ),
    ]
    return [*rows, *slot_rows(bench.traces)]


def slot_rows(traces: dict[str, list[Touched]]) -> list[Row]:
    """Slots of each call, and its gas under the next rules; beside it what geth charged."""
    rows = []
    for name, found in sorted(traces.items()):
        middle = sorted(found, key=lambda one: one.gas)[len(found) // 2]
        slots = f"{middle.created} new, {middle.rewritten} rewritten, {middle.cleared} cleared"
        shown = f"{slots}; {middle.following:,} gas next"
        known = REFERENCE.get(name)
        if known is None or known.created != middle.created:
            rows.append(Row(f"{name}: slots", shown))
            continue
        # Today's gas is ours; what geth charged more under the next rules is to be reproduced.
        whole = middle.gas + known.following - known.today
        apart = abs(middle.following - whole) / whole
        goal = f"{whole:,} as geth charged, {apart:.1%} apart"
        rows.append(Row(f"{name}: slots", shown, goal, apart <= TOLERANCE))
    return rows


def typical(series: Sequence[int]) -> int:
    """The median of a series, without its first and last."""
    return int(statistics.median(series[1:-1]))


def _word(label: str) -> bytes:
    return bytes(keccak(text=label))


def _secret(job_id: int, number: int, seat: Seat) -> list[bytes]:
    return [
        _word(f"{part} {job_id} {number} {seat.node_id}")
        for part in ("input", "content", "trace", "salt")
    ]
