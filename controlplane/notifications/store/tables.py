"""Tables of notifications."""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table, Text

from controlplane.audit.model.chains import AuditKind
from controlplane.notifications.model.notification import (
    DeliveryState,
    NotificationKey,
    Router,
    RouterFilter,
    Sink,
)
from controlplane.notifications.ports import NotificationKeyStore, RouterStore, SinkStore
from controlplane.platform.notification import NotificationKind, Severity
from controlplane.platform.store.columns import EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import (
    SerialNumber,
    id_column,
    metadata,
    named_columns,
    project_column,
)

notifications = Table(
    "notifications",
    metadata,
    Column("id", SerialNumber, primary_key=True, autoincrement=True),
    Column("at", UtcColumn, nullable=False, index=True),
    Column("kind", EnumColumn(NotificationKind), nullable=False),
    Column("severity", EnumColumn(Severity), nullable=False),
    Column("subject", String(320), nullable=False),
    Column("text", Text, nullable=False),
    Column("project_id", String(36), nullable=False),
    Column("cluster_id", String(36), nullable=False),
    Column("service_id", String(36), nullable=False),
    Column("pipeline_id", String(36), nullable=False),
    Column("detail", JsonColumn(dict[str, str]), nullable=False),
    Column("routed_at", UtcColumn),
    Index(None, "project_id", "id"),
)


notification_marks = Table(
    "notification_marks",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("at", UtcColumn, nullable=False),
)


notification_sinks = Table(
    "notification_sinks",
    metadata,
    *named_columns(),
    Column("type", String(32), nullable=False),
    project_column(),
    Column("host", String(255), nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("repository_id", String(36), nullable=False, index=True),
    Column("audit", JsonColumn(tuple[AuditKind, ...]), nullable=False),
    Column("sent", JsonColumn(dict[str, int]), nullable=False),
    Column("due_at", UtcColumn),
    Column("failures", Integer, nullable=False),
    Column("error", Text, nullable=False),
)


notification_routers = Table(
    "notification_routers",
    metadata,
    *named_columns(),
    project_column(),
    Column("events", JsonColumn(tuple[str, ...]), nullable=False),
    Column("severity", EnumColumn(Severity), nullable=False),
    Column("filters", JsonColumn(tuple[RouterFilter, ...]), nullable=False),
    Column("sinks", JsonColumn(tuple[str, ...]), nullable=False),
)


deliveries = Table(
    "deliveries",
    metadata,
    id_column(),
    Column("notification_id", BigInteger, nullable=False),
    Column("sink_id", String(36), nullable=False),
    project_column(),
    Column("state", EnumColumn(DeliveryState), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", UtcColumn, nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("finished_at", UtcColumn),
    Column("status", Integer),
    Column("error", Text, nullable=False),
    Index(None, "state", "due_at"),
    Index(None, "sink_id", "id"),
    Index(None, "notification_id"),
)

Index(
    "ix_notifications_waiting",
    notifications.c.id,
    sqlite_where=notifications.c.routed_at.is_(None),
    postgresql_where=notifications.c.routed_at.is_(None),
)


REPOSITORIES = tables(
    TableRows(NotificationKeyStore, notification_marks, NotificationKey),
    TableRows(SinkStore, notification_sinks, Sink, ("name", "host")),
    TableRows(RouterStore, notification_routers, Router, ("name",)),
)
