"""Status as a column, deployments as the ledger tells them, what search needs"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from controlplane.storage import columns

revision = "0008"
down_revision = "0007"

_MARK = """
UPDATE services SET mark = CASE
    WHEN paused THEN 'Z'
    WHEN render_error <> '' THEN 'F'
    WHEN digest IS NULL OR observed < sequence THEN 'P'
    WHEN phase IN ('failed', 'degraded') THEN 'F'
    WHEN phase = 'healthy' THEN 'H'
    WHEN phase = 'applied' THEN 'S'
    WHEN phase = 'awaiting' THEN 'A'
    ELSE 'P' END
"""
_DEPLOYMENTS = """
INSERT INTO deployments (service_id, sequence, cluster_id, stage, sha, revision_id, actor,
    desired_at, offered_at, applied_at, healthy_at, failed_at)
SELECT l.service_id, l.sequence, l.cluster_id, l.stage, l.sha, l.revision_id, l.actor, l.at,
    {offered}, {applied}, {healthy}, {failed}
FROM ledger l
WHERE l.id IN (
    SELECT min(id) FROM ledger WHERE stage IN ('rendered', 'promoted', 'rolled-back')
    GROUP BY service_id, sequence)
"""
_FIRST = """(SELECT min(o.at) FROM ledger o WHERE o.service_id = l.service_id
    AND o.sequence = l.sequence AND o.stage IN ({stages}))"""
_AFTER = (
    "UPDATE deployments SET replaced_at = (SELECT min(n.desired_at) FROM deployments n "
    "WHERE n.service_id = deployments.service_id AND n.sequence > deployments.sequence)",
    "UPDATE deployments SET restored_at = (SELECT min(h.at) FROM ledger h "
    "WHERE h.service_id = deployments.service_id AND h.stage = 'healthy' "
    "AND h.at >= deployments.failed_at) WHERE failed_at IS NOT NULL",
    "UPDATE deployments SET removed_at = (SELECT min(r.at) FROM ledger r "
    "WHERE r.service_id = deployments.service_id AND r.stage = 'removed')",
)


def upgrade() -> None:
    with op.batch_alter_table("services") as batch:
        batch.add_column(sa.Column("mark", sa.String(1), nullable=False, server_default="P"))
    op.execute(_MARK)
    with op.batch_alter_table("services") as batch:
        batch.alter_column("mark", server_default=None)
    _index("services", "mark", "id")
    _index("services", "project_id", "id")
    _index("services", "repository_id", "id")
    _index("services", "cluster_id", "name", "mark")
    _index("components", "kind", "id")
    _index("components", "owner_uid")
    _images()
    _deployments()
    _parts()


def _index(table: str, *names: str) -> None:
    op.create_index(f"ix_{table}_{'_'.join(names)}", table, list(names))


def _images() -> None:
    op.create_table(
        "images",
        sa.Column("image", sa.String(1024), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("tag", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("image", name="pk_images"),
    )
    _index("images", "name")


def _deployments() -> None:
    moments = ("committed", "fetched", "offered", "applied", "healthy", "failed", "restored")
    op.create_table(
        "deployments",
        sa.Column("service_id", sa.String(36), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("sha", sa.String(64)),
        sa.Column("revision_id", sa.String(36)),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("desired_at", columns.UtcColumn(), nullable=False),
        *(
            sa.Column(f"{one}_at", columns.UtcColumn())
            for one in (*moments, "reverted", "replaced", "removed")
        ),
        sa.PrimaryKeyConstraint("service_id", "sequence", name="pk_deployments"),
    )
    for name in ("cluster_id", "sha", "desired_at", "healthy_at", "failed_at"):
        _index("deployments", name)
    firsts = {
        "offered": "'offered'",
        "applied": "'applied'",
        "healthy": "'healthy'",
        "failed": "'failed', 'degraded'",
    }
    told = {name: _FIRST.format(stages=stages) for name, stages in firsts.items()}
    for statement in (_DEPLOYMENTS.format(**told), *_AFTER):
        op.execute(statement)


def _parts() -> None:
    """Indexes of trigrams where the extension can be had; else plain ones, and slower searches."""
    texts = {"services": ("name", "namespace"), "components": ("name",)}
    is_postgres = op.get_bind().dialect.name == "postgresql"
    if is_postgres:
        op.execute(
            "DO $$ BEGIN CREATE EXTENSION IF NOT EXISTS pg_trgm; "
            "EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'no pg_trgm: %', SQLERRM; END $$"
        )
        for name in ("labels", "images"):
            op.create_index(
                f"ix_components_{name}_keys", "components", [name], postgresql_using="gin"
            )
    has_trigrams = is_postgres and op.get_bind().scalar(
        sa.text("SELECT count(*) FROM pg_extension WHERE extname = 'pg_trgm'")
    )
    for table, names in texts.items():
        for name in names:
            more: dict[str, Any] = {
                "postgresql_using": "gin",
                "postgresql_ops": {name: "gin_trgm_ops"},
            }
            op.create_index(
                f"ix_{table}_{name}_parts", table, [name], **(more if has_trigrams else {})
            )
