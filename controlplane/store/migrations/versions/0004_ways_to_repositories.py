"""The ways to repositories, and what is known of their copies"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    with op.batch_alter_table("repositories") as batch:
        batch.add_column(sa.Column("via", sa.String(36)))
        batch.add_column(
            sa.Column("submodules", sa.Boolean, nullable=False, server_default=sa.false())
        )
        batch.add_column(sa.Column("size", sa.BigInteger))
        batch.add_column(sa.Column("owner", sa.String(255)))
    with op.batch_alter_table("repositories") as batch:
        batch.alter_column("submodules", server_default=None)
