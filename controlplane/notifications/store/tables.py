"""Tables of notifications."""

from sqlalchemy import BigInteger, Column, Index

from controlplane.notifications.model.notification import Delivery, NotificationKey, Router, Sink
from controlplane.notifications.ports import NotificationKeyStore, RouterStore, SinkStore
from controlplane.platform.notification import Notification
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import SerialNumber

notifications = row_table(
    "notifications",
    Notification,
    Column("id", SerialNumber, primary_key=True, autoincrement=True),
    Index(None, "project_id", "id"),
    lengths={"subject": 320},
    indexed={"at"},
)


notification_marks = row_table("notification_marks", NotificationKey, lengths={"id": 128})


notification_sinks = row_table(
    "notification_sinks",
    Sink,
    lengths={"type": 32, "host": 255},
    indexed={"project_id", "repository_id"},
)


notification_routers = row_table("notification_routers", Router, indexed={"project_id"})


deliveries = row_table(
    "deliveries",
    Delivery,
    Column("notification_id", BigInteger, nullable=False),
    Index(None, "state", "due_at"),
    Index(None, "sink_id", "id"),
    Index(None, "notification_id"),
    indexed={"project_id"},
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
