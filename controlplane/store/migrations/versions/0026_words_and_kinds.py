"""Words in names together with kinds, from one index"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

_TABLE = "components"
_EXTENSIONS = "SELECT count(*) FROM pg_extension WHERE extname IN ('pg_trgm', 'btree_gin')"


def upgrade() -> None:
    """Where an extension cannot be had, indexes stay as they are, and such searches slower."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        op.drop_index("ix_components_name_parts", _TABLE)
        op.create_index("ix_components_kind_name_id", _TABLE, ["kind", "name", "id"])
        return
    op.execute(
        "DO $$ BEGIN CREATE EXTENSION IF NOT EXISTS btree_gin; "
        "EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'no btree_gin: %', SQLERRM; END $$"
    )
    if connection.scalar(sa.text(_EXTENSIONS)) == 2:
        op.drop_index("ix_components_name_parts", _TABLE)
        op.create_index(
            "ix_components_kind_name_parts",
            _TABLE,
            ["kind", "name"],
            postgresql_using="gin",
            postgresql_ops={"name": "gin_trgm_ops"},
        )
