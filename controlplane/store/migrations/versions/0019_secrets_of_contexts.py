"""Which services have secrets at all, and contexts whose secrets only agents fill in"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    with op.batch_alter_table("services") as batch:
        batch.add_column(
            sa.Column("uses_secrets", sa.Boolean, nullable=False, server_default=sa.false())
        )
    with op.batch_alter_table("services") as batch:
        batch.alter_column("uses_secrets", server_default=None)
    op.execute(
        "UPDATE services SET uses_secrets = true WHERE id IN (SELECT service_id FROM secret_uses)"
    )
    with op.batch_alter_table("contexts") as batch:
        batch.add_column(
            sa.Column("by_reference", sa.Boolean, nullable=False, server_default=sa.false())
        )
        batch.add_column(
            sa.Column("secrets_version", sa.Integer, nullable=False, server_default="0")
        )
    with op.batch_alter_table("contexts") as batch:
        for name in ("by_reference", "secrets_version"):
            batch.alter_column(name, server_default=None)
