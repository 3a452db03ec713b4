"""Repositories that hold charts"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    with op.batch_alter_table("repositories") as batch:
        batch.add_column(sa.Column("kind", sa.String(32), nullable=False, server_default="GIT"))
    with op.batch_alter_table("repositories") as batch:
        batch.alter_column("kind", server_default=None)
