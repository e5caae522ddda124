# SPDX-License-Identifier: Apache-2.0
"""Honest nodes agree on every result and on every refusal, in whatever process they run."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.storage.cid import digest_of
from agents.storage.embedded import EmbeddedStore
from agents.storage.errors import NotFound
from agents.tasks.compute.budget import Budget
from agents.tasks.compute.classes import CPU, limits_of
from agents.tasks.compute.errors import REASONS, TaskError
from agents.tasks.compute.execution import Execution
from agents.tasks.compute.run import refuse, run_published, run_task
from agents.training.determinism import PINNED_ENVIRONMENT
from agents.training.spec import ModelSpec
from tests.stage.memory.task_inputs import RUN_S, Case, TaskInputs, cases, perform
from tests.stage.memory.task_variants import changed

ROOT = Path(__file__).parents[4]


def launch(
    folder: Path, named: Mapping[str, Case], how: str, **environment: str
) -> subprocess.Popen[str]:
    """A worker on these cases, in their order, with these variables set by whoever started it."""
    store = EmbeddedStore(folder / "store")
    rows = {
        name: {"spec": digest_of(store.put_bytes(c.raw)).hex(), "run_s": c.run_s, "label": c.label}
        for name, c in named.items()
    }
    file = folder / f"{len(list(folder.iterdir()))}.json"
    file.write_text(json.dumps(rows))
    plain = {k: v for k, v in os.environ.items() if k not in PINNED_ENVIRONMENT}
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.agents.tasks.compute.worker"),
            *(str(folder / "store"), str(file), how),
        ],
        env=plain | {"PYTHONPATH": str(ROOT)} | environment,
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, problem = process.communicate(timeout=300)
    assert process.returncode == 0, problem
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Case]]:
    folder = tmp_path_factory.mktemp("tasks")
    return folder, cases(TaskInputs.build(EmbeddedStore(folder / "store")))


@pytest.fixture(scope="module")
def nodes(wanted: tuple[Path, dict[str, Case]]) -> tuple[dict[str, Any], ...]:
    """Two nodes, the second in another environment and with the tasks in reverse; one unpinned."""
    folder, named = wanted
    other = dict(reversed(named.items()))
    some = {name: named[name] for name in ("evaluate", "noise", "class")}
    processes = [
        launch(folder, named, "pinned", PYTHONHASHSEED="1"),
        launch(
            folder, other, "pinned", PYTHONHASHSEED="2", OMP_NUM_THREADS="2", MKL_NUM_THREADS="3",
            MKL_CBWR="AVX2", ATEN_CPU_CAPABILITY="default", OPENBLAS_NUM_THREADS="2",
        ),
        launch(folder, some, "unpinned", OMP_NUM_THREADS="2"),
    ]  # fmt: skip
    return tuple(answer(process) for process in processes)


def test_two_nodes_agree_on_everything(nodes: tuple[dict[str, Any], ...]) -> None:
    first, second, _ = nodes
    assert first["class"] == second["class"] == CPU
    assert list(first["results"]) == list(reversed(second["results"]))
    assert first["results"] == second["results"]


def test_each_case_is_refused_for_its_reason(
    wanted: tuple[Path, dict[str, Case]], nodes: tuple[dict[str, Any], ...]
) -> None:
    found = {name: row[1] for name, row in nodes[0]["results"].items()}
    assert found == {name: case.refusal for name, case in wanted[1].items()}
    assert set(found.values()) == set(REASONS) - {"failed"} | {None}


def test_a_digest_names_its_payload(nodes: tuple[dict[str, Any], ...]) -> None:
    # A file of one chunk is one raw block, so its CID's digest is its own sha2-256.
    for name, (digest, refusal, payload) in nodes[0]["results"].items():
        assert digest == payload, name
        if refusal is not None:
            assert digest == hashlib.sha256(b'{"refused":"%s"}' % refusal.encode()).hexdigest()
    results = [row[0] for row in nodes[0]["results"].values() if row[1] is None]
    assert len(set(results)) == 3


def test_a_node_outside_the_class_computes_nothing_but_knows_a_bad_spec(
    nodes: tuple[dict[str, Any], ...],
) -> None:
    first, _, unpinned = nodes
    assert unpinned["results"]["evaluate"] == ["ClassNotHeld"]
    for name in ("noise", "class"):
        assert unpinned["results"][name] == first["results"][name]
    assert "must be mkl-COMPATIBLE" in unpinned["class"]
    assert "deterministic is no, must be yes" in unpinned["class"]


def test_settings_changed_after_pinning_lose_the_class(nodes: tuple[dict[str, Any], ...]) -> None:
    assert "the default dtype is torch.float64" in nodes[0]["float64"]
    assert "denormal numbers are flushed" in nodes[0].get(
        "denormals", "denormal numbers are flushed"
    )


def test_faults_of_the_numbers_are_results_and_faults_of_the_machine_are_not(
    nodes: tuple[dict[str, Any], ...],
) -> None:
    assert nodes[0]["faults"] == {
        "IndexError": "failed",
        "OverflowError": "failed",
        "RuntimeError": "raised RuntimeError",
        "MemoryError": "raised MemoryError",
        "OSError": "raised OSError",
    }


def test_a_refusal_is_known_in_advance() -> None:
    result = refuse(TaskError("too_long", "whatever a node has to say about it"))
    assert result.payload == b'{"refused":"too_long"}'
    assert result.digest == hashlib.sha256(result.payload).digest() == digest_of(result.cid)
    assert result == refuse(TaskError("too_long", "whatever a node has to say about it"))
    with pytest.raises(KeyError):
        TaskError("dog_ate_it", "not in the list")


def test_an_unknown_class_on_chain_is_the_callers_mistake(inputs: TaskInputs) -> None:
    for label in ("cuda:sm_90", "cpu", ""):
        with pytest.raises(ValueError, match="no determinism class"):
            run_task(inputs.evaluate().canonical(), RUN_S, inputs.store, label, "cpu")


def test_a_spec_too_long_to_fetch_is_refused_and_an_absent_one_awaited(inputs: TaskInputs) -> None:
    long = digest_of(inputs.store.put_bytes(bytes(20_000)))
    assert run_published(long, RUN_S, inputs.store, CPU, "cpu").refusal == "bad_spec"
    with pytest.raises(NotFound):
        run_published(bytes(32), RUN_S, inputs.store, CPU, "cpu")


MISSING = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"  # of the empty file


@pytest.mark.parametrize("field", ["checkpoint", "data"])
@pytest.mark.parametrize("kind", ["evaluate", "train", "generate"])
def test_an_absent_input_is_awaited(inputs: TaskInputs, kind: str, field: str) -> None:
    name = "prompts" if (kind, field) == ("generate", "data") else field
    spec = getattr(inputs, kind)(**{name: MISSING})
    with pytest.raises(NotFound):
        perform(spec, inputs.store)


def test_every_bit_of_every_input_counts(inputs: TaskInputs) -> None:
    """One bit of a weight, a token, a prompt or an option changed: another result."""
    for kind in ("evaluate", "train", "generate"):
        specs = changed(inputs, kind)
        digests = {name: run_in_kind(spec, inputs) for name, spec in specs.items()}
        assert len(set(digests.values())) == len(specs) >= 6, (kind, digests)


def run_in_kind(spec: Any, inputs: TaskInputs) -> str:
    """The payload's digest, with the spec's digest in it as `run_task` puts it there."""
    digest = hashlib.sha256(spec.canonical()).hexdigest()
    execution = Execution(spec, digest, inputs.store, Budget(limits_of(CPU), RUN_S), "cpu")
    return hashlib.sha256(spec.options.run(execution)).hexdigest()


def test_models_that_differ_in_their_seed_alone_differ_in_spec_only(inputs: TaskInputs) -> None:
    # The weights come from the checkpoint, so the seed decides nothing but the task's name.
    other = ModelSpec.model_validate(inputs.train().model.model_dump() | {"init_seed": 6})
    assert perform(inputs.train(model=other), inputs.store) == perform(inputs.train(), inputs.store)
    assert inputs.train(model=other).canonical() != inputs.train().canonical()
