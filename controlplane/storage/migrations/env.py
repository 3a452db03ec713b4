"""Entry point of Alembic, on the connection that `controlplane.storage.migrate` passes."""

from alembic import context

from controlplane.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
