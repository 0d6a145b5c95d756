"""Alembic's entry: runs the migrations on the connection that `storage.schema` hands over.

Rules: migrations only expand. Add tables, add nullable columns or columns with a server default, add indexes.
What is no longer used is dropped two releases after the last program that reads it.
"""

from alembic import context

from storage.models import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
