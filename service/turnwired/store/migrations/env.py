"""What alembic runs: the migrations, on the connection and inside the transaction that ``store.migrate`` made.

There is no offline mode and no connection of its own: who migrates holds the lock on the database already.
"""

from __future__ import annotations

from alembic import context

from turnwired.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by making it anew
)
context.run_migrations()
