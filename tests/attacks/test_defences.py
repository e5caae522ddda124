# SPDX-License-Identifier: Apache-2.0
"""The list of defences speaks of the contracts and tests that there are; `without.py` plays it."""

from __future__ import annotations

import pytest

from tests.attacks.without import ROOT, Defence, defences


@pytest.mark.parametrize("defence", defences(), ids=lambda defence: defence.name)
def test_each_listed_defence__is_in_its_contract_and_has_its_tests(defence: Defence) -> None:
    for cut in defence.cuts:
        assert (ROOT / cut.file).read_text().count(cut.lines) == 1
    for test in defence.tests:
        path, _, function = test.partition("::")
        assert not function or f"def {function}(" in (ROOT / path).read_text()
