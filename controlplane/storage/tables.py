"""The tables. Each column bears the name of the domain's field it keeps."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

from controlplane.domain.access import KubernetesRights, Limit, Rule
from controlplane.domain.bindings import RequestState, SubjectKind
from controlplane.domain.clusterjobs import JobPhase
from controlplane.domain.clusters import AgentMode, ClusterFacts, Distribution
from controlplane.domain.commands import CommandKind, CommandState
from controlplane.domain.ledger import Stage, Verdict
from controlplane.domain.objects import ObjectName, PlannedChange
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
from controlplane.storage.columns import Attested, Shape, Utc, Word
from fleet.identity import TokenKind
from fleet.source import Commit, Renderer

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite only numbers rows by itself in a column declared INTEGER.
_Serial = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[Any]:
    return Column("id", String(36), primary_key=True)


def _times() -> tuple[Column[Any], Column[Any]]:
    return Column("inserted_at", Utc, nullable=False), Column("updated_at", Utc, nullable=False)


users = Table(
    "users",
    metadata,
    _id(),
    Column("email", String(320), nullable=False, unique=True),
    Column("name", String(255), nullable=False),
    *_times(),
    Column("kind", Word(UserKind), nullable=False),
    Column("disabled_at", Utc),
    Column("password", String(255)),
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
)

memberships = Table(
    "memberships",
    metadata,
    _id(),
    Column("group_id", String(36), ForeignKey("groups.id"), nullable=False),
    Column("user_id", String(36), ForeignKey("users.id"), nullable=False, index=True),
    Column("inserted_at", Utc, nullable=False),
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
    Column("inserted_at", Utc, nullable=False),
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
    Column("rules", Shape(tuple[Rule, ...]), nullable=False),
    Column("kubernetes", Shape(KubernetesRights), nullable=False),
)

role_bindings = Table(
    "role_bindings",
    metadata,
    _id(),
    Column("role_id", String(36), nullable=False, index=True),
    Column("subject_kind", Word(SubjectKind), nullable=False),
    Column("subject_id", String(36), nullable=False, index=True),
    Column("scope", String(64), nullable=False, index=True),
    Column("inserted_at", Utc, nullable=False),
    Column("expires_at", Utc, index=True),
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
    Column("inserted_at", Utc, nullable=False),
    Column("state", Word(RequestState), nullable=False, index=True),
    Column("decided_by", String(320), nullable=False),
    Column("decided_at", Utc),
    Column("binding_id", String(36)),
    Column("expires_at", Utc),
)

challenges = Table(
    "challenges",
    metadata,
    _id(),
    Column("kind", Word(ChallengeKind), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("inserted_at", Utc, nullable=False),
    Column("expires_at", Utc, nullable=False, index=True),
    Column("code", String(16), unique=True),
    Column("detail", Shape(dict[str, str]), nullable=False),
    Column("user_id", String(36)),
    Column("taken_at", Utc),
)

failures = Table(
    "failures",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("count", Integer, nullable=False),
    Column("until", Utc, nullable=False, index=True),
)

trust_rules = Table(
    "trust_rules",
    metadata,
    _id(),
    Column("user_id", String(36), ForeignKey("users.id"), nullable=False, index=True),
    Column("issuer", String(512), nullable=False, index=True),
    Column("audience", String(512), nullable=False),
    Column("subject", String(512), nullable=False),
    Column("inserted_at", Utc, nullable=False),
    Column("claims", Shape(dict[str, str]), nullable=False),
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
    Column("tags", Shape(dict[str, str]), nullable=False),
    Column("metadata", Shape(dict[str, Any]), nullable=False),
    Column("protect", Boolean, nullable=False),
    Column("version", String(64)),
    Column("kubernetes_version", String(64)),
    Column("distribution", Word(Distribution)),
    Column("nodes", Integer),
    Column("agent_version", String(64)),
    Column("agent_instance", String(64)),
    Column("pinged_at", Utc),
    Column("acknowledged", BigInteger, nullable=False),
    Column("ending_at", Utc),
    Column("deleted_at", Utc),
    Column("mode", Word(AgentMode), nullable=False),
    Column("facts", Shape(ClusterFacts), nullable=False),
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

tokens = Table(
    "tokens",
    metadata,
    _id(),
    Column("kind", Word(TokenKind), nullable=False),
    Column("name", String(255), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("inserted_at", Utc, nullable=False),
    Column("user_id", String(36), ForeignKey("users.id"), index=True),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), index=True),
    Column("expires_at", Utc),
    Column("last_used_at", Utc),
    Column("revoked_at", Utc),
    Column("limits", Shape(tuple[Limit, ...]), nullable=False),
    Column("idle_at", Utc),
    Column("parent_id", String(36)),
    Column("source", String(64), nullable=False),
)

repositories = Table(
    "repositories",
    metadata,
    _id(),
    Column("url", String(2048), nullable=False, unique=True),
    *_times(),
    Column("auth_method", Word(AuthMethod)),
    Column("sealed", LargeBinary),
    Column("sealed_webhook", LargeBinary),
    Column("decrypt", Boolean, nullable=False),
    Column("health", Word(GitHealth)),
    Column("error", Text),
    Column("commits", Shape(dict[str, Commit]), nullable=False),
    Column("polled_at", Utc),
    Column("fetched_at", Utc),
    Column("via", String(36)),
    Column("submodules", Boolean, nullable=False),
    Column("size", BigInteger),
    Column("owner", String(255)),
    Column("project_id", String(36), index=True),
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
    Column("renderer", Word(Renderer), nullable=False),
    Column("kustomize_path", String(1024)),
    Column("helm", Shape(dict[str, Any])),
    Column("configuration", Shape(dict[str, str]), nullable=False),
    Column("templated", Boolean, nullable=False),
    Column("protect", Boolean, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("version", String(64), nullable=False),
    Column("options", Shape(SyncOptions), nullable=False),
    Column("pinned", String(64)),
    Column("promoted", Boolean, nullable=False),
    Column("sha", String(64)),
    Column("author", String(512), nullable=False),
    Column("revision_id", String(36)),
    Column("source", String(71)),
    Column("reads", Shape(dict[str, str]), nullable=False),
    Column("digest", String(71), index=True),
    Column("bundle_bytes", BigInteger, nullable=False),
    Column("object_count", Integer, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("observed", BigInteger, nullable=False),
    Column("phase", Word(Phase)),
    Column("render_error", Text),
    Column("problems", Shape(tuple[Problem, ...]), nullable=False),
    Column("observed_at", Utc),
    Column("deleted_at", Utc),
    Column("removal", Word(Removal)),
    Column("message", Text, nullable=False),
    Column("awaiting", Shape(tuple[ObjectName, ...]), nullable=False),
    Column("confirmed", Shape(Confirmation)),
    Column("mirrored", Boolean, nullable=False),
    Column("origin", String(2048), nullable=False),
    Column("attestation", Attested),
    Column("project_id", String(36), index=True),
)
Index("uq_services_cluster_id_name", services.c.cluster_id, services.c.name, unique=True)

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
    Column("committed_at", Utc, nullable=False),
    Column("inserted_at", Utc, nullable=False),
    Column("actor", String(320), nullable=False),
    Column("release_id", String(64)),
    Column("attestation", Attested),
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
    Column("state", Word(ComponentState)),
    Column("message", Text, nullable=False),
    Column("synced", Boolean, nullable=False),
    Column("images", Shape(tuple[str, ...]), nullable=False),
    Column("updated_at", Utc, nullable=False),
    Column("labels", Shape(dict[str, str]), nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("hash", String(71), nullable=False),
    Column("finalizers", Shape(tuple[str, ...]), nullable=False),
)

plans = Table(
    "plans",
    metadata,
    _id(),
    Column("sequence", BigInteger, nullable=False),
    Column("changes", Shape(tuple[PlannedChange, ...]), nullable=False),
)

pipelines = Table(
    "pipelines",
    metadata,
    _id(),
    Column("name", String(255), nullable=False, unique=True),
    *_times(),
    Column("spec", Shape(dict[str, Any]), nullable=False),
    Column("state", Shape(dict[str, Any]), nullable=False),
    Column("version", Integer, nullable=False),
    Column("project_id", String(36), index=True),
)

commands = Table(
    "commands",
    metadata,
    _id(),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), nullable=False),
    Column("kind", Word(CommandKind), nullable=False),
    Column("inserted_at", Utc, nullable=False),
    Column("service_id", String(36)),
    Column("state", Word(CommandState), nullable=False),
    Column("message", Text, nullable=False),
    Column("finished_at", Utc),
    Column("payload", Shape(dict[str, Any]), nullable=False),
    Index(None, "cluster_id", "state"),
)

cluster_jobs = Table(
    "cluster_jobs",
    metadata,
    _id(),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), nullable=False, index=True),
    Column("key", String(255), nullable=False, unique=True),
    Column("namespace", String(63), nullable=False),
    Column("manifest", Shape(dict[str, Any]), nullable=False),
    Column("timeout_s", Integer, nullable=False),
    Column("follow", Boolean, nullable=False),
    Column("actor", String(320), nullable=False),
    Column("inserted_at", Utc, nullable=False),
    Column("phase", Word(JobPhase), nullable=False),
    Column("message", Text, nullable=False),
    Column("object", Shape(ObjectName)),
    Column("exit_code", Integer),
    Column("started_at", Utc),
    Column("finished_at", Utc),
    Column("log_tail", Text, nullable=False),
    Column("outputs", Shape(dict[str, str]), nullable=False),
    Column("retry_of", String(36)),
    Column("sealed", LargeBinary),
)

ledger = Table(
    "ledger",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("service_id", String(36), nullable=False),
    Column("cluster_id", String(36), nullable=False),
    Column("stage", Word(Stage), nullable=False),
    Column("at", Utc, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("sha", String(64)),
    Column("digest", String(71)),
    Column("revision_id", String(36)),
    Column("actor", String(320), nullable=False),
    Column("message", Text, nullable=False),
    Column("detail", Shape(dict[str, Any]), nullable=False),
    Index(None, "service_id", "id"),
    Index(None, "cluster_id", "id"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("at", Utc, nullable=False),
    Column("actor", String(320), nullable=False),
    Column("action", String(128), nullable=False),
    Column("verdict", Word(Verdict), nullable=False),
    Column("actor_id", String(36), nullable=False),
    Column("token_id", String(36)),
    Column("source", String(64), nullable=False),
    Column("target", String(320), nullable=False),
    Column("target_id", String(64), nullable=False),
    Column("status", Integer),
    Column("request_id", String(64), nullable=False),
    Column("detail", Shape(dict[str, Any]), nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    _id(),
    Column("kind", String(64), nullable=False),
    Column("key", String(255), nullable=False, unique=True),
    Column("run_at", Utc, nullable=False, index=True),
    Column("payload", Shape(dict[str, Any]), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("error", Text),
    Column("holder", String(64)),
    Column("lease_until", Utc),
)
