# SPDX-License-Identifier: Apache-2.0
"""What a member types and no contract could take is refused in a sentence, and nothing is sent."""

from __future__ import annotations

import pytest

from tests.scripts.committee.test_committee import Committee, committee

__all__ = ["committee"]
BEYOND = str(1 << 256)
DIGEST = "0x" + "11" * 32


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
        (f"role {BEYOND} VERIFIER", "is not in the range"),
        (f"end-job {BEYOND}", "is not in the range"),
        (f"attest {BEYOND} {DIGEST}", "is not in the range"),
    ],
)
def test_it_is_refused(committee: Committee, line: str, sentence: str) -> None:
    assert sentence in committee.sign("ada", f"propose {line}", fails=True)
    assert committee.look("list") == "There is no open operation.\n"


@pytest.mark.parametrize(
    "line",
    [
        f"appeal {BEYOND} --job 1 --round 1",
        f"appeal 1 --job {BEYOND} --round 1",
        f"node add-stake {BEYOND} 1",
        f"node exit {BEYOND}",
        f"node set {BEYOND} --active",
        f"node withdraw {BEYOND}",
    ],
)
def test_a_number_that_no_contract_gave(committee: Committee, line: str) -> None:
    """The same of the commands of an owner, who appeals and exits."""
    told = committee.terminal.here(f"{line} {committee._net} --account ada", "y\n", fails=True)
    assert "is not in the range" in told
