"""Global services, service sets, managed namespaces, groups of clusters"""

import sqlalchemy as sa
from alembic import op

from controlplane.storage import columns

revision = "0010"
down_revision = "0009"

_JSON = columns.JSON_TEXT


def upgrade() -> None:
    _groups()
    _table(
        "global_services",
        *_definition(),
        sa.Column("source_id", sa.String(36)),
        sa.Column("template", _JSON),
    )
    op.create_index("ix_global_services_source_id", "global_services", ["source_id"])
    _overrides()
    _table(
        "service_sets",
        *_definition(),
        sa.Column("generator", _JSON, nullable=False),
        sa.Column("template", _JSON, nullable=False),
    )
    _table(
        "managed_namespaces",
        *_definition(),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("labels", _JSON, nullable=False),
        sa.Column("annotations", _JSON, nullable=False),
        sa.Column("quota", _JSON, nullable=False),
        sa.Column("template", _JSON),
    )
    with op.batch_alter_table("services") as batch:
        batch.add_column(sa.Column("owner_kind", sa.String(32)))
        batch.add_column(sa.Column("owner_id", sa.String(36)))
    op.create_index("ix_services_owner_id", "services", ["owner_id"])


def _named() -> tuple[sa.Column, ...]:
    return (
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("updated_at", columns.UtcColumn(), nullable=False),
        sa.Column("project_id", sa.String(36)),
    )


def _definition() -> tuple[sa.Column, ...]:
    return (
        *_named(),
        sa.Column("selector", _JSON, nullable=False),
        sa.Column("leave", sa.String(32), nullable=False),
        sa.Column("on_delete", sa.String(32), nullable=False),
        sa.Column("budget", sa.Integer, nullable=False),
        sa.Column("confirmed", sa.Integer, nullable=False),
        sa.Column("waiting", sa.Integer, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("evaluated_at", columns.UtcColumn()),
        sa.Column("ending_at", columns.UtcColumn()),
    )


def _table(name: str, *parts: sa.Column) -> None:
    op.create_table(
        name,
        *parts,
        sa.PrimaryKeyConstraint("id", name=f"pk_{name}"),
        sa.UniqueConstraint("name", name=f"uq_{name}_name"),
    )
    op.create_index(f"ix_{name}_project_id", name, ["project_id"])


def _groups() -> None:
    _table(
        "cluster_groups",
        *_named(),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("tags", _JSON, nullable=False),
        sa.Column("cluster_ids", _JSON, nullable=False),
        sa.Column("frozen", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("frozen_by", sa.String(320), nullable=False),
        sa.Column("frozen_at", columns.UtcColumn()),
    )


def _overrides() -> None:
    op.create_table(
        "global_overrides",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("global_id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("updated_at", columns.UtcColumn(), nullable=False),
        sa.Column("patch", _JSON, nullable=False),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_global_overrides"),
        sa.ForeignKeyConstraint(
            ["global_id"],
            ["global_services.id"],
            name="fk_global_overrides_global_id_global_services",
        ),
    )
    op.create_index("ix_global_overrides_cluster_id", "global_overrides", ["cluster_id"])
    op.create_index(
        "uq_global_overrides_global_id_cluster_id",
        "global_overrides",
        ["global_id", "cluster_id"],
        unique=True,
    )
