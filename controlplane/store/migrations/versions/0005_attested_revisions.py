"""Revisions keep the render tier's word, for returning to them"""

import sqlalchemy as sa
from alembic import op

from controlplane.platform.store import columns

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    with op.batch_alter_table("revisions") as batch:
        batch.add_column(sa.Column("attestation", columns.JSON_TEXT))
