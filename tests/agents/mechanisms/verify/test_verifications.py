# SPDX-License-Identifier: Apache-2.0
"""Ways of verifying: found by name, and what each answers the rest of the code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.mechanisms import verify
from agents.mechanisms.options import MAX_MEMORY_ROUNDS
from agents.mechanisms.verify import Companions, Verification

NAMES = ("gauntlet", "reexecution", "screening")
QUESTIONS = tuple(Verification.__annotations__)

# What a codec without memory, linear or not, goes well with: everything.
EASY = Companions(
    access="public",
    codec="sparse",
    memory_rounds=0,
    has_memory=False,
    linear=False,
    names_numbers=True,
    privacy="none",
    privacy_unit="none",
    privacy_place="none",
)


NOISED: Any = {"privacy": "gaussian", "privacy_unit": "node", "privacy_place": "node"}


def answers(name: str) -> dict[str, Any]:
    chosen = verify.get(name)()
    return {question: getattr(chosen, question) for question in QUESTIONS}


@pytest.mark.parametrize("name", NAMES)
def test_every_question_is_answered_in_its_own_file(name: str) -> None:
    """Or a new way of verifying would inherit an answer that nobody thought about."""
    own = vars(verify.get(name))
    assert [question for question in (*QUESTIONS, "objections") if question not in own] == []


def test_reexecution_has_work_done_again_and_nothing_left_to_nodes() -> None:
    asked = answers("reexecution")
    assert {question for question, answer in asked.items() if answer} == {"redone", "shows_trace"}


def test_screening_finds_nobodys_work_wrong_and_leaves_nothing_to_nodes() -> None:
    asked = answers("screening")
    assert asked.pop("partner") == ("access", "local")
    assert not any(asked.values())


def test_gauntlet_leaves_training_to_nodes_and_has_validators_score() -> None:
    asked = answers("gauntlet")
    assert asked.pop("partner") == ("score", "gauntlet")
    assert asked.pop("own_memory_rounds") == MAX_MEMORY_ROUNDS
    not_so = {question for question, answer in asked.items() if not answer}
    assert not_so == {"redone", "shows_trace"}


def test_partners_are_named_with_field_and_value() -> None:
    assert verify.partners() == [
        ("access", "local", "screening"),
        ("score", "gauntlet", "gauntlet"),
    ]


# -- objections ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_what_goes_with_everything_meets_no_objection(name: str) -> None:
    assert verify.get(name)().objections(EASY) == []


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("reexecution", {"memory_rounds": 65}, "set codec_options.memory_rounds to 64 at most"),
        (
            "reexecution",
            {"has_memory": True, "privacy": "aggregate", "privacy_place": "aggregate"},
            'sealed payloads of privacy "aggregate"',
        ),
        ("reexecution", NOISED, "cannot be checked under the noise"),
        (
            "reexecution",
            {**NOISED, "linear": True, "has_memory": True},
            "cannot be checked under the noise",
        ),
        ("gauntlet", {"access": "encrypted"}, 'needs access "public", not "encrypted"'),
        ("gauntlet", {"privacy": "gaussian"}, 'goes with privacy "none", not "gaussian"'),
        ("gauntlet", {"codec": "dense", "names_numbers": False}, 'codec "dense" names every'),
    ],
)
def test_what_cannot_work_meets_one_objection(name: str, changes: Any, said: str) -> None:
    (sentence,) = verify.get(name)().objections(replace(EASY, **changes))
    assert said in sentence


def test_noise_under_a_linear_codec_without_memory_can_be_checked() -> None:
    assert verify.get("reexecution")().objections(replace(EASY, **NOISED, linear=True)) == []


def test_screening_objects_to_nothing() -> None:
    worst = replace(EASY, memory_rounds=65_536, has_memory=True, names_numbers=False)
    assert verify.get("screening")().objections(worst) == []
