# SPDX-License-Identifier: Apache-2.0
"""The fields of a job spec that somebody wrote into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agents.runtime.files import SPEC_BYTES, read_yaml


def spec_fields(path: Path | None, rounds: int | None) -> dict[str, Any]:
    """Return the spec's fields from a YAML or JSON file, with `rounds` set over it.

    ClickException as for `fields_of`.
    """
    from scripts._shared.job_classes import written_out

    fields = written_out(fields_of(path, "the spec's fields"))
    return fields if rounds is None else {**fields, "rounds": rounds}


def fields_of(path: Path | None, what: str = "fields") -> dict[str, Any]:
    """Return the fields that a YAML or JSON file holds, none where none is named.

    ClickException for a file that can't be read or does not hold `what` by name.
    """
    try:
        fields = read_yaml(path, SPEC_BYTES) if path else {}
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path} cannot be used: {error}.") from None
    if not isinstance(fields, dict):
        raise click.ClickException(f"{path} must hold {what} by name.")
    return fields
