# SPDX-License-Identifier: Apache-2.0
"""What a sponsor is told of a gauntlet job's options has the figures of docs/scoring.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agents.jobs.combinations.pay import paying, paying_little_work, showing, showing_little
from agents.jobs.evaluated import few_evaluated
from agents.mechanisms import codec as codecs
from agents.mechanisms import verify
from agents.training.spec import JobSpec, demo_spec

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "scoring.md").read_text()
SECTION = " ".join(PAGE.partition("\n## `gauntlet`\n")[2].partition("\n## ")[0].split())
# Not the value of an option: 0.44, 0.67 to 1.20, 41 to 68 %, 87 %.
FIGURE = re.compile(r"\d+\.\d+(?: to \d+\.\d+)?|\d+(?: to \d+)? %")
OF_TWO_COLUMNS = {"0.23 to 0.89"}  # joined; the last test holds it
GRADIENT = {"inner": "gradient", "batch_size": 2, "seq_len": 16}


def spec(codec: str = "demo", optimizer: dict[str, Any] | None = None, **options: Any) -> JobSpec:
    fields: dict[str, Any] = {} if optimizer is None else {"optimizer": optimizer}
    fields |= {"codec": codec, "score": "gauntlet", "verify": "gauntlet", "merge": "norm_clip"}
    return demo_spec("b" + "a" * 58, score_options=options, **fields)


def told(job: JobSpec) -> str:
    """The one message about its options."""
    verification, codec = verify.get(job.verify)(), codecs.get(job.codec)()
    refused = [*showing(job, verification, codec), *paying(job)]
    (message,) = refused or showing_little(job, verification, codec)
    return message


def told_of_codec(job: JobSpec, **options: Any) -> str:
    """What is said of a codec's options."""
    codec = codecs.get(job.codec)(**options)
    return " ".join(paying_little_work(job, verify.get(job.verify)(), codec))


JOBS = {
    "sparse steps": spec("sparse"),
    "sparse gradients": spec("sparse", GRADIENT),
    "steps": spec(),
    "rank": spec(optimizer=GRADIENT, pays="rank"),
    "no history": spec(optimizer=GRADIENT, history=0),
}


def cells(row: str) -> list[str]:
    """Of the table by job and power: `plain` before, `plain` 1, 1.25, `signs` 1, 1.25."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {row}")]
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def span(*ranges: str) -> tuple[float, float]:
    """The least and the most of `0.12 to 0.18` and others."""
    ends = [float(end) for found in ranges for end in found.split(" to ")]
    return min(ends), max(ends)


def in_fractions(figure: str) -> str:
    """`26 to 43 %` as the page's tables have it: 0.26 to 0.43."""
    return " to ".join(f"{int(end) / 100:.2f}" for end in figure.removesuffix(" %").split(" to "))


@pytest.mark.parametrize("name", JOBS)
def test_each_figure_of_a_message_is_on_the_page(name: str) -> None:
    figures = set(FIGURE.findall(told(JOBS[name]))) - OF_TWO_COLUMNS
    assert figures
    for figure in figures:
        both = (figure, in_fractions(figure)) if figure.endswith("%") else (figure,)
        assert any(form in SECTION for form in both), figure


def test_what_little_work_earns_is_what_the_page_says() -> None:
    words = told_of_codec(JOBS["steps"])
    assert "0.39 for a quarter and 0.62 for half of it" in SECTION
    assert "a quarter of the work earned 0.39 of an honest node's pay, and half of it 0.62" in words
    assert "each earns 0.15 of an honest node's pay" in SECTION
    assert "With half of the work each earns 0.41" in SECTION
    assert "by which they earned 0.15 and 0.41 (" in words
    assert told_of_codec(JOBS["steps"], per_chunk=512, decay=0.5) == ""


def test_equal_nodes_spread_by_what_the_table_has() -> None:
    _, plain, plain_usual, signs, signs_usual = cells("eight equal nodes: standard deviation")
    least, most = span(plain_usual, signs_usual)
    assert f"{100 * least:.0f} to {100 * most:.0f} %, so use that" in told(JOBS["rank"])
    least, most = span(plain, signs)
    assert f"with inner gradient by {100 * least:.0f} to {100 * most:.0f} %" in told(JOBS["steps"])


def test_two_on_a_quarter_of_the_work_earn_what_the_table_has() -> None:
    rows = PAGE[PAGE.index("| one of seven adds them to a quarter of the work") :].splitlines()
    assert rows[1].startswith("| two of seven |")
    _, plain, _, signs, _ = (cell.strip() for cell in rows[1].strip("|").split("|")[1:])
    least, most = span(plain, signs)
    assert f"with codec demo {least:.2f} to {most:.2f} (" in told(JOBS["sparse gradients"])


def test_what_is_said_of_few_evaluated_is_what_the_table_has() -> None:
    found = few_evaluated(spec(optimizer=GRADIENT), 64)
    assert found is not None
    lines = (DOCS / "gauntlet.md").read_text().split("| of 64 evaluated |")[1].splitlines()[2:6]
    rows = {row[1].strip(): row[2:] for row in (line.split("|") for line in lines)}
    spreads = [sorted(rows[count][2].strip().split(", ")) for count in ("8", "32", "64")]
    parts = [f"{float(rows[count][1]):.2f}" for count in ("8", "32", "64")]
    eighth, half, all_of_them = (f"{row[0]} to {row[-1]}" for row in spreads)
    assert f"by {eighth} of its mean over 24 rounds where 8 were evaluated" in found.sentence
    assert f"by {half} where 32 were, and by {all_of_them} where all were" in found.sentence
    assert f"earned {parts[0]}, {parts[1]} and {parts[2]} of an honest node's pay" in found.sentence
