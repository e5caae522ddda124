# SPDX-License-Identifier: Apache-2.0
"""Terms that a network refuses are named by their options, with what it permits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest

from agents.jobs.publish import Terms
from scripts._job.options import SCORE_WINDOWS, WINDOWS
from scripts._job.terms import chosen_terms
from scripts._net.processes import Supervisor
from scripts._shared.operator import ZOO, Contracts
from scripts._shared.refused_terms import WINDOWS_PER_UNBONDING
from scripts._shared.rpc_provider import RpcProvider, connected
from tests.stage.chain.finished_job import SPEC, FinishedJob, make_job

DAY = 86_400


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contracts]:
    """The contracts of a chain, as a command has them."""
    folder = tmp_path_factory.mktemp("chain")
    with Supervisor(folder / "logs") as supervisor:
        chain = make_job(FinishedJob, folder, supervisor, SPEC)
        with connected(RpcProvider(chain.url)):
            yield Contracts(chain.deployment)


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"reward": 0}, "--reward: 0 ZOO a round; this network asks for"),
        ({"bond": 0}, "--bond: 0 ZOO; this network permits"),
        ({"commit_s": 31 * DAY, "appeal_s": 32 * DAY}, f"--commit-s {31 * DAY}, --appeal-s"),
        ({"appeal_s": 30 * DAY}, "The windows together last up to 3"),
        ({"appeal_s": 30 * DAY + 1}, f"--appeal-s {30 * DAY + 1}: this network permits"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_option_and_what_is_permitted(
    contracts: Contracts, chosen: dict[str, Any], says: str
) -> None:
    usual = options()
    assert isinstance(chosen_terms(contracts, None, 3, usual), Terms)
    with pytest.raises(click.ClickException) as refused:
        chosen_terms(contracts, None, 3, usual | chosen)
    assert says in refused.value.message


def test_the_shortest_window_that_is_named_is_the_shortest_permitted(contracts: Contracts) -> None:
    least = contracts.NodeRegistry.parameters().unbonding_period // WINDOWS_PER_UNBONDING + 1
    assert chosen_terms(contracts, None, 3, options() | {"reveal_s": least}).reveal_s == least
    with pytest.raises(click.ClickException, match=f"permits windows of {least} to"):
        chosen_terms(contracts, None, 3, options() | {"reveal_s": least - 1})


def options() -> dict[str, Any]:
    """What `job create` has where none of these is chosen."""
    windows = [f"{name}_s".replace("-", "_") for name in (*WINDOWS, *SCORE_WINDOWS)]
    fixed = {"max_nodes": 64, "reward": 1_000 * ZOO, "bond": 100 * ZOO}
    return dict.fromkeys([*windows, "retain_rounds", "verifiers_cut"]) | fixed
