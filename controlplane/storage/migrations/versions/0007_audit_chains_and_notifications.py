"""Hash chains of the audit trail; notifications, where they go and what became of them"""

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from alembic import op

from controlplane.domain.audit import AuditKind, kind_of, row_hash
from controlplane.domain.ledger import AuditEntry, AuditVerdict
from controlplane.storage import columns

revision = "0007"
down_revision = "0006"

_AT_ONCE = 2000
_TEXTS = {"cluster_id": 36, "project_id": 36, "before_digest": 64, "after_digest": 64, "hash": 64}
_INDEXES = (
    ("uq_audit_kind_number", ["kind", "number"]),
    ("ix_audit_at", ["at"]),
    ("ix_audit_actor_id", ["actor", "id"]),
    ("ix_audit_action_id", ["action", "id"]),
    ("ix_audit_target_id", ["target", "id"]),
    ("ix_audit_target_id_id", ["target_id", "id"]),
    ("ix_audit_cluster_id_id", ["cluster_id", "id"]),
    ("ix_audit_project_id_id", ["project_id", "id"]),
    ("ix_audit_verdict_id", ["verdict", "id"]),
)
_SQLITE_TRIGGERS = (
    "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit "
    "BEGIN SELECT RAISE(ABORT, 'audit rows never change'); END",
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit "
    "WHEN OLD.number > (SELECT floor FROM audit_chains WHERE kind = OLD.kind) "
    "BEGIN SELECT RAISE(ABORT, 'audit rows only go with the beginning of their chain'); END",
)
_POSTGRES_TRIGGERS = (
    """CREATE FUNCTION audit_keep() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            IF OLD.number <= (SELECT floor FROM audit_chains WHERE kind = OLD.kind) THEN
                RETURN OLD;
            END IF;
            RAISE EXCEPTION 'audit rows only go with the beginning of their chain';
        END IF;
        RAISE EXCEPTION 'audit rows never change';
    END $$""",
    "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE ON audit "
    "FOR EACH ROW EXECUTE FUNCTION audit_keep()",
    "CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_keep()",
)


def upgrade() -> None:
    _widen_audit()
    _chain_what_there_is()
    for name, names in _INDEXES:
        op.create_index(name, "audit", names, unique=name.startswith("uq_"))
    is_postgres = op.get_bind().dialect.name == "postgresql"
    for statement in _POSTGRES_TRIGGERS if is_postgres else _SQLITE_TRIGGERS:
        op.execute(statement)
    _make_notifications()
    _make_sinks()
    _make_deliveries()


def _widen_audit() -> None:
    with op.batch_alter_table("audit") as batch:
        for name, length in _TEXTS.items():
            batch.add_column(sa.Column(name, sa.String(length), nullable=False, server_default=""))
        batch.add_column(sa.Column("kind", sa.String(32), nullable=False, server_default=""))
        batch.add_column(sa.Column("number", sa.BigInteger, nullable=False, server_default="0"))
    with op.batch_alter_table("audit") as batch:
        for name in (*_TEXTS, "kind", "number"):
            batch.alter_column(name, server_default=None)
    op.create_table(
        "audit_chains",
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("floor", sa.BigInteger, nullable=False),
        sa.Column("floor_hash", sa.String(64), nullable=False),
        sa.Column("floor_at", columns.UtcColumn()),
        sa.PrimaryKeyConstraint("kind", name="pk_audit_chains"),
    )


def _chain_what_there_is() -> None:
    """Rows of earlier versions become the beginning of the chains."""
    bind, audit = op.get_bind(), _audit()
    ends = {kind: (0, "") for kind in AuditKind}
    last = -1
    while rows := bind.execute(
        sa.select(audit).where(audit.c.id > last).order_by(audit.c.id).limit(_AT_ONCE)
    ).all():
        for row in rows:
            kind = kind_of(row.action)
            number, before = ends[kind]
            content: dict[str, Any] = {
                **row._mapping,
                "verdict": AuditVerdict(row.verdict),
                "hash": "",
            }
            content.pop("kind")
            entry = replace(AuditEntry(**content), number=number + 1)
            ends[kind] = entry.number, row_hash(before, entry)
            bind.execute(
                sa.update(audit)
                .where(audit.c.id == row.id)
                .values(kind=kind.value, number=entry.number, hash=ends[kind][1])
            )
        last = rows[-1].id
    chains = sa.table("audit_chains", *map(sa.column, ("kind", "number", "hash", "floor")),
                      sa.column("floor_hash"))  # fmt: skip
    for kind, (number, digest) in ends.items():
        bind.execute(
            sa.insert(chains).values(
                kind=kind.value, number=number, hash=digest, floor=0, floor_hash=""
            )
        )


def _audit() -> sa.Table:
    return sa.Table(
        "audit",
        sa.MetaData(),
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("at", columns.UtcColumn()),
        *(sa.Column(name, sa.String) for name in ("actor", "action", "verdict", "actor_id")),
        *(sa.Column(name, sa.String) for name in ("token_id", "source", "target", "target_id")),
        sa.Column("status", sa.Integer),
        sa.Column("request_id", sa.String),
        sa.Column("detail", columns.JSON_TEXT),
        *(sa.Column(name, sa.String) for name in (*_TEXTS, "kind")),
        sa.Column("number", sa.BigInteger),
    )


def _make_notifications() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True),
        sa.Column("at", columns.UtcColumn(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("severity", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(320), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        *(
            sa.Column(name, sa.String(36), nullable=False)
            for name in ("project_id", "cluster_id", "service_id", "pipeline_id")
        ),
        sa.Column("detail", columns.JSON_TEXT, nullable=False),
        sa.Column("routed_at", columns.UtcColumn()),
        sa.PrimaryKeyConstraint("id", name="pk_notifications"),
    )
    waiting = sa.text("routed_at IS NULL")
    op.create_index(
        "ix_notifications_waiting",
        "notifications",
        ["id"],
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
    op.create_index("ix_notifications_at", "notifications", ["at"])
    op.create_index("ix_notifications_project_id_id", "notifications", ["project_id", "id"])
    op.create_table(
        "notification_marks",
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("at", columns.UtcColumn(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notification_marks"),
    )


def _make_sinks() -> None:
    op.create_table(
        "notification_sinks",
        *_named("notification_sinks"),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("repository_id", sa.String(36), nullable=False),
        sa.Column("audit", columns.JSON_TEXT, nullable=False),
        sa.Column("sent", columns.JSON_TEXT, nullable=False),
        sa.Column("due_at", columns.UtcColumn()),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
    )
    op.create_table(
        "notification_routers",
        *_named("notification_routers"),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("events", columns.JSON_TEXT, nullable=False),
        sa.Column("severity", sa.String(32), nullable=False),
        sa.Column("filters", columns.JSON_TEXT, nullable=False),
        sa.Column("sinks", columns.JSON_TEXT, nullable=False),
    )
    for table, column in (
        ("notification_sinks", "project_id"),
        ("notification_sinks", "repository_id"),
        ("notification_routers", "project_id"),
    ):
        op.create_index(f"ix_{table}_{column}", table, [column])


def _make_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("notification_id", sa.BigInteger, nullable=False),
        sa.Column("sink_id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", columns.UtcColumn(), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("finished_at", columns.UtcColumn()),
        sa.Column("status", sa.Integer),
        sa.Column("error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
    )
    for names in (["state", "due_at"], ["sink_id", "id"], ["notification_id"], ["project_id"]):
        op.create_index(f"ix_deliveries_{'_'.join(names)}", "deliveries", names)


def _named(table: str) -> tuple[sa.schema.SchemaItem, ...]:
    return (
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("inserted_at", columns.UtcColumn(), nullable=False),
        sa.Column("updated_at", columns.UtcColumn(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("name", name=f"uq_{table}_name"),
    )
