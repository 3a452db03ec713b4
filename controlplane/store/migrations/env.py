"""What Alembic runs: on the connection that `controlplane.store.migrate` hands over."""

from alembic import context

from controlplane.platform.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
