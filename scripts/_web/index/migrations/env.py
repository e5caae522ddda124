# SPDX-License-Identifier: Apache-2.0
"""Alembic's entry: it migrates the connection that it is given, in its transaction."""

from alembic import context

from scripts._web.index.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
