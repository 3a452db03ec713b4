"""How services prove themselves, and what they are held back from"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0020"
down_revision = "0019"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("services") as batch:
        batch.add_column(sa.Column("verification", _JSON))
        batch.add_column(sa.Column("watch", _JSON))
        batch.add_column(sa.Column("held", sa.String(128)))
        batch.add_column(sa.Column("hold", _JSON))
        batch.create_index("ix_services_held", ["held"])
