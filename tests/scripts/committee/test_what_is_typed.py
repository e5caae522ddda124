# SPDX-License-Identifier: Apache-2.0
"""What a member types and no contract could take is refused in a sentence, and nothing is sent."""

from __future__ import annotations

import pytest

from tests.scripts.committee.test_committee import Committee, committee

__all__ = ["committee"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("call ViolationReports resolve_appeal 0xzz true", "'0xzz' is no bytes"),
        ("call ViolationReports resolve_appeal 0xabc true", "'0xabc' is no bytes"),
        ("""call NodeBenchmarks overrule 1 1 true '["0x1"]'""", "'0x1' is no bytes"),
        ("penalty INVALID --share 1e999999999", "is no share"),
        pytest.param(
            f"penalty INVALID --suspension {'9' * 5_000}d", "is no time span", id="5,000 digits"
        ),
        ("parameters --trainer-stake 1e999999999", "is no amount of ZOO"),
        ("parameters --trainer-stake 1e5000", "is no amount of ZOO"),
        ("pool cuda:sm_\uff190/132/13.0", "is no determinism class"),
    ],
)
def test_it_is_refused(committee: Committee, line: str, sentence: str) -> None:
    assert sentence in committee.sign("ada", f"propose {line}", fails=True)
    assert committee.look("list") == "There is no open operation.\n"
