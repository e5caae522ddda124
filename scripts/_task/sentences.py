# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a task is said in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def sentences() -> Iterator[None]:
    """Turn what is wrong with a task, its data or its class into one sentence."""
    from agents.storage.errors import NotFound
    from agents.tasks.compute.errors import TaskError
    from agents.training.documents import DataError
    from agents.training.spec import SpecError
    from agents.training.state import PayloadError

    try:
        yield
    except TaskError as error:
        raise click.ClickException(f"Nodes would refuse this task: {error}.") from None
    except NotFound as error:
        raise click.ClickException(f"Nodes would not find an input: {error}") from None
    except (DataError, SpecError, PayloadError) as error:
        raise click.ClickException(str(error)) from None
