"""Exports and imports of services, overrides of contexts, and the types of their values"""

import sqlalchemy as sa
from alembic import op

from controlplane.storage import columns

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "service_exports",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("service_id", sa.String(36), sa.ForeignKey("services.id"), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("value", columns.JSON_TEXT, nullable=False),
        sa.Column("shared", sa.Boolean, nullable=False),
        sa.UniqueConstraint("service_id", "name"),
    )
    op.create_table(
        "service_imports",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("service_id", sa.String(36), sa.ForeignKey("services.id"), nullable=False),
        sa.Column("alias", sa.String(63), nullable=False),
        sa.Column("source_id", sa.String(36), nullable=False, index=True),
        sa.Column("export", sa.String(63), nullable=False),
        sa.Column("default", columns.JSON_TEXT, nullable=False),
        sa.UniqueConstraint("service_id", "alias"),
    )
    op.create_table(
        "context_overrides",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("context_id", sa.String(36), sa.ForeignKey("contexts.id"), nullable=False),
        sa.Column("layer", sa.String(32), nullable=False),
        sa.Column("place_id", sa.String(36), nullable=False, index=True),
        sa.Column("inserted_at", columns.UtcColumn, nullable=False),
        sa.Column("updated_at", columns.UtcColumn, nullable=False),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("configuration", columns.JSON_TEXT, nullable=False),
        sa.UniqueConstraint("context_id", "layer", "place_id"),
    )
    with op.batch_alter_table("contexts") as batch:
        batch.add_column(sa.Column("types", columns.JSON_TEXT, nullable=False, server_default="{}"))
    with op.batch_alter_table("contexts") as batch:
        batch.alter_column("types", server_default=None)
