"""Table definitions. Each column has the name of the domain field that it stores."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from controlplane.domain.access import KubernetesRights
from controlplane.domain.audit import AuditKind
from controlplane.domain.bindings import AccessRequestState, SubjectKind
from controlplane.domain.clusterjobs import JobPhase
from controlplane.domain.clusters import AgentMode, ClusterFacts, Distribution
from controlplane.domain.commands import CommandKind, CommandState
from controlplane.domain.ledger import AuditVerdict, LedgerStage
from controlplane.domain.notifications import (
    DeliveryState,
    NotificationKind,
    RouterFilter,
    Severity,
    SinkType,
)
from controlplane.domain.objects import ObjectName, PlannedChange
from controlplane.domain.ownership import OwnerKind
from controlplane.domain.people import UserKind
from controlplane.domain.repositories import AuthMethod, GitHealth
from controlplane.domain.services import (
    ComponentState,
    Confirmation,
    Phase,
    Problem,
    Removal,
    SyncOptions,
)
from controlplane.domain.signin import ChallengeKind
from controlplane.domain.verification import Quarantine, Verification
from controlplane.storage.columns import AttestationColumn, EnumColumn, JsonColumn, UtcColumn
from controlplane.storage.rights import LimitsColumn, RulesColumn
from core.identity import TokenKind
from core.spec.source import Commit, Renderer, RepositoryKind

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows by itself only in a column declared INTEGER.
_Serial = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[Any]:
    return Column("id", String(36), primary_key=True)


def _times() -> tuple[Column[Any], Column[Any]]:
    return Column("inserted_at", UtcColumn, nullable=False), Column(
        "updated_at", UtcColumn, nullable=False
    )


def _parts(table: str, *columns: Column[Any]) -> list[Index]:
    """Indexes substring search: trigrams in PostgreSQL, a narrower scan in SQLite."""
    return [
        Index(
            f"ix_{table}_{column.name}_parts",
            column,
            postgresql_using="gin",
            postgresql_ops={column.name: "gin_trgm_ops"},
        )
        for column in columns
    ]


def _keys(table: str, *columns: Column[Any]) -> None:
    """Indexes the content of JSON in PostgreSQL."""
    for column in columns:
        name = f"ix_{table}_{column.name}_keys"
        Index(name, column, postgresql_using="gin").ddl_if(dialect="postgresql")


users = Table(
    "users",
    metadata,
    _id(),
    Column("email", String(320), nullable=False, unique=True),
    Column("name", String(255), nullable=False),
    *_times(),
    Column("kind", EnumColumn(UserKind), nullable=False),
    Column("disabled_at", UtcColumn),
    Column("password", String(255)),
    Column("issuer", String(512)),
    Column("external_id", String(255)),
    Column("disabled_by", String(512)),
    Index("ix_users_issuer", "issuer", "external_id"),
)

groups = Table(
    "groups",
    metadata,
    _id(),
    Column("name", String(255), nullable=False, unique=True),
    *_times(),
    Column("description", Text),
    Column("everyone", Boolean),
    Column("issuer", String(512)),
    Column("external_id", String(255)),
)

memberships = Table(
    "memberships",
    metadata,
    _id(),
    Column("group_id", String(36), ForeignKey("groups.id"), nullable=False),
    Column("user_id", String(36), ForeignKey("users.id"), nullable=False, index=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("issuer", String(512)),
    Index("uq_memberships_group_id_user_id", "group_id", "user_id", unique=True),
)

logins = Table(
    "logins",
    metadata,
    _id(),
    Column("issuer", String(512), nullable=False),
    Column("subject", String(512), nullable=False),
    Column("user_id", String(36), ForeignKey("users.id"), nullable=False, index=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Index("uq_logins_issuer_subject", "issuer", "subject", unique=True),
)

projects = Table(
    "projects",
    metadata,
    _id(),
    Column("name", String(255), nullable=False, unique=True),
    *_times(),
    Column("description", Text),
)

roles = Table(
    "roles",
    metadata,
    _id(),
    Column("name", String(255), nullable=False, unique=True),
    *_times(),
    Column("description", Text),
    Column("rules", RulesColumn(), nullable=False),
    Column("kubernetes", JsonColumn(KubernetesRights), nullable=False),
)

role_bindings = Table(
    "role_bindings",
    metadata,
    _id(),
    Column("role_id", String(36), nullable=False, index=True),
    Column("subject_kind", EnumColumn(SubjectKind), nullable=False),
    Column("subject_id", String(36), nullable=False, index=True),
    Column("scope", String(64), nullable=False, index=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("expires_at", UtcColumn, index=True),
    Column("given_by", String(320), nullable=False),
    Column("reason", Text, nullable=False),
)

access_requests = Table(
    "access_requests",
    metadata,
    _id(),
    Column("user_id", String(36), ForeignKey("users.id"), nullable=False, index=True),
    Column("role_id", String(36), nullable=False),
    Column("scope", String(64), nullable=False),
    Column("minutes", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("state", EnumColumn(AccessRequestState), nullable=False, index=True),
    Column("decided_by", String(320), nullable=False),
    Column("decided_at", UtcColumn),
    Column("binding_id", String(36)),
    Column("expires_at", UtcColumn),
)

challenges = Table(
    "challenges",
    metadata,
    _id(),
    Column("kind", EnumColumn(ChallengeKind), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("expires_at", UtcColumn, nullable=False, index=True),
    Column("code", String(16), unique=True),
    Column("detail", JsonColumn(dict[str, str]), nullable=False),
    Column("user_id", String(36)),
    Column("taken_at", UtcColumn),
)

failures = Table(
    "failures",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("count", Integer, nullable=False),
    Column("until", UtcColumn, nullable=False, index=True),
)

trust_rules = Table(
    "trust_rules",
    metadata,
    _id(),
    Column("user_id", String(36), ForeignKey("users.id"), nullable=False, index=True),
    Column("issuer", String(512), nullable=False, index=True),
    Column("audience", String(512), nullable=False),
    Column("subject", String(512), nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("claims", JsonColumn(dict[str, str]), nullable=False),
    Column("minutes", Integer, nullable=False),
    Column("keys", Text),
)

clusters = Table(
    "clusters",
    metadata,
    _id(),
    Column("handle", String(63), nullable=False),
    Column("name", String(255), nullable=False),
    *_times(),
    Column("tags", JsonColumn(dict[str, str]), nullable=False),
    Column("metadata", JsonColumn(dict[str, Any]), nullable=False),
    Column("protect", Boolean, nullable=False),
    Column("version", String(64)),
    Column("kubernetes_version", String(64)),
    Column("distribution", EnumColumn(Distribution)),
    Column("nodes", Integer),
    Column("agent_version", String(64)),
    Column("agent_instance", String(64)),
    Column("pinged_at", UtcColumn),
    Column("acknowledged", BigInteger, nullable=False),
    Column("ending_at", UtcColumn),
    Column("deleted_at", UtcColumn),
    Column("mode", EnumColumn(AgentMode), nullable=False),
    Column("facts", JsonColumn(ClusterFacts), nullable=False),
    Column("sealing_key", LargeBinary),
    Column("alarm", Text, nullable=False),
    Column("project_id", String(36), index=True),
)
Index(
    "uq_clusters_handle",
    clusters.c.handle,
    unique=True,
    sqlite_where=clusters.c.deleted_at.is_(None),
    postgresql_where=clusters.c.deleted_at.is_(None),
)
Index("ix_clusters_liveness", clusters.c.deleted_at, clusters.c.pinged_at)

tokens = Table(
    "tokens",
    metadata,
    _id(),
    Column("kind", EnumColumn(TokenKind), nullable=False),
    Column("name", String(255), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("user_id", String(36), ForeignKey("users.id"), index=True),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), index=True),
    Column("expires_at", UtcColumn),
    Column("last_used_at", UtcColumn),
    Column("revoked_at", UtcColumn),
    Column("limits", LimitsColumn(), nullable=False),
    Column("idle_at", UtcColumn),
    Column("parent_id", String(36)),
    Column("source", String(64), nullable=False),
)

repositories = Table(
    "repositories",
    metadata,
    _id(),
    Column("url", String(2048), nullable=False, unique=True),
    *_times(),
    Column("auth_method", EnumColumn(AuthMethod)),
    Column("sealed", LargeBinary),
    Column("sealed_webhook", LargeBinary),
    Column("decrypt", Boolean, nullable=False),
    Column("health", EnumColumn(GitHealth)),
    Column("error", Text),
    Column("commits", JsonColumn(dict[str, Commit]), nullable=False),
    Column("polled_at", UtcColumn),
    Column("fetched_at", UtcColumn),
    Column("via", String(36)),
    Column("submodules", Boolean, nullable=False),
    Column("size", BigInteger),
    Column("owner", String(255)),
    Column("project_id", String(36), index=True),
    Column("https_path", String(2048)),
    Column("url_format", String(2048)),
    Column("kind", EnumColumn(RepositoryKind), nullable=False),
)

contexts = Table(
    "contexts",
    metadata,
    _id(),
    Column("name", String(255), nullable=False, unique=True),
    *_times(),
    Column("configuration", JsonColumn(dict[str, Any]), nullable=False),
    Column("sealed", LargeBinary),
    Column("project_id", String(36), index=True),
    Column("types", JsonColumn(dict[str, str]), nullable=False),
    Column("by_reference", Boolean, nullable=False),
    Column("secrets_version", Integer, nullable=False),
)

context_bindings = Table(
    "context_bindings",
    metadata,
    _id(),
    Column("context_id", String(36), ForeignKey("contexts.id"), nullable=False, index=True),
    Column("service_id", String(36), ForeignKey("services.id"), nullable=False),
    UniqueConstraint("service_id", "context_id"),
)

service_sources = Table(
    "service_sources",
    metadata,
    _id(),
    Column("service_id", String(36), ForeignKey("services.id"), nullable=False, index=True),
    Column("repository_id", String(36), ForeignKey("repositories.id"), nullable=False, index=True),
    Column("place", Integer, nullable=False),
    Column("ref", String(255), nullable=False),
    Column("folder", String(1024), nullable=False),
    Column("path", String(1024), nullable=False),
    Column("sha", String(64), nullable=False),
    Column("tree", String(64), nullable=False),
)

deployment_settings = Table(
    "deployment_settings",
    metadata,
    _id(),
    Column("updated_at", UtcColumn, nullable=False),
    Column("agent_values", Text),
    Column("agent_values_templated", Boolean, nullable=False),
)

services = Table(
    "services",
    metadata,
    _id(),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), nullable=False, index=True),
    Column("repository_id", String(36), ForeignKey("repositories.id"), index=True),
    Column("name", String(63), nullable=False),
    Column("namespace", String(63), nullable=False),
    *_times(),
    Column("ref", String(255), nullable=False),
    Column("folder", String(1024), nullable=False),
    Column("renderer", EnumColumn(Renderer), nullable=False),
    Column("kustomize_path", String(1024)),
    Column("helm", JsonColumn(dict[str, Any])),
    Column("configuration", JsonColumn(dict[str, str]), nullable=False),
    Column("templated", Boolean, nullable=False),
    Column("protect", Boolean, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("version", String(64), nullable=False),
    Column("options", JsonColumn(SyncOptions), nullable=False),
    Column("pinned", String(64)),
    Column("promoted", Boolean, nullable=False),
    Column("sha", String(64)),
    Column("author", String(512), nullable=False),
    Column("revision_id", String(36)),
    Column("source", String(71)),
    Column("reads", JsonColumn(dict[str, str]), nullable=False),
    Column("digest", String(71), index=True),
    Column("bundle_bytes", BigInteger, nullable=False),
    Column("object_count", Integer, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("observed", BigInteger, nullable=False),
    Column("phase", EnumColumn(Phase)),
    Column("render_error", Text),
    Column("problems", JsonColumn(tuple[Problem, ...]), nullable=False),
    Column("observed_at", UtcColumn),
    Column("deleted_at", UtcColumn),
    Column("removal", EnumColumn(Removal)),
    Column("message", Text, nullable=False),
    Column("awaiting", JsonColumn(tuple[ObjectName, ...]), nullable=False),
    Column("confirmed", JsonColumn(Confirmation)),
    Column("mirrored", Boolean, nullable=False),
    Column("origin", String(2048), nullable=False),
    Column("attestation", AttestationColumn),
    Column("project_id", String(36), index=True),
    Column("mark", String(1), nullable=False),
    Column("docs_path", String(1024)),
    Column("dependencies", JsonColumn(tuple[str, ...]), nullable=False),
    Column("waiting", Boolean, nullable=False),
    Column("waived", Boolean, nullable=False),
    Column("owner_kind", EnumColumn(OwnerKind)),
    Column("owner_id", String(36), index=True),
    Column("rendered_by", String(36)),
    Column("uses_secrets", Boolean, nullable=False),
    Column("verification", JsonColumn(Verification)),
    Column("watch", JsonColumn(Verification)),
    Column("held", String(128), index=True),
    Column("hold", JsonColumn(Quarantine)),
)
Index("uq_services_cluster_id_name", services.c.cluster_id, services.c.name, unique=True)
Index("ix_services_mark_id", services.c.mark, services.c.id)
Index("ix_services_project_id_id", services.c.project_id, services.c.id)
Index("ix_services_repository_id_id", services.c.repository_id, services.c.id)
# Includes the status code: the index alone finds the rows of one status, however rare they are.
Index("ix_services_by_name", services.c.name, services.c.id, services.c.mark)
# The fleet map and its filters.
Index(
    "ix_services_map",
    *(services.c[n] for n in ("cluster_id", "name", "mark", "namespace", "project_id")),
)
for _index in _parts("services", services.c.name, services.c.namespace):
    _index.ddl_if(dialect="postgresql")
# All columns that lists filter by, so that SQLite's scans do not read whole services.
Index(
    "ix_services_listed",
    *(services.c[n] for n in ("id", "cluster_id", "project_id", "name", "namespace", "deleted_at")),
).ddl_if(dialect="sqlite")

revisions = Table(
    "revisions",
    metadata,
    _id(),
    Column("service_id", String(36), nullable=False, index=True),
    Column("sha", String(64), nullable=False),
    Column("ref", String(255), nullable=False),
    Column("folder", String(1024), nullable=False),
    Column("digest", String(71), nullable=False),
    Column("source", String(71), nullable=False),
    Column("author", String(512), nullable=False),
    Column("subject", String(512), nullable=False),
    Column("committed_at", UtcColumn, nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("actor", String(320), nullable=False),
    Column("release_id", String(64)),
    Column("attestation", AttestationColumn),
)

components = Table(
    "components",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("service_id", String(36), nullable=False, index=True),
    Column("cluster_id", String(36), nullable=False, index=True),
    Column("group", String(253), nullable=False),
    Column("version", String(63), nullable=False),
    Column("kind", String(63), nullable=False),
    Column("namespace", String(63), nullable=False),
    Column("name", String(253), nullable=False),
    Column("uid", String(64), nullable=False),
    Column("owner_uid", String(64), nullable=False),
    Column("state", EnumColumn(ComponentState)),
    Column("message", Text, nullable=False),
    Column("synced", Boolean, nullable=False),
    Column("images", JsonColumn(tuple[str, ...]), nullable=False),
    Column("updated_at", UtcColumn, nullable=False),
    Column("labels", JsonColumn(dict[str, str]), nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("hash", String(71), nullable=False),
    Column("finalizers", JsonColumn(tuple[str, ...]), nullable=False),
)

Index("ix_components_kind_id", components.c.kind, components.c.id)
Index("ix_components_owner_uid", components.c.owner_uid)
Index(
    "ix_components_kind_name_parts",
    components.c.kind,
    components.c.name,
    postgresql_using="gin",
    postgresql_ops={"name": "gin_trgm_ops"},
).ddl_if(dialect="postgresql")
# All columns that words and kinds are searched in, so that SQLite's scans read no whole objects.
Index("ix_components_kind_name_id", *(components.c[n] for n in ("kind", "name", "id"))).ddl_if(
    dialect="sqlite"
)
_keys("components", components.c.labels, components.c.images)

images = Table(
    "images",
    metadata,
    Column("image", String(1024), primary_key=True),
    Column("name", String(512), nullable=False, index=True),
    Column("tag", String(255), nullable=False),
)

plans = Table(
    "plans",
    metadata,
    _id(),
    Column("sequence", BigInteger, nullable=False),
    Column("changes", JsonColumn(tuple[PlannedChange, ...]), nullable=False),
)

pipelines = Table(
    "pipelines",
    metadata,
    _id(),
    Column("name", String(255), nullable=False, unique=True),
    *_times(),
    Column("spec", JsonColumn(dict[str, Any]), nullable=False),
    Column("state", JsonColumn(dict[str, Any]), nullable=False),
    Column("version", Integer, nullable=False),
    Column("project_id", String(36), index=True),
)

commands = Table(
    "commands",
    metadata,
    _id(),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), nullable=False),
    Column("kind", EnumColumn(CommandKind), nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("service_id", String(36)),
    Column("state", EnumColumn(CommandState), nullable=False),
    Column("message", Text, nullable=False),
    Column("finished_at", UtcColumn),
    Column("payload", JsonColumn(dict[str, Any]), nullable=False),
    Index(None, "cluster_id", "state"),
    Index(None, "state", "inserted_at"),
)

cluster_jobs = Table(
    "cluster_jobs",
    metadata,
    _id(),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), nullable=False, index=True),
    Column("key", String(255), nullable=False, unique=True),
    Column("namespace", String(63), nullable=False),
    Column("manifest", JsonColumn(dict[str, Any]), nullable=False),
    Column("timeout_s", Integer, nullable=False),
    Column("follow", Boolean, nullable=False),
    Column("actor", String(320), nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("phase", EnumColumn(JobPhase), nullable=False),
    Column("message", Text, nullable=False),
    Column("object", JsonColumn(ObjectName)),
    Column("exit_code", Integer),
    Column("started_at", UtcColumn),
    Column("finished_at", UtcColumn),
    Column("log_tail", Text, nullable=False),
    Column("outputs", JsonColumn(dict[str, str]), nullable=False),
    Column("retry_of", String(36)),
    Column("sealed", LargeBinary),
)

ledger = Table(
    "ledger",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("service_id", String(36), nullable=False),
    Column("cluster_id", String(36), nullable=False),
    Column("stage", EnumColumn(LedgerStage), nullable=False),
    Column("at", UtcColumn, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("sha", String(64)),
    Column("digest", String(71)),
    Column("revision_id", String(36)),
    Column("actor", String(320), nullable=False),
    Column("message", Text, nullable=False),
    Column("detail", JsonColumn(dict[str, Any]), nullable=False),
    Index(None, "service_id", "id"),
    Index(None, "cluster_id", "id"),
)

deployments = Table(
    "deployments",
    metadata,
    Column("service_id", String(36), primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("cluster_id", String(36), nullable=False, index=True),
    Column("stage", EnumColumn(LedgerStage), nullable=False),
    Column("sha", String(64)),
    Column("revision_id", String(36)),
    Column("actor", String(320), nullable=False),
    Column("committed_at", UtcColumn),
    Column("fetched_at", UtcColumn),
    Column("desired_at", UtcColumn, nullable=False),
    Column("offered_at", UtcColumn),
    Column("applied_at", UtcColumn),
    Column("healthy_at", UtcColumn),
    Column("failed_at", UtcColumn),
    Column("restored_at", UtcColumn),
    Column("reverted_at", UtcColumn),
    Column("replaced_at", UtcColumn),
    Column("removed_at", UtcColumn),
    Column("lead_s", Float),
    Column("restore_s", Float),
    Index(None, "sha"),
    Index(
        "ix_deployments_figures",
        *("desired_at", "lead_s", "restore_s", "healthy_at", "failed_at", "reverted_at"),
    ),
    Index(
        "ix_deployments_standing",
        *("replaced_at", "desired_at", "removed_at", "service_id", "sequence"),
    ),
    Index(None, "healthy_at", "lead_s"),
    Index(None, "failed_at"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
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
    Column("detail", JsonColumn(dict[str, Any]), nullable=False),
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

notifications = Table(
    "notifications",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
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
Index(
    "ix_notifications_waiting",
    notifications.c.id,
    sqlite_where=notifications.c.routed_at.is_(None),
    postgresql_where=notifications.c.routed_at.is_(None),
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
    _id(),
    Column("name", String(255), nullable=False, unique=True),
    *_times(),
    Column("type", EnumColumn(SinkType), nullable=False),
    Column("project_id", String(36), nullable=False, index=True),
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
    _id(),
    Column("name", String(255), nullable=False, unique=True),
    *_times(),
    Column("project_id", String(36), nullable=False, index=True),
    Column("events", JsonColumn(tuple[str, ...]), nullable=False),
    Column("severity", EnumColumn(Severity), nullable=False),
    Column("filters", JsonColumn(tuple[RouterFilter, ...]), nullable=False),
    Column("sinks", JsonColumn(tuple[str, ...]), nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    _id(),
    Column("notification_id", BigInteger, nullable=False),
    Column("sink_id", String(36), nullable=False),
    Column("project_id", String(36), nullable=False, index=True),
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

jobs = Table(
    "jobs",
    metadata,
    _id(),
    Column("kind", String(64), nullable=False),
    Column("key", String(255), nullable=False, unique=True),
    Column("run_at", UtcColumn, nullable=False, index=True),
    Column("payload", JsonColumn(dict[str, Any]), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("error", Text),
    Column("holder", String(64)),
    Column("lease_until", UtcColumn),
)

replicas = Table(
    "replicas",
    metadata,
    _id(),
    Column("address", String(255), nullable=False),
    Column("heartbeat", UtcColumn, nullable=False),
)

tunnels = Table(
    "tunnels",
    metadata,
    _id(),
    Column("since", UtcColumn, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("replica_id", String(36), index=True),
    Column("instance", String(64), nullable=False),
    Column("peer", String(255), nullable=False),
    Column("swaps", JsonColumn(tuple[datetime, ...]), nullable=False),
)
