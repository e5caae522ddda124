# SPDX-License-Identifier: Apache-2.0
"""A benchmark is condemned where the committee found its work invented."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    # Nothing was condemned before: no contract that an older index followed could do it.
    op.add_column(
        "benchmarks",
        sa.Column("condemned", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
