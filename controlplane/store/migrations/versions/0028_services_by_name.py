"""Services in the order of their names"""

from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.create_index("ix_services_by_name", "services", ["name", "id", "mark"])
