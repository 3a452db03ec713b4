"""Service contexts, dependencies between services, deployment settings"""

import sqlalchemy as sa
from alembic import op

from controlplane.storage import columns

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "contexts",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("inserted_at", columns.UtcColumn, nullable=False),
        sa.Column("updated_at", columns.UtcColumn, nullable=False),
        sa.Column("configuration", columns.JSON_TEXT, nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("project_id", sa.String(36), index=True),
    )
    op.create_table(
        "context_bindings",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("context_id", sa.String(36), sa.ForeignKey("contexts.id"), nullable=False),
        sa.Column("service_id", sa.String(36), sa.ForeignKey("services.id"), nullable=False),
        sa.UniqueConstraint("service_id", "context_id"),
    )
    op.create_index("ix_context_bindings_context_id", "context_bindings", ["context_id"])
    op.create_table(
        "deployment_settings",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("updated_at", columns.UtcColumn, nullable=False),
        sa.Column("agent_values", sa.Text),
        sa.Column("agent_values_templated", sa.Boolean, nullable=False),
    )
    with op.batch_alter_table("repositories") as batch:
        batch.add_column(sa.Column("https_path", sa.String(2048)))
        batch.add_column(sa.Column("url_format", sa.String(2048)))
    with op.batch_alter_table("services") as batch:
        batch.add_column(sa.Column("docs_path", sa.String(1024)))
        batch.add_column(
            sa.Column("dependencies", columns.JSON_TEXT, nullable=False, server_default="[]")
        )
        for name in ("waiting", "waived"):
            batch.add_column(sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false()))
    with op.batch_alter_table("services") as batch:
        for name in ("dependencies", "waiting", "waived"):
            batch.alter_column(name, server_default=None)
