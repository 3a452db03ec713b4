"""Every repository of the twin, by its port: plain ones follow the tables of the SQL store."""

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.audit.ports import AuditLog
from controlplane.bridges import BRIDGES
from controlplane.notifications.ports import DeliveryStore, NotificationStore
from controlplane.platform.ports import AuditTrail, JobStore, NotificationOutbox
from controlplane.platform.store.rows import TableRows, with_verbs
from controlplane.reports.ports import DeploymentStore, MetricsSnapshotStore
from controlplane.search.ports import SearchStore
from controlplane.services.ports import (
    ComponentStore,
    LedgerStore,
    RenderStateStore,
    ServiceStore,
)
from controlplane.store.repositories import REPOSITORIES
from tests.fakes.memory_store.audit_log import MemoryAudit
from tests.fakes.memory_store.deployments import MemoryDeployments, MemoryLedger
from tests.fakes.memory_store.jobs import MemoryJobs
from tests.fakes.memory_store.metrics import MemoryMetricsSnapshot
from tests.fakes.memory_store.notifications import MemoryDeliveries, MemoryNotifications
from tests.fakes.memory_store.rows import MemoryRows
from tests.fakes.memory_store.search import MemorySearch
from tests.fakes.memory_store.services import (
    MemoryComponents,
    MemoryRenderStates,
    MemoryServices,
)

Make = Callable[[Any], Any]


def _plain(rows: TableRows[Any]) -> Make:
    implementation = with_verbs(MemoryRows, rows.port)
    return lambda tx: implementation(tx.connection, rows.table, rows.kind, rows.searched)


MAKERS: Mapping[type[Any], Make] = {
    **{port: _plain(make) for port, make in REPOSITORIES.items() if isinstance(make, TableRows)},
    **BRIDGES,
    AuditTrail: lambda tx: tx[AuditLog],
    NotificationOutbox: lambda tx: tx[NotificationStore],
    JobStore: lambda tx: MemoryJobs(tx.connection),
    AuditLog: lambda tx: MemoryAudit(tx.connection),
    ServiceStore: lambda tx: MemoryServices(tx.connection),
    RenderStateStore: lambda tx: MemoryRenderStates(tx.connection),
    ComponentStore: lambda tx: MemoryComponents(tx.connection),
    LedgerStore: lambda tx: MemoryLedger(tx.connection, tx[NotificationStore]),
    NotificationStore: lambda tx: MemoryNotifications(tx.connection),
    DeliveryStore: lambda tx: MemoryDeliveries(tx.connection),
    DeploymentStore: lambda tx: MemoryDeployments(tx.connection),
    MetricsSnapshotStore: lambda tx: MemoryMetricsSnapshot(tx.connection),
    SearchStore: lambda tx: MemorySearch(tx.connection),
}
"""Makes the repository behind each port, for one transaction."""
