# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of one agent, and its account of busy time.

Rule: one registry per agent (nothing global), names start with `menagerie_`, units are in the
names. Utilisation is busy seconds over wall seconds since the agent started.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Info, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agents.runtime.errors import ConfigError
from agents.runtime.logs import scrub
from agents.runtime.printable import printable
from agents.runtime.traffic import Traffic


class Metrics:
    """The agent's numbers. `serve` exposes them; without it they are still counted."""

    def __init__(self, role: str) -> None:
        self.registry = CollectorRegistry()
        self._started = time.monotonic()
        self._busy = 0.0
        self._guard = threading.Lock()

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"menagerie_{name}", text, labels, registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"menagerie_{name}", text, labels, registry=self.registry)

        self.head_block = gauge("head_block", "Latest block number seen")
        self.round = gauge("round", "Current round of the job", "job")
        self.phase = gauge("phase", "Current phase of the round (the contract's number)", "job")
        self.job_pay = gauge("job_pay_zoo_per_hour", "Expected pay for an hour of work", "job")
        self.loss = gauge("loss", "Last training loss")
        self.model_numbers = gauge(
            "model_numbers", "Numbers of the largest model, or stage of one, that was held"
        )
        self.epsilon = gauge("epsilon", "Privacy loss this node has spent on the job", "job")
        self.last_error_time = gauge("last_error_timestamp_seconds", "Unix time of the last error")
        self.actions = counter("actions_total", "Actions taken by the loop", "action")
        self.errors = counter("errors_total", "Errors met by the loop", "kind")
        self.resyncs = counter("resyncs_total", "Kept models found damaged and rebuilt")
        self.transactions = counter("transactions_total", "Transactions by outcome", "outcome")
        self.compute_seconds = counter("compute_seconds_total", "Time spent in work", "work")
        self._last_error = Info("menagerie_last_error", "Last error", registry=self.registry)
        gauge("uptime_seconds", "Seconds since start").set_function(self.uptime)
        gauge("utilisation_ratio", "Busy over wall time").set_function(self.utilisation)
        Info("menagerie_agent", "Who this is", registry=self.registry).info({"role": role})

    def see_traffic(self, traffic: Traffic) -> None:
        """Expose what the agent asks of its RPC node."""
        self.registry.register(_TrafficCollector(traffic))

    def see_round(self, job_id: int, round_id: int, phase: int) -> None:
        """Where a job is."""
        self.round.labels(job_id).set(round_id)
        self.phase.labels(job_id).set(phase)

    def see_pay(self, hourly: Mapping[int, float]) -> None:
        """The jobs that the agent may work on, by what an hour of their work pays."""
        self.job_pay.clear()
        for job_id, pays in hourly.items():
            self.job_pay.labels(job_id).set(pays)

    def forget_job(self, job_id: int) -> None:
        """The agent has left a job: its figures would only stand still."""
        for gauge in (self.round, self.phase):
            with suppress(KeyError):
                gauge.remove(job_id)

    def uptime(self) -> float:
        """Return seconds since the agent started."""
        return time.monotonic() - self._started

    @contextmanager
    def busy(self, work: str) -> Iterator[None]:
        """Account the time inside the `with` as compute, under the name `work`."""
        began = time.monotonic()
        try:
            yield
        finally:
            lasted = time.monotonic() - began
            with self._guard:
                self._busy += lasted
            self.compute_seconds.labels(work).inc(lasted)

    def utilisation(self) -> float:
        """Return busy seconds / wall seconds since start, 0 to 1 (one busy block at a time)."""
        with self._guard:
            return self._busy / max(self.uptime(), 1e-9)

    def error(self, kind: str, message: str) -> None:
        """Count an error and keep its text (first 200 characters) as the last one.

        A text without a form in UTF-8 would end every answer of `serve` until the next error.
        """
        self.errors.labels(kind).inc()
        self.last_error_time.set_to_current_time()
        self._last_error.info({"kind": kind, "message": printable(scrub(message))[:200]})

    def serve(self, port: int, host: str = "127.0.0.1") -> None:
        """Serve the metrics over HTTP; port 0 serves nothing. Raises ConfigError if it is taken."""
        if not port:
            return
        try:
            start_http_server(port, host, self.registry)
        except OSError as error:
            raise ConfigError(
                f"Metrics cannot be served on {host}:{port}: {error}. Choose another "
                "`metrics_port`, or 0 for none."
            ) from None


class _TrafficCollector:
    """Reads the counts of a client when the metrics are asked for."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def collect(self) -> Iterator[Metric]:
        """The metrics, as the registry asks for them."""
        requests = CounterMetricFamily("menagerie_rpc_requests", "HTTP requests to the RPC node")
        requests.add_metric([], self._traffic.requests)
        yield requests
        calls = CounterMetricFamily(
            "menagerie_rpc_calls", "JSON-RPC calls in these requests", labels=["method"]
        )
        for method, count in self._traffic.calls().items():
            calls.add_metric([method], count)
        yield calls
        yield GaugeMetricFamily(
            "menagerie_rpc_requests_per_block",
            "Requests to the RPC node for each of the last 64 blocks",
            value=self._traffic.per_block(),
        )
