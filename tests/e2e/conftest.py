# SPDX-License-Identifier: Apache-2.0
"""Networks for the end-to-end tests; the tails of all logs when a test fails; how long each took.

Rule: a network is ended with the fixture that made it, whatever happened, and a process that is
still there afterwards is a failure.
"""

from __future__ import annotations

import sys

from agents.training.determinism import pin_environment, pin_torch

# Audits here redo the nodes' work: in their determinism class, as `ape run audit` does.
if "torch" not in sys.modules:
    pin_environment()
    pin_torch()

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from scripts._net.compiled import ROOT
from scripts._net.localnet import LocalnetSettings, build_localnet
from scripts._net.processes import Supervisor
from tests.stage.network import LocalNetwork

AGENT_ROLES = ("trainer", "verifier", "aggregator")
# The whole work, 20 s of every core, is done in `make demo` and in the newcomers' first hour.
SHORT_BENCHMARK = {"benchmark_s": 0.2, "benchmark_blocks": 0}
AGENTS = {"timer_s": 0.5, "jitter_s": 0.3, "device": "cpu", "trainer": SHORT_BENCHMARK}
_LIVE: list[LocalNetwork] = []
_DURATIONS: list[tuple[float, str]] = []


@contextmanager
def running(directory: Path, settings: LocalnetSettings) -> Iterator[LocalNetwork]:
    """A network without agents, ended for certain."""
    with Supervisor(directory / "logs", ROOT) as supervisor:
        local = LocalNetwork.of(build_localnet(supervisor, directory / "net", settings))
        _LIVE.append(local)
        try:
            yield local
        finally:
            _LIVE.remove(local)
            for process in supervisor:
                process.kill()
    assert not [process.name for process in supervisor if process.running]


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    settings = LocalnetSettings(trainers=3, verifiers=3, aggregators=2, agent=AGENTS)
    with running(tmp_path_factory.mktemp("shared"), settings) as local:
        for name in local.names(*AGENT_ROLES):
            local.net.start_agent(name)
        local.wait_eligible(local.names(*AGENT_ROLES))
        local.pause()
        yield local


@pytest.fixture
def local(_shared: LocalNetwork) -> Iterator[LocalNetwork]:
    """The network that most tests share: 3 trainers, 3 verifiers, 2 aggregators, all honest and
    running when the test begins; the committee is offline. Its agents' time stands still while
    tests run that have a network of their own."""
    _shared.resume()
    _shared.settle(*_shared.names(*AGENT_ROLES))
    yield _shared
    _shared.pause()


@pytest.fixture(scope="module")
def build(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[LocalnetSettings], LocalNetwork]]:
    """Makes a network of the module's own; agents are not started."""
    with ExitStack() as stack:
        yield lambda settings: stack.enter_context(
            running(tmp_path_factory.mktemp("own"), settings)
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs to the report of a failure, and note the time it took."""
    report = yield
    if report.failed:
        for number, local in enumerate(_LIVE, start=1):
            report.sections.append((f"logs of network {number}", local.tails()))
    if report.when != "teardown":
        _DURATIONS.append((report.duration, f"{report.when} {item.name}"))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("end to end: seconds")
    for seconds, name in _DURATIONS:
        if seconds >= 0.5:
            terminalreporter.write_line(f"{seconds:7.1f}  {name}")
