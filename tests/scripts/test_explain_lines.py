# SPDX-License-Identifier: Apache-2.0
"""What `ape run explain` prints of work that counts for nobody."""

from __future__ import annotations

from agents.audit.explain import Explained, Explanation, Outcome, Payment
from agents.protocol.numbers import ZOO
from scripts.explain import lines_of


def test_what_counts_for_nobody_is_said_to_be_nobodys() -> None:
    def paid(node: int, role: str) -> Explanation:
        payment = Payment(role, ZOO, (), (Outcome("credited", ZOO, "0xA"),))
        return Explanation(2, node, (), (payment,))

    nobody, node = paid(0, "nobody"), paid(3, "trainer")
    found = Explained(2, "finalized", 2 * ZOO, (nobody, node), (), ())
    text = "\n".join(lines_of(found, found.nodes, 1))
    first, second = text.split("Node 3")
    assert "Counts for nobody: 1 ZOO" in first and "Node 0" not in first and "as a" not in first
    assert "as a trainer" in second
