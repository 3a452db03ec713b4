"""Tables of the audit log."""

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table

from controlplane.audit.model.chains import AuditKind
from controlplane.platform.audit_entry import AuditVerdict
from controlplane.platform.store.columns import EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.schema import SerialNumber, metadata
from core.json_object import JsonObject

audit = Table(
    "audit",
    metadata,
    Column("id", SerialNumber, primary_key=True, autoincrement=True),
    Column("at", UtcColumn, nullable=False),
    Column("actor", String(320), nullable=False),
    Column("action", String(128), nullable=False),
    Column("verdict", EnumColumn(AuditVerdict), nullable=False),
    Column("actor_id", String(36), nullable=False),
    Column("token_id", String(36)),
    Column("source", String(64), nullable=False),
    Column("target", String(320), nullable=False),
    Column("target_id", String(64), nullable=False),
    Column("status", Integer),
    Column("request_id", String(64), nullable=False),
    Column("detail", JsonColumn(JsonObject), nullable=False),
    Column("cluster_id", String(36), nullable=False),
    Column("project_id", String(36), nullable=False),
    Column("before_digest", String(64), nullable=False),
    Column("after_digest", String(64), nullable=False),
    Column("kind", EnumColumn(AuditKind), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Index("uq_audit_kind_number", "kind", "number", unique=True),
    Index(None, "at"),
    Index(None, "actor", "id"),
    Index(None, "action", "id"),
    Index(None, "target", "id"),
    Index(None, "target_id", "id"),
    Index(None, "cluster_id", "id"),
    Index(None, "project_id", "id"),
    Index(None, "verdict", "id"),
)


audit_chains = Table(
    "audit_chains",
    metadata,
    Column("kind", EnumColumn(AuditKind), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("floor", BigInteger, nullable=False),
    Column("floor_hash", String(64), nullable=False),
    Column("floor_at", UtcColumn),
)
