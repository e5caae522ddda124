# SPDX-License-Identifier: Apache-2.0
"""A sponsor's job in the browser: pack with the page's command, create, fund, cancel, refund."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from eth_utils import keccak
from playwright.sync_api import expect

from agents.protocol.numbers import JobStatus
from agents.storage.cid import cid_from_digest
from scripts._net.anvil import CHAIN_ID
from scripts._net.deployment import ZOO
from tests.stage.chain.people import TERMS
from tests.stage.journeys import Stage, Visit

Begin = Callable[..., Visit]
ROOT = Path(__file__).resolve().parents[2]


def _packed(rounds: int, scores: bool = False) -> str:
    """What the command prints, for artefacts that no store has."""
    names = ("spec", "genesis_model", "genesis_checkpoint")
    raw = {name: keccak(text=f"{name} of {rounds}") for name in names}
    digests = {name: "0x" + digest.hex() for name, digest in raw.items()}
    figures = [f.name for f in fields(TERMS) if not f.name.startswith("score_")]
    numbers = dict(zip(figures, map(str, TERMS.figures()), strict=True))
    terms = {**digests, "rounds": str(rounds), **numbers}
    windows = list(map(str, TERMS.score_windows)) if scores else None
    spec = cid_from_digest(raw["spec"])
    packed = {"chain_id": CHAIN_ID, "spec_cid": spec, "terms": terms, "scores": windows}
    return json.dumps({**packed, "key_id": None})


def test_sponsor__what_the_page_s_command_prints_becomes_a_funded_job(
    stage: Stage, visit: Begin, tmp_path: Path
) -> None:
    people, chain = stage.people, stage.people.chain
    text, store = tmp_path / "my text.txt", tmp_path / "store"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 1_000)
    sponsor = stage.person(3_000)
    wallet = stage.wallet(sponsor)
    reader = visit(wallet)
    reader.connect(wallet, "/sponsor")
    reader.page.get_by_label("Files with text, one a line").fill(str(text))
    reader.page.get_by_label("Rounds", exact=True).fill("2")
    reader.page.get_by_label("Store").fill(str(store))
    command = reader.page.locator("[data-command] [data-shown]").inner_text()
    assert shlex.split(command)[:4] == ["ape", "run", "job", "pack"]
    assert str(text) in shlex.split(command)
    done = subprocess.run(
        [*shlex.split(command), "--deployment", str(stage.deployment)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    said = reader.carry_out("create-job", packed=done.stdout)
    job_id = int(chain.call(people.jobs, "job_count"))
    assert f"Job {job_id} has 2,000 ZOO in escrow." in said
    job = chain.call(people.jobs, "job", job_id)
    assert job.sponsor == sponsor.address
    assert (job.terms.rounds, job.terms.reward_per_round) == (2, 1_000 * ZOO)
    assert store.is_dir() and bytes(job.terms.spec).hex() in done.stdout
    assert chain.call(people.pool, "escrow", job_id) == 2_000 * ZOO
    assert stage.balance(sponsor) == 1_000 * ZOO

    reader.page.goto(f"/jobs/{job_id}")
    reader.carry_out("fund-job", amount="250")
    assert chain.call(people.pool, "escrow", job_id) == 2_250 * ZOO
    reader.page.get_by_role("button", name="Close").click()
    reader.submit("refund-job")
    assert "pool: job not ended" in reader.refusal()
    reader.carry_out("cancel-job")
    assert chain.call(people.jobs, "job", job_id).status == JobStatus.CANCELLED
    said = reader.carry_out("refund-job")
    assert "2,250 ZOO are back" in said
    assert chain.call(people.pool, "escrow", job_id) == 0
    assert stage.balance(sponsor) == 3_000 * ZOO


def test_sponsor__a_job_paid_by_scores_adopts_them_before_it_is_funded(
    stage: Stage, visit: Begin
) -> None:
    people, chain = stage.people, stage.people.chain
    sponsor = stage.person(5_000)
    wallet = stage.wallet(sponsor)
    reader = visit(wallet)
    reader.connect(wallet, "/sponsor")
    reader.carry_out("create-job", packed=_packed(4, scores=True), fund_rounds="3")
    job_id = int(chain.call(people.jobs, "job_count"))
    assert tuple(chain.call(people.scores, "windows_of", job_id)) == TERMS.score_windows
    assert chain.call(people.pool, "escrow", job_id) == 3_000 * ZOO
    sent = [chain.rpc("eth_getTransactionByHash", tx)["to"] for tx in wallet.sent]
    wanted = (people.token, people.jobs, people.scores, people.pool)
    assert sent == [contract.address.lower() for contract in wanted]


def test_sponsor__what_can_t_be_a_job_is_refused_at_its_field(stage: Stage, visit: Begin) -> None:
    wallet = stage.wallet(stage.person(1_000))
    reader = visit(wallet)
    reader.connect(wallet, "/sponsor")
    other = json.loads(_packed(4))
    strange = json.loads(_packed(5))["spec_cid"]
    cases = [
        ("{}", "is no 32 bytes"),
        (json.dumps({**other, "spec_cid": strange}), f"“{strange}”, is not the one of its terms"),
        (json.dumps({**other, "chain_id": 1}), "packed for chain 1"),
        (_packed(4), "4,000 ZOO are needed"),
    ]
    for packed, words in cases:
        reader.submit("create-job", packed=packed)
        expect(reader.page.locator(".action-place .error")).to_contain_text(words)
    broken = {**other, "terms": {**other["terms"], "reward_per_round": "1"}}
    reader.submit("create-job", packed=json.dumps(broken))
    expect(reader.page.locator(".action-plan .error")).to_contain_text("jobs: reward too low")
    assert not wallet.sent
