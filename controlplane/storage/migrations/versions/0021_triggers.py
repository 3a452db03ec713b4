"""Which pipeline a gate is of, and what looks for new versions elsewhere"""

import json

import sqlalchemy as sa
from alembic import op

from controlplane.storage.columns import UtcColumn

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    gates = op.create_table(
        "pipeline_gates",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("pipeline_id", sa.String(36), nullable=False),
    )
    op.create_index("ix_pipeline_gates_pipeline_id", "pipeline_gates", ["pipeline_id"])
    op.create_table(
        "pipeline_triggers",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("pipeline_id", sa.String(36), nullable=False),
        sa.Column("interval_s", sa.Integer, nullable=False),
        sa.Column("checked_at", UtcColumn()),
        sa.Column("next_at", UtcColumn()),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("sealed_webhook", sa.LargeBinary),
    )
    op.create_index("ix_pipeline_triggers_pipeline_id", "pipeline_triggers", ["pipeline_id"])
    rows = op.get_bind().execute(sa.text("SELECT id, spec FROM pipelines")).all()
    known = [
        {"id": gate["id"], "pipeline_id": id}
        for id, spec in rows
        for edge in _parsed(spec).get("edges", ())
        for gate in edge.get("gates", ())
    ]
    if known:
        op.bulk_insert(gates, known)


def _parsed(spec: object) -> dict:
    found = json.loads(spec) if isinstance(spec, str) else spec
    return found if isinstance(found, dict) else {}
