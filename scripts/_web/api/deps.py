# SPDX-License-Identifier: Apache-2.0
"""What routes are given: the site, and a look at its index. Pages use the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, cast

from fastapi import Depends, Path, Query, Request

from scripts._web.api.site import Site
from scripts._web.index.reading import Reading, reading
from scripts._web.index.tables import MOST_ID

MOST_ITEMS = 200
ADDRESS = "^0x[0-9a-fA-F]{40}$"


def site_of(request: Request) -> Site:
    """The site that the app serves."""
    return cast(Site, request.app.state.site)


def look_at(site: Annotated[Site, Depends(site_of)]) -> Iterator[Reading]:
    """One look at the index, for as long as the route reads."""
    with reading(site.engine) as look:
        yield look


TheSite = Annotated[Site, Depends(site_of)]
# It ends with the route. By default it would end once the answer was sent, so that a reader who
# takes nothing of it held a connection to the index, of which there are fifty.
Look = Annotated[Reading, Depends(look_at, scope="function")]
JobId = Annotated[int, Path(ge=1, le=MOST_ID, description="The job.")]
RoundId = Annotated[int, Path(ge=1, le=MOST_ID, description="The round.")]
NodeId = Annotated[int, Path(ge=1, le=MOST_ID, description="The node.")]
TaskId = Annotated[int, Path(ge=1, le=MOST_ID, description="The task.")]
Wanted = Annotated[int | None, Query(ge=1, le=MOST_ID)]
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Items in one answer.")]
Cursor = Annotated[
    str | None, Query(max_length=200, description="`next` of the answer before this one.")
]
Account = Annotated[str | None, Query(pattern=ADDRESS, description="An account's address.")]
