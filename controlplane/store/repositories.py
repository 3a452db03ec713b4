"""Every repository of the store, by its port."""

from controlplane.access import store as access_store
from controlplane.agents import store as agents_store
from controlplane.audit.ports import AuditLog
from controlplane.bridges import BRIDGES
from controlplane.cluster_sources import store as cluster_sources_store
from controlplane.clusters import store as clusters_store
from controlplane.configuration import store as configuration_store
from controlplane.configuration_sources import store as configuration_sources_store
from controlplane.generators import store as generators_store
from controlplane.manifests import store as manifests_store
from controlplane.notifications.ports import NotificationStore
from controlplane.notifications.store import notifications as notifications_store
from controlplane.notifications.store import tables as sink_store
from controlplane.pipelines import store as pipelines_store
from controlplane.platform.ports import AuditTrail, JobStore, NotificationOutbox
from controlplane.platform.store.jobs import SqlJobs
from controlplane.platform.store.schema import metadata
from controlplane.platform.store.transaction import Repositories
from controlplane.reports.store import deployments as deployment_store
from controlplane.reports.store import installation_metrics as metrics_store
from controlplane.repositories import store as repositories_store
from controlplane.search import store as search_store
from controlplane.secrets import store as secrets_store
from controlplane.services.store import services as services_store
from controlplane.store import audit_log as audit_store
from controlplane.views import store as views_store

_PARTS = (
    access_store,
    agents_store,
    audit_store,
    clusters_store,
    cluster_sources_store,
    configuration_sources_store,
    configuration_store,
    deployment_store,
    generators_store,
    manifests_store,
    metrics_store,
    notifications_store,
    pipelines_store,
    repositories_store,
    search_store,
    secrets_store,
    services_store,
    sink_store,
    views_store,
)
REPOSITORIES: Repositories = {
    JobStore: lambda tx: SqlJobs(tx.connection),
    AuditTrail: lambda tx: tx[AuditLog],
    NotificationOutbox: lambda tx: tx[NotificationStore],
    **BRIDGES,
    **{port: make for part in _PARTS for port, make in part.REPOSITORIES.items()},
}

SCHEMA = metadata
"""The whole schema: importing the parts above has added their tables."""
