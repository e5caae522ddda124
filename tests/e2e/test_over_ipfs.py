# SPDX-License-Identifier: Apache-2.0
"""The demo with `--store ipfs`: every agent has a store of its own, and no folder is shared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from agents.storage.embedded import EmbeddedStore
from scripts._demo import demo
from scripts._demo.scenario import PLAIN
from scripts._net.ipfs_nodes import Stubs
from scripts._report.run import FILE, Run
from tests.e2e.conftest import SHORT_BENCHMARK


def test_a_demo_whose_bytes_travel_through_the_ipfs_client_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over stubs, also where a daemon runs: a test puts nothing into a daemon of somebody's."""
    work, report = tmp_path / "demo", tmp_path / "report"
    monkeypatch.setattr(demo, "WORK", work)
    for name, value in SHORT_BENCHMARK.items():
        monkeypatch.setenv(f"MENAGERIE_TRAINER__{name.upper()}", str(value))
    # Its payload is another's, which the chain flags: it is looked at, whomever a round draws.
    one_cheat = replace(PLAIN, cheats={"copier": PLAIN.cheats["copier"]})
    code = demo.run(demo.Options(one_cheat, 3, 2, (), 400.0, report, ipfs=Stubs))
    run = Run.read(report / FILE)
    assert code == 0, [check.sentence for check in run.checks if not check.holds]

    files = sorted((work / "config").glob("*.yaml"))
    stores = {file.stem: yaml.safe_load(file.read_text())["store"] for file in files}
    assert len(stores) == 3 + 3 + 2 + 5  # trainers, verifiers, aggregators, members
    assert len(set(stores.values())) == len(stores), "two agents have one store"
    for name, store in stores.items():
        url = urlsplit(store)
        assert (url.scheme, url.hostname) == ("http", "127.0.0.1"), f"{name}: {store}"
    assert not (work / "store").exists()

    (said,) = [
        check.sentence for check in run.checks if "no store folder is shared" in check.sentence
    ]
    assert "13 agents travelled over a stub of the IPFS API, one for each node" in said
    assert run.facts["bytes travelled over"] == Stubs.said
    assert run.model is not None
    assert EmbeddedStore(report / "store").has(run.model.cid), "the reader can't replay the run"
