# SPDX-License-Identifier: Apache-2.0
"""Gas of a round that is paid by scores, as receipts have it, small and as large as may be.

Each verifier commits and reveals one vector a round; closing is paid once, by whoever sends it.
Signed transactions on anvil, one per block, as in bench_gas. The second round of a job is shown:
who is paid and trusted is known by then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agents.protocol.formulas import score_commitment
from scripts._net.compiled import ROOT
from scripts._net.localnet import Seat, build_localnet
from scripts._net.processes import Supervisor
from tests.measure.bench_gas import Bench, settings
from tests.measure.rows import Row, gas_row

SIZES = ((10, 3), (128, 32))  # nodes, verifiers
_SCALE = 65_535
_WINDOWS = (600, 600)
_WORD = b"\x01" * 32


@dataclass(frozen=True)
class Gas:
    """Gas of a round's scoring; of series the last but one."""

    samples: int
    opening: int
    commit: int
    reveal: int
    close: int
    finalize: int


def rows(directory: Path, say: Callable[[str], None]) -> list[Row]:
    found = []
    for nodes, verifiers in SIZES:
        say(f"two rounds of {nodes} nodes, scored by {verifiers} verifiers")
        home = directory / f"{nodes}-{verifiers}"
        with Supervisor(home / "logs", ROOT) as supervisor:
            fitting = replace(settings(), trainers=nodes, verifiers=verifiers)
            net = build_localnet(supervisor, home / "net", fitting)
            bench = Bench(net, net.batch())
            bench.benchmark_all()
            gas = measure(bench)
        size = f"{nodes} nodes"
        if not found:
            found += [
                gas_row("post_samples", gas.samples),
                gas_row("commit_scores", gas.commit),
                gas_row("commit_scores, the first of a round", gas.opening),
                gas_row(f"finalize by scores, {size}, {verifiers} verifiers", gas.finalize),
            ]
        found += [
            gas_row(f"reveal_scores, {size}", gas.reveal),
            gas_row(f"close_scoring, {size}, {verifiers} verifiers", gas.close),
        ]
    return found


def measure(bench: Bench) -> Gas:
    """Two scored rounds of a job for all trainers; the second one's gas."""
    job_id = bench.create_job(len(bench.trainers))
    adopt = bench.contract("ScoreConsensus").functions.adopt(job_id, *_WINDOWS)
    bench.send(bench.net.sponsor, adopt)
    _round(bench, job_id)
    return _round(bench, job_id)


def _round(bench: Bench, job_id: int) -> Gas:
    rounds = bench.contract("TrainingRounds").functions
    scores = bench.contract("ScoreConsensus").functions
    bench.send(bench.net.sponsor, rounds.open_round(job_id))
    bench.mine()
    number = int(bench.contract("TrainingJobs").functions.rounds_opened(job_id).call())
    opened = int(rounds.round(job_id, number).call()[2])
    (event,) = bench.contract("TrainingRounds").events.RoundOpened.get_logs(
        from_block=opened, to_block=opened
    )
    nodes, weights = list(event["args"]["nodes"]), list(event["args"]["weights"])
    for seat in bench.trainers:
        bench._commit(job_id, number, seat)
    for seat in bench.trainers:
        bench._reveal(job_id, number, seat)
    samples = [
        bench.send(seat.operator, scores.post_samples(job_id, number, seat.node_id, _WORD))
        for seat in bench.trainers[:3]
    ]
    row = [_SCALE // len(nodes)] * len(nodes)
    verifiers = bench.net.of_role("verifier")
    commits = [
        bench.send(
            seat.operator,
            scores.commit_scores(
                job_id, number, seat.node_id, _digest(bench, job_id, number, seat, row)
            ),
        )
        for seat in verifiers
    ]
    reveals = [
        bench.send(
            seat.operator, scores.reveal_scores(job_id, number, seat.node_id, row, _WORD, _WORD)
        )
        for seat in verifiers
    ]
    close = bench.send(bench.net.faucet, scores.close_scoring(job_id, number, nodes, weights, row))
    finalize = _finish(bench, job_id, number)
    return Gas(samples[-1], commits[0], commits[-2], reveals[-2], close, finalize)


def _finish(bench: Bench, job_id: int, number: int) -> int:
    """Propose, attest, finalize; the gas of the last."""
    rounds = bench.contract("TrainingRounds").functions
    ids = [seat.node_id for seat in bench.trainers]
    equal = [1_000_000] * len(ids)
    results = bench.contract("TrainingResults").functions
    duty = int(results.aggregator_on_duty(job_id, number).call())
    proposer = next(s for s in bench.net.of_role("aggregator") if s.node_id == duty)
    bench.send(
        proposer.operator,
        results.propose_result(job_id, number, duty, _WORD, _WORD, _WORD, ids, equal),
    )
    result = rounds.round(job_id, number).call()[18]
    for seat in bench.net.of_role("verifier"):
        bench.send(seat.operator, results.attest(job_id, number, seat.node_id, result))
    gas = bench.send(bench.net.sponsor, results.finalize(job_id, number, ids, equal))
    while not rounds.round(job_id, number).call()[24]:
        bench.send(bench.net.sponsor, results.settle(job_id, number, ids, equal))
    return gas


def _digest(bench: Bench, job_id: int, number: int, seat: Seat, row: list[int]) -> Any:
    return score_commitment(
        bench.net.settings.chain_id,
        bench.contract("ScoreConsensus").address,
        (job_id, number, seat.node_id),
        seat.operator.address,
        row,
        _WORD,
        _WORD,
    )
