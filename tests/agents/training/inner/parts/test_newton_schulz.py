# SPDX-License-Identifier: Apache-2.0
"""Newton-Schulz keeps the singular vectors and brings the singular values into its band."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from agents.training.inner.parts.newton_schulz import COEFFICIENTS, STEPS, orthogonalised


def matrix_of(values: torch.Tensor, columns: int) -> torch.Tensor:
    """fp32 [1, len(values), columns] with these singular values and random singular vectors."""
    generator = torch.Generator().manual_seed(0)
    rows = len(values)
    left, _ = torch.linalg.qr(torch.randn(rows, rows, generator=generator, dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(columns, rows, generator=generator, dtype=torch.float64))
    return (left @ torch.diag(values.double()) @ right.T).float()[None]


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("shape", [(3, 8, 24), (2, 16, 16), (1, 1, 5)])
def test_singular_values_of_at_least_a_hundredth_end_in_the_band(
    shape: tuple[int, int, int], size: float
) -> None:
    given = size * torch.randn(shape, generator=torch.Generator().manual_seed(1))
    before = torch.linalg.svdvals(given)
    shares = before / torch.linalg.vector_norm(before, dim=-1, keepdim=True)
    after = torch.linalg.svdvals(orthogonalised(given))
    assert (shares >= 0.01).any()
    assert after[shares >= 0.01].min() > 0.681
    assert after[shares >= 0.01].max() < 1.135


def test_an_ill_conditioned_matrix_is_mapped_value_by_value_and_keeps_its_vectors() -> None:
    values = torch.logspace(0, -6, 12)
    given = matrix_of(values, 30)
    found = orthogonalised(given)[0].double()
    a, b, c = COEFFICIENTS
    expected = values.double() / torch.linalg.vector_norm(given.double())
    for _ in range(STEPS):
        expected = a * expected + b * expected**3 + c * expected**5
    left, _, right = torch.linalg.svd(given[0].double(), full_matrices=False)
    torch.testing.assert_close(left.T @ found @ right.T, torch.diag(expected), rtol=0, atol=1e-4)
    large = values >= 0.0021 * float(torch.linalg.vector_norm(values))
    assert expected[large].min() > 0.681
    assert expected[large].max() < 1.203


@pytest.mark.parametrize("columns", [64, 127, 128, 352])
@pytest.mark.parametrize(
    "values",
    [
        torch.logspace(0, -12, 64),
        torch.logspace(0, -4, 64),
        torch.cat([torch.ones(20), torch.logspace(-1.5, -3, 44)]),
        torch.cat([torch.ones(1), torch.zeros(63)]),
        torch.ones(64),
    ],
)
def test_it_stays_near_exact_products_at_any_condition(values: torch.Tensor, columns: int) -> None:
    given = matrix_of(values, columns)
    found = orthogonalised(given)
    torch.testing.assert_close(found.double(), by_exact_products(given), rtol=0, atol=1e-5)


def by_exact_products(given: torch.Tensor) -> torch.Tensor:
    """fp64: the steps as they are defined."""
    a, b, c = COEFFICIENTS
    exact = given.double() / torch.linalg.vector_norm(given.double())
    for _ in range(STEPS):
        gram = exact @ exact.mT
        exact = a * exact + (b * gram + c * gram @ gram) @ exact
    return exact


@pytest.mark.parametrize("columns", [600, 1200])
@pytest.mark.parametrize("least", [0, -4, -12])
def test_halves_of_symmetric_products_stay_as_near(columns: int, least: int) -> None:
    """600 rows: the last block is shorter than the others."""
    given = matrix_of(torch.logspace(0, least, 600), columns)
    found = orthogonalised(given)
    torch.testing.assert_close(found.double(), by_exact_products(given), rtol=0, atol=1e-5)


def test_of_many_rows_no_symmetric_product_is_taken_whole() -> None:
    """Multiplications of fp32 products, beside what they would be: 3 of 2 m^3 a step."""

    def multiplications(rows: int, dtype: torch.dtype = torch.float32) -> int:
        given = torch.randn(1, rows, rows, generator=torch.Generator().manual_seed(4))
        with profile(activities=[ProfilerActivity.CPU], with_flops=True) as seen:
            orthogonalised(given, dtype)
        return sum(one.flops for one in seen.events() if one.name in ("aten::bmm", "aten::baddbmm"))

    whole = STEPS * 3 * 2
    assert multiplications(384) == whole * 384**3
    assert multiplications(512) < 0.76 * whole * 512**3
    assert multiplications(512, torch.bfloat16) == whole * 512**3


def test_the_gram_side_is_taken_from_twice_as_many_columns_on() -> None:
    """Products with X are the ones that have as many columns as it has."""

    def wide_products(columns: int, dtype: torch.dtype) -> int:
        given = torch.randn(2, 8, columns, generator=torch.Generator().manual_seed(3))
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
            orthogonalised(given, dtype)
        products = [one for one in seen.events() if one.name in ("aten::bmm", "aten::baddbmm")]
        return sum(any(columns in shape for shape in one.input_shapes) for one in products)

    assert wide_products(15, torch.float32) == wide_products(16, torch.bfloat16) == 2 * STEPS
    assert wide_products(16, torch.float32) == 4


def test_bf16_products_stay_near_those_of_fp32() -> None:
    given = matrix_of(torch.linspace(1.0, 0.2, 12), 30)
    exact, rough = orthogonalised(given), orthogonalised(given, torch.bfloat16)
    assert rough.dtype == torch.float32
    assert 0 < float((exact - rough).norm() / exact.norm()) < 0.03


def test_zeros_stay_zeros() -> None:
    assert not orthogonalised(torch.zeros(2, 3, 4)).any()


@pytest.mark.parametrize(("rows", "columns"), [(4, 6), (512, 520)])
def test_a_matrix_is_not_changed_by_those_beside_it(rows: int, columns: int) -> None:
    given = torch.randn(3, rows, columns, generator=torch.Generator().manual_seed(2))
    alone = torch.cat([orthogonalised(one[None]) for one in given])
    torch.testing.assert_close(orthogonalised(given), alone, rtol=0, atol=1e-5)
    assert alone.shape == given.shape
