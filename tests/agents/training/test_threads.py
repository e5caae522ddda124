# SPDX-License-Identifier: Apache-2.0
"""One thread for a while, and as many as before after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from agents.training.threads import one_thread


@pytest.fixture(autouse=True)
def three() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_one_thread__while_it_lasts() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_one_thread__ends_with_an_error_too() -> None:
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == 3
