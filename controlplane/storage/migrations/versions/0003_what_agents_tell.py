"""Facts, confirmations, plans, mirrors and jobs of clusters"""

import sqlalchemy as sa
from alembic import op

from controlplane.storage import columns

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    with op.batch_alter_table("clusters") as batch:
        batch.add_column(_filled("mode", sa.String(32), "MANAGED"))
        batch.add_column(_filled("facts", columns.JSON_TEXT, "{}"))
        batch.add_column(sa.Column("sealing_key", sa.LargeBinary))
        batch.add_column(_filled("alarm", sa.Text, ""))
    with op.batch_alter_table("services") as batch:
        batch.add_column(_filled("message", sa.Text, ""))
        batch.add_column(_filled("awaiting", columns.JSON_TEXT, "[]"))
        batch.add_column(sa.Column("confirmed", columns.JSON_TEXT))
        batch.add_column(_filled("mirrored", sa.Boolean, sa.false()))
        batch.add_column(_filled("origin", sa.String(2048), ""))
        batch.add_column(sa.Column("attestation", columns.JSON_TEXT))
    with op.batch_alter_table("components") as batch:
        batch.add_column(_filled("labels", columns.JSON_TEXT, "{}"))
        batch.add_column(_filled("generation", sa.BigInteger, "0"))
        batch.add_column(_filled("hash", sa.String(71), ""))
        batch.add_column(_filled("finalizers", columns.JSON_TEXT, "[]"))
    with op.batch_alter_table("commands") as batch:
        batch.add_column(_filled("payload", columns.JSON_TEXT, "{}"))
    _forget_defaults()
    op.create_table(
        "plans",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("changes", columns.JSON_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
    )
    _jobs()


def _filled(name: str, kind: object, default: object) -> sa.Column:
    return sa.Column(name, kind, nullable=False, server_default=default)  # ty: ignore


def _forget_defaults() -> None:
    """Rows that exist have their values; new ones are given all."""
    filled = {
        "clusters": ("mode", "facts", "alarm"),
        "services": ("message", "awaiting", "mirrored", "origin"),
        "components": ("labels", "generation", "hash", "finalizers"),
        "commands": ("payload",),
    }
    for table, names in filled.items():
        with op.batch_alter_table(table) as batch:
            for name in names:
                batch.alter_column(name, server_default=None)


def _jobs() -> None:
    op.create_table(
        "cluster_jobs",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("cluster_id", sa.String(36), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("manifest", columns.JSON_TEXT, nullable=False),
        sa.Column("timeout_s", sa.Integer, nullable=False),
        sa.Column("follow", sa.Boolean, nullable=False),
        sa.Column("actor", sa.String(320), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("object", columns.JSON_TEXT),
        sa.Column("exit_code", sa.Integer),
        sa.Column("started_at", columns.UtcColumn()),
        sa.Column("finished_at", columns.UtcColumn()),
        sa.Column("log_tail", sa.Text, nullable=False),
        sa.Column("outputs", columns.JSON_TEXT, nullable=False),
        sa.Column("retry_of", sa.String(36)),
        sa.Column("sealed", sa.LargeBinary),
        sa.PrimaryKeyConstraint("id", name="pk_cluster_jobs"),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name="fk_cluster_jobs_cluster_id_clusters"
        ),
        sa.UniqueConstraint("key", name="uq_cluster_jobs_key"),
    )
    op.create_index("ix_cluster_jobs_cluster_id", "cluster_jobs", ["cluster_id"])
