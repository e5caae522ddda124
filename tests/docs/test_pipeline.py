# SPDX-License-Identifier: Apache-2.0
"""The job spec on the pipeline's page is one that a sponsor can publish."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from agents.jobs.publish import publish_job
from agents.storage.embedded import EmbeddedStore

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipeline.md"


def test_the_spec_on_the_page_can_be_published(tmp_path: Path) -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
    text = [b"a line of the text to train on\n" * 2_000]
    published = publish_job(EmbeddedStore(tmp_path), text, yaml.safe_load(block))
    assert published.spec.mode == "pipeline" and published.warnings == ()
