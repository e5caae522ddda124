# SPDX-License-Identifier: Apache-2.0
"""What a sponsor is told of a gauntlet job's options has the figures of docs/scoring.md."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.jobs.combinations.pay import paying, saying_little, showing, showing_little
from agents.jobs.evaluated import few_evaluated, held_back, many_sequences
from agents.jobs.publish import publish_job
from agents.mechanisms import codec as codecs
from agents.mechanisms import verify
from agents.storage.embedded import EmbeddedStore
from agents.training.spec import JobSpec, demo_spec

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "scoring.md").read_text()
SECTION = " ".join(PAGE.partition("\n## `gauntlet`\n")[2].partition("\n## ")[0].split())
# Not the value of an option: 0.44, 0.67 to 1.20, 41 to 68 %, 87 %.
FIGURE = re.compile(r"\d+\.\d+(?: to \d+\.\d+)?|\d+(?: to \d+)? %")
OF_TWO_COLUMNS = {"9 to 27 %"}  # joined; a test holds it
GRADIENT = {"inner": "gradient", "batch_size": 2, "seq_len": 16}


def spec(
    codec: str = "demo",
    optimizer: dict[str, Any] | None = None,
    per_chunk: int = 512,
    **options: Any,
) -> JobSpec:
    fields: dict[str, Any] = {} if optimizer is None else {"optimizer": optimizer}
    if codec == "demo":
        fields["codec_options"] = {"per_chunk": per_chunk}
    fields |= {"codec": codec, "score": "gauntlet", "verify": "gauntlet", "merge": "norm_clip"}
    return demo_spec("b" + "a" * 58, score_options=options, **fields)


def told(job: JobSpec) -> str:
    """The one message about its options."""
    verification, codec = verify.get(job.verify)(), codecs.get(job.codec)(**job.codec_options)
    known = job, verification, codec
    refused = [*showing(*known), *saying_little(*known), *paying(job)]
    (message,) = refused or showing_little(job, verification, codec)
    return message


JOBS = {
    "sparse steps": spec("sparse"),
    "sparse gradients": spec("sparse", GRADIENT),
    "steps": spec(),
    "few numbers": spec(optimizer=GRADIENT, per_chunk=32),
    "rank": spec(optimizer=GRADIENT, pays="rank"),
    "no history": spec(optimizer=GRADIENT, history=0),
}


def equal_nodes() -> str:
    """By how much they spread in both jobs by the default power: `9 to 27 %`."""
    (row,) = [
        line for line in PAGE.splitlines() if line.startswith("| eight equal nodes: standard")
    ]
    _, signs, _, plain, *_ = [cell.strip() for cell in row.strip("|").split("|")[1:]]
    spreads = [float(figure) for figure in f"{signs}, {plain}".split(", ")]
    return f"{100 * min(spreads):.0f} to {100 * max(spreads):.0f} %"


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


def test_equal_nodes_spread_by_what_the_table_has() -> None:
    assert f'by pays "work" it is {equal_nodes()}, so use that' in told(JOBS["rank"])
    assert f"with codec demo by {equal_nodes()} (" in told(JOBS["sparse gradients"])


def of_numbers(per_chunk: int, decay: str) -> tuple[str, str]:
    """What the table has where so many are sent: pay for twice the data and, over their share, for
    windows, by the mean of the seeds."""
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| {per_chunk} | {decay} |")]
    _, _, twice, _, windows, over = (cell.strip() for cell in rows[0].strip("|").split("|"))
    found = [[float(figure) for figure in cell.split(", ")] for cell in (twice, windows)]
    # A window of a quarter is due a quarter of an honest node's pay; that is rounded here.
    assert abs(statistics.mean(found[1]) / 0.25 - float(over)) < 0.12
    return f"{statistics.mean(found[0]):.2f}", over


def test_what_is_said_of_few_numbers_is_what_the_table_has() -> None:
    said = told(JOBS["few numbers"])
    (_, default), (twice, few), (usual, many) = (
        of_numbers(*row) for row in ((32, "0.999"), (64, "0.5"), (512, "0.5"))
    )
    assert f"earned {default} of their share by 32 of 4096 and {few} by 64" in said
    assert f"twice the data {twice} of an honest node's pay; by 512 it was {many} and" in said
    assert f" and {usual} (docs/scoring.md)" in said


def test_what_is_said_of_few_evaluated_is_what_the_table_has() -> None:
    found = few_evaluated(spec(optimizer=GRADIENT), 64)
    assert found is not None
    lines = (DOCS / "gauntlet.md").read_text().split("| of 64 evaluated |")[1].splitlines()[2:6]
    rows = {row[1].strip(): row[2:] for row in (line.split("|") for line in lines)}
    spreads = [sorted(rows[count][2].strip().split(", ")) for count in ("8", "32", "64")]
    eighth, half, all_of_them = (f"{row[0]} to {row[-1]}" for row in spreads)
    assert f"by {eighth} of its mean over 24 rounds where 8 were evaluated" in found
    assert f"by {half} where 32 were, and by {all_of_them} where all were" in found


def of_batches(batches: int, measured: int) -> tuple[list[str], list[str]]:
    """What the table has where a node has so many batches and so many are measured: pay for a
    quarter of the work, and spreads."""
    (row,) = [
        line
        for line in (DOCS / "gauntlet.md").read_text().splitlines()
        if line.startswith(f"| {batches} | {measured} |")
    ]
    _, _, pay, spread = (cell.strip() for cell in row.strip("|").split("|"))
    return sorted(pay.split(", ")), sorted(spread.split(", "))


def test_what_is_said_of_batches_is_what_the_table_has() -> None:
    job = spec(optimizer=GRADIENT)
    warned = many_sequences(job, 3)
    assert warned is not None
    (all_of_16, uneven), (all_of_4, even) = of_batches(16, 16), of_batches(4, 4)
    assert f"By 32 the pay of equal nodes spread by {uneven[0]} to {uneven[-1]} of" in warned
    assert f"earned up to {all_of_16[-1]} of an honest node's pay" in warned
    assert f"by 8 it was {even[0]} to {even[-1]}, and {all_of_4[-1]}" in warned


def test_the_page_s_spec_is_taken_without_a_word(tmp_path: Path) -> None:
    """Of four trainers; more have fewer batches each."""
    fields = yaml.safe_load((DOCS / "gauntlet.md").read_text().split("```yaml")[1].split("```")[0])
    text = "".join(f"crane {n} nests in sector {n * 7 % 90}\n" for n in range(2_000))
    published = publish_job(EmbeddedStore(tmp_path), [text.encode()], fields)
    assert not published.warnings
    assert held_back(published.spec, 1) is None and many_sequences(published.spec, 4) is None
