"""Further sources of services"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "service_sources",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("repository_id", sa.String(36), nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("ref", sa.String(255), nullable=False),
        sa.Column("folder", sa.String(1024), nullable=False),
        sa.Column("path", sa.String(1024), nullable=False),
        sa.Column("sha", sa.String(64), nullable=False),
        sa.Column("tree", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_service_sources"),
        sa.ForeignKeyConstraint(
            ["service_id"], ["services.id"], name="fk_service_sources_service_id_services"
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["repositories.id"],
            name="fk_service_sources_repository_id_repositories",
        ),
    )
    op.create_index("ix_service_sources_service_id", "service_sources", ["service_id"])
    op.create_index("ix_service_sources_repository_id", "service_sources", ["repository_id"])
