"""Tables of the audit log."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, String, Table

from controlplane.audit.model.chains import AuditKind
from controlplane.platform.store.columns import EnumColumn, UtcColumn
from controlplane.platform.store.schema import SerialNumber, metadata

audit_blocks = Table(
    "audit_blocks",
    metadata,
    Column("id", SerialNumber, primary_key=True, autoincrement=True),
    Column("kind", EnumColumn(AuditKind), nullable=False),
    Column("first_number", BigInteger, nullable=False),
    Column("last_number", BigInteger, nullable=False),
    Column("first_at", UtcColumn, nullable=False),
    Column("last_at", UtcColumn, nullable=False),
    Column("previous_hash", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("packed", LargeBinary, nullable=False),
    Index("uq_audit_blocks_kind_last_number", "kind", "last_number", unique=True),
    Index(None, "last_at"),
)


# Without a foreign key: the index of an expired block is deleted after the block, which the
# database protects.
audit_terms = Table(
    "audit_terms",
    metadata,
    Column("block_id", BigInteger, primary_key=True, autoincrement=False),
    Column("field", String(16), primary_key=True),
    Column("value", String(320), primary_key=True),
    Index(None, "field", "value", "block_id"),
    sqlite_with_rowid=False,
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
