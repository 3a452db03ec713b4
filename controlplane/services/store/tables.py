"""Services, their status codes, and the fleet map."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
)

from controlplane.platform.store.columns import AttestationColumn, EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.schema import (
    SerialNumber,
    id_column,
    index_json_keys,
    metadata,
    project_column,
    substring_indexes,
    time_columns,
)
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.ownership import OwnerKind
from controlplane.services.model.service import ComponentState, Confirmation
from controlplane.services.model.verification import Quarantine
from core.json_object import JsonObject
from core.spec.input_checks import InputVerdict
from core.spec.objects import ObjectRef
from core.spec.plan import PlannedChange
from core.spec.renderers import RenderOptions
from core.spec.status import Phase, Problem
from core.spec.sync import Removal, SyncOptions
from core.spec.verification import Verification

service_sources = Table(
    "service_sources",
    metadata,
    id_column(),
    Column("service_id", String(36), ForeignKey("services.id"), nullable=False, index=True),
    Column("repository_id", String(36), ForeignKey("repositories.id"), nullable=False, index=True),
    Column("place", Integer, nullable=False),
    Column("ref", String(255), nullable=False),
    Column("folder", String(1024), nullable=False),
    Column("path", String(1024), nullable=False),
    Column("sha", String(64), nullable=False),
    Column("tree", String(64), nullable=False),
)


services = Table(
    "services",
    metadata,
    id_column(),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), nullable=False, index=True),
    Column("repository_id", String(36), ForeignKey("repositories.id"), index=True),
    Column("name", String(63), nullable=False),
    Column("namespace", String(63), nullable=False),
    *time_columns(),
    Column("ref", String(255), nullable=False),
    Column("folder", String(1024), nullable=False),
    Column("renderer", String(32), nullable=False),
    Column("kustomize_path", String(1024)),
    Column("helm", JsonColumn(JsonObject)),
    Column("configuration", JsonColumn(dict[str, str]), nullable=False),
    Column("templated", Boolean, nullable=False),
    Column("rendering", JsonColumn(RenderOptions), nullable=False),
    Column("protect", Boolean, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("version", String(64), nullable=False),
    Column("options", JsonColumn(SyncOptions), nullable=False),
    Column("pinned_sha", String(64)),
    Column("commits_behind", Integer),
    Column("promoted", Boolean, nullable=False),
    Column("commit_sha", String(64)),
    Column("author", String(512), nullable=False),
    Column("revision_id", String(36)),
    Column("input_digest", String(71)),
    Column("reads", JsonColumn(dict[str, str]), nullable=False),
    Column("digest", String(71), index=True),
    Column("bundle_bytes", BigInteger, nullable=False),
    Column("object_count", Integer, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("observed_generation", BigInteger, nullable=False),
    Column("phase", EnumColumn(Phase)),
    Column("render_error", Text),
    Column("problems", JsonColumn(tuple[Problem, ...]), nullable=False),
    Column("observed_at", UtcColumn),
    Column("deleted_at", UtcColumn),
    Column("removal", EnumColumn(Removal)),
    Column("message", Text, nullable=False),
    Column("awaiting", JsonColumn(tuple[ObjectRef, ...]), nullable=False),
    Column("drifted", Integer, nullable=False),
    Column("inputs", JsonColumn(InputVerdict)),
    Column("confirmed", JsonColumn(Confirmation)),
    Column("mirrored", Boolean, nullable=False),
    Column("origin", String(2048), nullable=False),
    Column("reported_id", String(36), nullable=False),
    Column("attestation", AttestationColumn),
    project_column(),
    Column("status_code", String(1), nullable=False),
    Column("docs_path", String(1024)),
    Column("dependencies", JsonColumn(tuple[str, ...]), nullable=False),
    Column("waiting", Boolean, nullable=False),
    Column("wait_skipped", Boolean, nullable=False),
    Column("owner_kind", EnumColumn(OwnerKind)),
    Column("owner_id", String(36), index=True),
    Column("rendered_by", String(36)),
    Column("uses_secrets", Boolean, nullable=False),
    Column("verification", JsonColumn(Verification)),
    Column("stage_verification", JsonColumn(Verification)),
    Column("quarantined", String(128), index=True),
    Column("quarantine", JsonColumn(Quarantine)),
)


revisions = Table(
    "revisions",
    metadata,
    id_column(),
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
    id_column(),
    Column("sequence", BigInteger, nullable=False),
    Column("changes", JsonColumn(tuple[PlannedChange, ...]), nullable=False),
)


ledger = Table(
    "ledger",
    metadata,
    Column("id", SerialNumber, primary_key=True, autoincrement=True),
    Column("service_id", String(36), nullable=False),
    Column("cluster_id", String(36), nullable=False),
    Column("project_id", String(36), nullable=False),
    Column("stage", EnumColumn(LedgerStage), nullable=False),
    Column("at", UtcColumn, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("sha", String(64)),
    Column("digest", String(71)),
    Column("revision_id", String(36)),
    Column("actor", String(320), nullable=False),
    Column("message", Text, nullable=False),
    Column("detail", JsonColumn(JsonObject), nullable=False),
    Index(None, "service_id", "id"),
    Index(None, "cluster_id", "id"),
    Index(None, "project_id", "id"),
)


deployments = Table(
    "deployments",
    metadata,
    Column("service_id", String(36), primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("cluster_id", String(36), nullable=False, index=True),
    project_column(),
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


Index("uq_services_cluster_id_name", services.c.cluster_id, services.c.name, unique=True)
Index("ix_services_status_code_id", services.c.status_code, services.c.id)
Index("ix_services_project_id_id", services.c.project_id, services.c.id)
Index("ix_services_repository_id_id", services.c.repository_id, services.c.id)
# Includes the status code: the index alone finds the rows of one status, however rare they are.
Index("ix_services_by_name", services.c.name, services.c.id, services.c.status_code)
# The fleet map and its filters.
Index(
    "ix_services_map",
    *(services.c[n] for n in ("cluster_id", "name", "status_code", "namespace", "project_id")),
)
for _index in substring_indexes("services", services.c.name, services.c.namespace):
    _index.ddl_if(dialect="postgresql")
# All columns that lists filter by, so that SQLite's scans do not read whole services.
Index(
    "ix_services_listed",
    *(services.c[n] for n in ("id", "cluster_id", "project_id", "name", "namespace", "deleted_at")),
).ddl_if(dialect="sqlite")
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
index_json_keys("components", components.c.labels, components.c.images)
