# SPDX-License-Identifier: Apache-2.0
"""What was found is kept while it is used, and is found again when it was dropped."""

from __future__ import annotations

import pytest

from agents.runtime.newest import Newest


@pytest.fixture
def found() -> list[int]:
    """What had to be found, in order."""
    return []


def test_those_that_were_used_last_are_kept(found: list[int]) -> None:
    kept: Newest[int, str] = Newest(2)

    def ask(key: int) -> str:
        return kept.of(key, lambda: found.append(key) or str(key))  # type: ignore[func-returns-value]

    assert [ask(key) for key in (1, 2, 1, 3, 1, 2)] == ["1", "2", "1", "3", "1", "2"]
    assert found == [1, 2, 3, 2]
    assert len(kept) == 2


def test_what_is_none_is_kept_too(found: list[int]) -> None:
    kept: Newest[int, None] = Newest(2)
    for _ in range(2):
        assert kept.of(1, lambda: found.append(1)) is None
    assert found == [1]


def test_what_can_not_be_found_is_not_kept(found: list[int]) -> None:
    kept: Newest[int, int] = Newest(2)
    with pytest.raises(ZeroDivisionError):
        kept.of(1, lambda: 1 // 0)
    assert kept.of(1, lambda: 5) == 5


def test_finding_one_may_ask_for_others() -> None:
    kept: Newest[int, int] = Newest(1)

    def sum_to(number: int) -> int:
        return number and kept.of(number - 1, lambda: sum_to(number - 1)) + number

    assert sum_to(9) == 45
    assert len(kept) == 1
