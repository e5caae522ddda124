# SPDX-License-Identifier: Apache-2.0
"""Which settings decide the bits of a result, how to fix them, and how to say which hold.

Two runs with an equal ``determinism_class()`` must agree bit for bit; across classes only the
spec's tolerances apply. On x86-64 the class fixes one thread, ATen's AVX2 kernels, MKL's
COMPATIBLE branch (the one that does not depend on the CPU model) and no oneDNN. On a GPU it names
the chip too, since GPUs of one name may differ in their number of multiprocessors. ATen, MKL and
cuBLAS read their settings once, when torch is loaded: ``pin_environment`` must come first, so
this module imports torch only inside the functions that need it.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

PINNED_ENVIRONMENT: dict[str, str] = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}


def pinned_environment(portable: bool = True) -> dict[str, str]:
    """Return the variables that torch and its libraries read while they load.

    Args:
        portable: fix MKL's COMPATIBLE branch. Without it products are about twice as fast, and
            the class then names the CPU model, because MKL chooses its branch by that.
    """
    return PINNED_ENVIRONMENT | ({} if portable else {"MKL_CBWR": "AUTO"})


def pin_environment(portable: bool = True) -> None:
    """Set the variables of ``pinned_environment``.

    Raises:
        RuntimeError: torch is loaded already with other settings, so setting them is too late.
    """
    wanted = pinned_environment(portable)
    changed = {k: v for k, v in wanted.items() if os.environ.get(k) != v}
    if changed and "torch" in sys.modules:
        raise RuntimeError(
            f"torch is imported already without {', '.join(sorted(changed))}; "
            "call pin_environment() before anything that imports torch"
        )
    os.environ.update(changed)


def pin_torch() -> None:
    """Fix what can still be chosen after torch is loaded: threads, algorithms, oneDNN, TF32."""
    import torch

    torch.set_num_threads(1)
    _choose_deterministic_algorithms()
    torch.set_flush_denormal(False)
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.set_float32_matmul_precision("highest")


def _choose_deterministic_algorithms() -> None:
    """What ``torch.use_deterministic_algorithms`` does, without loading torch's compiler.

    That takes a core more than a second. The compiler reads the variable when it is loaded.
    """
    import torch

    os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"
    if "torch._inductor.config" in sys.modules:
        torch.use_deterministic_algorithms(True)
    else:
        torch.set_deterministic_debug_mode("error")


def determinism_class(device: str = "cpu", compiled: bool = False) -> str:
    """Describe the settings that hold in this process, as ``key=value`` joined by ``;``.

    Args:
        device: torch device the training runs on.
        compiled: whether the step goes through ``torch.compile``.

    The text is read from the running libraries, never from what was asked for.
    """
    import torch

    parts = {"torch": torch.__version__.split("+")[0]}
    if torch.device(device).type == "cuda":
        gpu = torch.cuda.get_device_properties(torch.device(device))
        parts |= {
            "device": gpu.name.replace(";", ","),
            "chip": f"sm_{gpu.major}{gpu.minor}/{gpu.multi_processor_count}",
            "cuda": str(torch.version.cuda),
            "matmul": torch.get_float32_matmul_precision(),
        }
    else:
        branch = os.environ.get("MKL_CBWR", "AUTO")
        onednn = torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled
        parts |= {
            "device": f"cpu-{platform.machine()}",
            "isa": torch.backends.cpu.get_cpu_capability().replace(" ", "_"),
            "threads": str(torch.get_num_threads()),
            "blas": f"mkl-{branch}" if torch.backends.mkl.is_available() else "other",
            "onednn": "on" if onednn else "off",
        }
        if branch != "COMPATIBLE" or not torch.backends.mkl.is_available():
            parts["cpu"] = cpu_model()
    parts["deterministic"] = "yes" if torch.are_deterministic_algorithms_enabled() else "no"
    parts["compiled"] = "yes" if compiled else "no"
    return ";".join(f"{key}={value}" for key, value in parts.items())


def cpu_model() -> str:
    """The CPU's model as the kernel tells it, or what the platform module knows."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            wanted = ("cpu family", "model", "model name", "stepping")
            pairs = (line.split(":", 1) for line in file if ":" in line)
            found = dict.fromkeys(wanted, "?")
            for key, value in pairs:
                if found.get(key.strip()) == "?":
                    found[key.strip()] = value.strip().replace(";", ",")
            return "/".join(found.values())
    except OSError:
        return (platform.processor() or "unknown").replace(";", ",")
