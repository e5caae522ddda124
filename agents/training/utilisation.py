# SPDX-License-Identifier: Apache-2.0
"""How busy the device was: NVML samples for a GPU, else CPU time over wall time."""

from __future__ import annotations

import threading
import time
from typing import Any, Literal, Self

_SAMPLE_SECONDS = 0.25


class UtilisationMeter:
    """Context manager around a task; afterwards ``share`` is from 0 to 1 and ``seconds`` wall time.

    ``source`` is ``nvml`` only for a CUDA device with pynvml installed and at least one sample.
    """

    def __init__(self, device: str) -> None:
        self.share = 0.0
        self.seconds = 0.0
        self.source: Literal["nvml", "cpu"] = "cpu"
        self._handle = _nvml_handle(device)
        self._samples: list[float] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        if self._handle is not None:
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._wall
        cpu = time.process_time() - self._cpu
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
        if self._samples:
            self.source = "nvml"
            self.share = sum(self._samples) / len(self._samples)
        else:
            self.share = min(1.0, cpu / self.seconds) if self.seconds > 0 else 0.0

    def _sample(self) -> None:
        import pynvml

        while True:
            try:
                rates = pynvml.nvmlDeviceGetUtilizationRates(self._handle)
            except pynvml.NVMLError:
                return
            self._samples.append(min(1.0, rates.gpu / 100))
            if self._stop.wait(_SAMPLE_SECONDS):
                return


def _nvml_handle(device: str) -> Any:
    """NVML's handle of a ``cuda`` or ``cuda:N`` device; None without a GPU or without pynvml."""
    kind, _, index = device.partition(":")
    if kind != "cuda":
        return None
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByIndex(int(index or 0))
    except pynvml.NVMLError:
        return None
