# SPDX-License-Identifier: Apache-2.0
"""A model is cut into stages that together are the model, and that are built and started alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from agents.mechanisms import boundary as boundaries
from agents.training import model
from agents.training.model import build_model, init_state
from agents.training.slices import (
    Chain,
    Slices,
    build_stage,
    init_stage,
    products,
    training_bytes,
)
from agents.training.spec import ModelSpec, PipelineSpec
from agents.training.state import State
from tests.stage.memory.tiny_specs import tiny_model

SPEC = ModelSpec(**tiny_model(16, 24, 12, layers=4), tie_embeddings=False, init_seed=5)
TIED = SPEC.model_copy(update={"tie_embeddings": True})
CUTS = [(4,), (2, 2), (1, 2, 1), (1, 1, 1, 1)]
KINDS = boundaries.names()


def slices(layers: tuple[int, ...], boundary: str = "none", spec: ModelSpec = SPEC) -> Slices:
    return Slices(spec, layers, boundaries.get(boundary)())


def states(cut: Slices) -> list[State]:
    return [init_stage(cut, index) for index in range(cut.last + 1)]


def union(cut: Slices) -> State:
    return {name: tensor for state in states(cut) for name, tensor in state.items()}


@pytest.mark.parametrize(("layers", "spec"), [(cut, SPEC) for cut in CUTS] + [((4,), TIED)])
def test_the_stages_of_none_start_as_the_decoder_does(
    layers: tuple[int, ...], spec: ModelSpec
) -> None:
    got, expected = union(slices(layers, spec=spec)), init_state(spec)
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize("layers", CUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_stage_has_all_its_parameters_before_its_first_forward(
    kind: str, layers: tuple[int, ...]
) -> None:
    cut = slices(layers, kind)
    chain, tokens = Chain(cut), torch.zeros(1, 12, dtype=torch.int64)
    before = [dict(stage.named_parameters()).keys() for stage in chain.stages]
    chain(tokens).sum().backward()
    for stage, names, state in zip(chain.stages, before, states(cut), strict=True):
        assert dict(stage.named_parameters()).keys() == names == state.keys()
    assert len(union(cut)) == sum(map(len, before))


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_boundary_leaves_as_it_is_starts_as_in_the_decoder(kind: str) -> None:
    got, expected = union(slices((2, 2), kind)), init_state(SPEC)
    shared = got.keys() & expected.keys()
    assert len(shared) > 20 and all(torch.equal(got[name], expected[name]) for name in shared)
    new = {name.split(".")[0] for name in got.keys() - expected.keys()}
    assert new <= {"anchors", "boundaries"}


@pytest.mark.parametrize("kind", ["cut", "residual"])
def test_a_stages_own_table_starts_with_the_embeddings_bits(kind: str) -> None:
    got = union(slices((1, 2, 1), kind))
    for table in ("anchors.1.weight", "anchors.2.weight"):
        assert torch.equal(got[table], got["embedding.weight"])


def test_a_fixed_table_is_the_embeddings_first_bits_in_every_stage_and_in_no_state() -> None:
    cut = slices((2, 2), "subspace")
    for index in (0, 1):
        fixed = build_stage(cut, index).fixed
        assert fixed is not None
        assert torch.equal(fixed, init_state(SPEC)["embedding.weight"])
        assert "fixed" not in init_stage(cut, index)


def test_what_an_anchored_boundary_learns_starts_at_zero_and_a_plain_one_is_drawn() -> None:
    anchored, plain = (
        init_stage(Slices(SPEC, (2, 2), boundaries.get("residual")(**options)), 1)
        for options in ({"context": 3}, {"anchor": False})
    )
    for name in ("decoder.weight", "context.weight"):
        assert not anchored[f"boundaries.0.receiver.{name}"].any()
    assert plain["boundaries.0.receiver.decoder.weight"].all()


@pytest.mark.parametrize("kind", ["residual", "subspace"])
def test_where_the_blocks_add_nothing_every_code_is_zero(kind: str) -> None:
    cut, tokens, code = slices((1, 2, 1), kind), torch.arange(24).view(2, 12), None
    for index in (0, 1):
        stage = build_stage(cut, index)
        stage.load_state_dict(init_stage(cut, index))
        for name, parameter in stage.named_parameters():
            if name.endswith(("output.weight", "down.weight")):
                parameter.data.zero_()
        code = stage(tokens, code)
        assert code.shape == cut.code_shape(2, 12) and not code.any()


@pytest.mark.parametrize("layers", CUTS)
def test_the_chain_of_none_gives_the_decoders_logits(layers: tuple[int, ...]) -> None:
    cut = slices(layers)
    chain, whole = Chain(cut), build_model(SPEC)
    whole.load_state_dict(init_state(SPEC))
    for stage, state in zip(chain.stages, states(cut), strict=True):
        stage.load_state_dict(state)
    tokens = torch.arange(24).view(2, 12)
    assert torch.equal(chain(tokens), whole(tokens))


def test_a_stage_is_built_where_the_whole_model_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut = slices((1, 1, 1, 1))
    largest = max(sum(t.numel() for t in state.values()) for state in states(cut))
    monkeypatch.setattr(model, "MAX_PARAMETERS", largest)
    with pytest.raises(ValueError, match="are allowed"):
        init_state(SPEC)
    for index in range(4):
        build_stage(cut, index).load_state_dict(init_stage(cut, index))


def test_the_stages_of_none_share_the_memory_of_the_whole_model() -> None:
    whole = 16 * sum(tensor.numel() for tensor in init_state(SPEC).values())
    parts = [training_bytes(slices((1, 1, 1, 1)), index) for index in range(4)]
    assert sum(parts) == whole
    assert parts[1] == parts[2] < min(parts[0], parts[3])


def test_an_anchor_costs_a_table_a_stage() -> None:
    anchored, plain = (
        training_bytes(Slices(SPEC, (2, 2), boundaries.get("residual")(anchor=anchor)), 1)
        for anchor in (True, False)
    )
    assert anchored - plain == 16 * SPEC.vocab_size * SPEC.d_model


def test_a_tokens_products_are_those_of_blocks_and_head_and_not_of_tables() -> None:
    width, length = SPEC.d_model, 12
    keys = 2 * width * SPEC.n_kv_heads // SPEC.n_heads
    matrices = 2 * width**2 + keys * width + 3 * width * SPEC.d_ff
    block, head = matrices + length * width, SPEC.vocab_size * width
    for layers in CUTS:
        found = [products(slices(layers), index, length) for index in range(len(layers))]
        assert found == [*(n * block for n in layers[:-1]), layers[-1] * block + head]
    coded = Slices(SPEC, (2, 2), boundaries.get("residual")(width=4))
    ends = products(coded, 0, length), products(coded, 1, length)
    assert ends == (2 * block + 4 * width, 2 * block + 4 * width + head)
    assert products(slices((2, 2), "bottleneck"), 0, length) > 1.8 * block


@pytest.mark.parametrize(
    ("spec", "layers", "says"),
    [
        (SPEC, (2, 1), r"are 3 blocks, but the model has 4"),
        (SPEC, (4, 0), "at least one block each"),
        (SPEC, (), "1 to 16 stages"),
        (SPEC.model_copy(update={"n_layers": 17}), (1,) * 17, "1 to 16 stages"),
        (TIED, (2, 2), "tie_embeddings must be false"),
        (SPEC.model_copy(update={"kind": "transformers"}), (4,), 'kind "llama"'),
        (SPEC.model_copy(update={"d_model": 8}), (2, 2), "width 16 must not exceed d_model 8"),
    ],
)
def test_a_cut_that_cannot_be_is_refused_with_a_reason(
    spec: ModelSpec, layers: tuple[int, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        slices(layers, "residual", spec)


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"layers": (2, 2), "boundary": "wall"}, "no boundary 'wall'"),
        ({"layers": (2, 2), "boundary_options": {"height": 3}}, "height"),
        ({"layers": (2, 2), "boundary_options": {"width": 0}}, "width must be"),
    ],
)
def test_a_spec_block_that_names_no_boundary_is_refused(block: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Slices.of(SPEC, PipelineSpec(**block))


def test_a_spec_block_becomes_slices() -> None:
    block = PipelineSpec(layers=(1, 3), boundary_options={"width": 4, "code": "int8"})
    assert Slices.of(SPEC, block) == Slices(
        SPEC, (1, 3), boundaries.get("residual")(width=4, code="int8")
    )
