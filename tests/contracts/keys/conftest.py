# SPDX-License-Identifier: Apache-2.0
"""A job with encrypted data among the real contracts: a sponsor with a hot key for releases, two
benchmarked trainers, approved verifiers and aggregators, each with a public key of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from eth_utils import keccak

from tests.stage.contracts.copies import own_stage
from tests.stage.contracts.rounds import make_rounds
from tests.stage.contracts.system import Codes, Player, System, deploy

JOB = 1
KEY = keccak(text="commitment to the data key")
NEXT_KEY = keccak(text="commitment to the next data key")
ENVELOPE = b"sealed" * 20


def public_key(player: Player) -> bytes:
    return keccak(text=f"public key of {player.name}")


@dataclass
class KeyStage:
    """Short forms of what the people of one job do with its key."""

    system: System
    sponsor: str
    releaser: str
    stranger: str
    trainer: Player
    other: Player
    verifier: Player
    aggregator: Player

    @property
    def keys(self) -> Any:
        return self.system.keys

    def request(self, player: Player, job_id: int = JOB) -> None:
        self.keys.request_key(job_id, player.node_id, sender=player.operator)

    def release(
        self,
        player: Player,
        key_id: bytes = KEY,
        sealed_to: bytes | None = None,
        job_id: int = JOB,
        envelope: bytes = ENVELOPE,
        sender: str | None = None,
    ) -> None:
        """By the releaser, to the public key that the player began with, unless told."""
        self.keys.release_key(
            job_id,
            player.node_id,
            key_id,
            public_key(player) if sealed_to is None else sealed_to,
            envelope,
            sender=sender or self.releaser,
        )

    def slash(self, player: Player, violation: int) -> None:
        """As the rounds contract does for an offence just committed."""
        self.system.registry.slash(
            player.node_id,
            violation,
            self.system.registry.node(player.node_id).registered_at,
            self.sponsor,
            sender=self.system.rounds.address,
        )


@pytest.fixture(scope="module")
def made(codes: Codes) -> KeyStage:
    system = deploy(codes)
    stage = make_rounds(system, trainers=2)
    for player in (*stage.trainers, *stage.verifiers, *stage.aggregators):
        key = public_key(player)
        system.registry.set_encryption_key(player.node_id, key, sender=player.operator)
    releaser = system.person("releaser")
    system.keys.set_key(JOB, KEY, sender=stage.sponsor)
    system.keys.set_releaser(JOB, releaser, sender=stage.sponsor)
    return KeyStage(
        system,
        stage.sponsor,
        releaser,
        stage.stranger,
        stage.trainers[0],
        stage.trainers[1],
        stage.verifiers[0],
        stage.aggregators[0],
    )


@pytest.fixture
def stage(made: KeyStage, system: System) -> KeyStage:
    return own_stage(made, made.system, system)


@pytest.fixture
def keys(stage: KeyStage) -> Any:
    return stage.keys
