"""Accounts and groups that a directory keeps"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    with op.batch_alter_table("users") as batch:
        batch.add_column(sa.Column("issuer", sa.String(512)))
        batch.add_column(sa.Column("external_id", sa.String(255)))
        batch.add_column(sa.Column("disabled_by", sa.String(512)))
    op.create_index("ix_users_issuer", "users", ["issuer", "external_id"])
    with op.batch_alter_table("groups") as batch:
        batch.add_column(sa.Column("external_id", sa.String(255)))
