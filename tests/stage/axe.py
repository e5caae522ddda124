# SPDX-License-Identifier: Apache-2.0
"""What axe finds wrong in a page: what a reader who sees little, or nothing, could not use."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.stage.island import ISLAND

ALL = {
    "type": "tag",
    "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
}
CONTRAST = {"type": "rule", "values": ["color-contrast"]}
_SCRIPT = ISLAND / "node_modules/axe-core/axe.min.js"


def violations(
    page: Page, rules: dict[str, Any] = ALL, holding: int = 1
) -> list[tuple[str, str, str]]:
    """Rule, place and summary of each. At least so many rules hold, or nothing was looked at: of
    these axe names one node, and not each, which takes most of its time."""
    page.evaluate(_SCRIPT.read_text())
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    found = page.evaluate("options => axe.run(document, options)", options)
    assert len(found["passes"]) >= holding
    return [
        (each["id"], str(node["target"]), node["failureSummary"][:300])
        for each in found["violations"]
        for node in each["nodes"]
    ]
