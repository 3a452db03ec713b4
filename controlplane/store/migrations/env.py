"""Entry point of Alembic, on the connection that `controlplane.store.migrate` passes."""

from alembic import context

from controlplane.store.repositories import SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SCHEMA,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
