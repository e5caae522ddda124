# SPDX-License-Identifier: Apache-2.0
"""What is drawn: pay, stakes and validators' figures by round; a node looks the same everywhere."""

from __future__ import annotations

from dataclasses import replace

from scripts._report.page.figures import figures, loss
from scripts._report.run import Run
from scripts._report.spent import Spent
from scripts._report.standing import Curve, Standing
from tests.stage.memory.demo_run import LOSSES, a_run, a_story
from tests.stage.memory.page_reader import Element, Page


def drawn(run: Run) -> dict[str, Element]:
    """Each chart's image by its caption."""
    page = Page("\n".join(figures(run)))
    assert page.faults == []
    found = {}
    for figure in page.find("figure"):
        caption, image = figure.children[:2]
        found[caption.text] = image
    return found


def paths(image: Element) -> list[Element]:
    return [e for e in image.children if "curve" in e.attributes.get("class", "")]


def scored() -> Run:
    """The run, with figures of validators; one of 40 points is ruinous."""
    flat: Curve = [(round_, 0.01 * round_) for round_ in range(1, 21)]
    ruin: Curve = [*flat[:-1], (20, 1e6)]
    curves = {1: flat, 3: ruin}
    return replace(a_run(), standing=Standing(curves, curves, curves, curves, curves))


def test_loss_begins_with_the_model_that_the_job_began_with() -> None:
    (image,) = Page(loss(a_story())).find("svg", role="img")
    said = image.attributes["aria-label"]
    assert said == f"Validation loss. validation loss: from {LOSSES[0]} to {LOSSES[-1]}"


def test_pay_and_stakes() -> None:
    found = drawn(a_run())
    assert list(found) == ["Rewards of trainers", "Stake left"]
    said = found["Rewards of trainers"].attributes["aria-label"]
    assert "trainer-1: from 0 to 90" in said and "trainer-3 (noise): from 0 to 0" in said
    said = found["Stake left"].attributes["aria-label"]
    assert "trainer-4 (copier): from 100 to 50" in said and "trainer-1" not in said


def test_nobody_slashed__no_stakes() -> None:
    run = a_run()
    run.story.slashes.clear()
    assert list(drawn(run)) == ["Rewards of trainers"]


def test_cheats_are_dashed_and_a_node_keeps_its_colour() -> None:
    found = drawn(scored())
    assert len(found) == 7
    looks = set()
    for title in ("LossScore on random data", "PeerScore", "Paid per round"):
        honest, cheat = paths(found[title])
        assert "stroke-dasharray" not in honest.attributes
        assert "stroke-dasharray" in cheat.attributes
        looks.add((honest.attributes["class"], cheat.attributes["class"]))
    assert len(looks) == 1


def test_privacy_spent__in_the_colours_of_its_nodes() -> None:
    spent = Spent("example", 1e-6, 8.0, {"trainer-3 (noise)": [(1, 1.0), (2, 2.0)]})
    found = drawn(replace(a_run(), spent=spent))
    title = "Privacy spent, per example"
    image = next(found[caption] for caption in found if caption == title)
    budget, own = paths(image)
    assert "bad" in budget.attributes["class"] and "stroke-dasharray" in own.attributes
    alike = [path.attributes["class"] for path in paths(found["Rewards of trainers"])]
    assert alike[2] == own.attributes["class"]


def test_one_ruinous_value_does_not_flatten_the_others() -> None:
    found = drawn(scored())
    honest, _ = paths(found["LossScore on random data"])
    flattened, _ = paths(found["PeerScore"])

    def height(path: Element) -> float:
        drawn = path.attributes["d"].replace("M", "L").split("L")[1:]
        ys = [float(point.split(" ")[1]) for point in drawn]
        return max(ys) - min(ys)

    assert height(honest) > 80 > height(flattened)
