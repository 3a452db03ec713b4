"""Which services pipelines hold, what has happened to them, and refused revisions"""

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

from controlplane.storage import columns

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    members = op.create_table(
        "pipeline_services",
        sa.Column("id", sa.String(80), primary_key=True),
        sa.Column("pipeline_id", sa.String(36), nullable=False),
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("promoted", sa.Boolean, nullable=False),
    )
    op.create_index("ix_pipeline_services_pipeline_id", "pipeline_services", ["pipeline_id"])
    op.create_index("ix_pipeline_services_service_id", "pipeline_services", ["service_id"])
    op.create_table(
        "pipeline_events",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("pipeline_id", sa.String(36), nullable=False),
        sa.Column("at", columns.UtcColumn, nullable=False),
        sa.Column("events", columns.JSON_TEXT, nullable=False),
        sa.Column("spec", columns.JSON_TEXT),
        sa.Column("state", columns.JSON_TEXT),
    )
    op.create_index("ix_pipeline_events_at", "pipeline_events", ["at"])
    op.create_index("ix_pipeline_events_pipeline_id_at", "pipeline_events", ["pipeline_id", "at"])
    op.create_table(
        "refused_revisions",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("inserted_at", columns.UtcColumn, nullable=False),
    )
    pipelines = sa.table("pipelines", sa.column("id", sa.String), sa.column("spec"))
    for id, spec in op.get_bind().execute(sa.select(pipelines.c.id, pipelines.c.spec)).all():
        rows = _members(id, json.loads(spec) if isinstance(spec, str) else spec)
        if rows:
            op.bulk_insert(members, rows)


def _members(id: str, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    later = {edge["target"] for edge in spec.get("edges", ())}
    return [
        {
            "id": f"{id}/{service}",
            "pipeline_id": id,
            "service_id": service,
            "promoted": stage["id"] in later,
        }
        for stage in spec.get("stages", ())
        for service in stage["services"]
    ]
