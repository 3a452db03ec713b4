"""Secrets with versions and uses, and the keys that seal what is sealed"""

import sqlalchemy as sa
from alembic import op

from controlplane.storage import columns

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "secrets",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("inserted_at", columns.UtcColumn, nullable=False),
        sa.Column("updated_at", columns.UtcColumn, nullable=False),
        sa.Column("project_id", sa.String(36), index=True),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("current", sa.Integer, nullable=False),
        sa.Column("newest", sa.Integer, nullable=False),
        sa.Column("source", columns.JSON_TEXT),
        sa.Column("refresh_s", sa.Integer, nullable=False),
        sa.Column("due_at", columns.UtcColumn, index=True),
        sa.Column("refreshed_at", columns.UtcColumn),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("rotation", columns.JSON_TEXT),
    )
    op.create_table(
        "secret_versions",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("secret_id", sa.String(36), sa.ForeignKey("secrets.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("inserted_at", columns.UtcColumn, nullable=False),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("revoked_at", columns.UtcColumn),
        sa.UniqueConstraint("secret_id", "number"),
    )
    op.create_table(
        "secret_uses",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("secret_id", sa.String(36), sa.ForeignKey("secrets.id"), nullable=False),
        sa.Column("service_id", sa.String(36), sa.ForeignKey("services.id"), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("changed_at", columns.UtcColumn, nullable=False),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.UniqueConstraint("service_id", "name"),
    )
    op.create_index("ix_secret_uses_secret_id", "secret_uses", ["secret_id"])
    op.create_table(
        "data_keys",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
        sa.Column("kek", sa.String(255), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn, nullable=False),
        sa.Column("begins_at", columns.UtcColumn, nullable=False),
    )
