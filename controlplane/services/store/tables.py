"""Services, their status codes, and the fleet map."""

from sqlalchemy import BigInteger, Column, Float, Index, String, Table

from controlplane.platform.store.columns import EnumColumn, UtcColumn
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.schema import (
    SerialNumber,
    index_json_keys,
    index_substrings,
    metadata,
)
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import (
    Component,
    DryRunResult,
    Revision,
    Service,
    ServiceSource,
)

service_sources = row_table(
    "service_sources",
    ServiceSource,
    lengths={"ref": 255, "folder": 1024, "path": 1024, "sha": 64, "tree": 64},
    indexed={"service_id", "repository_id"},
    references={"service_id": "services.id", "repository_id": "repositories.id"},
)


services = row_table(
    "services",
    Service,
    Column("bundle_bytes", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("observed_generation", BigInteger, nullable=False),
    Column("status_code", String(1), nullable=False),
    lengths={
        "name": 63,
        "namespace": 63,
        "ref": 255,
        "folder": 1024,
        "renderer": 32,
        "kustomize_path": 1024,
        "version": 64,
        "docs_path": 1024,
        "rendered_by": 36,
        "pinned_sha": 64,
        "commit_sha": 64,
        "author": 512,
        "input_digest": 71,
        "digest": 71,
        "render_reason": 64,
        "quarantined": 128,
        "origin": 2048,
    },
    indexed={"cluster_id", "repository_id", "digest", "quarantined", "project_id", "owner_id"},
    references={"cluster_id": "clusters.id", "repository_id": "repositories.id"},
)


revisions = row_table(
    "revisions",
    Revision,
    lengths={
        "sha": 64,
        "ref": 255,
        "folder": 1024,
        "digest": 71,
        "source": 71,
        "author": 512,
        "subject": 512,
        "actor": 320,
        "release_id": 64,
    },
    indexed={"service_id"},
)


components = row_table(
    "components",
    Component,
    Column("generation", BigInteger, nullable=False),
    lengths={
        "id": 64,
        "group": 253,
        "version": 63,
        "kind": 63,
        "namespace": 63,
        "name": 253,
        "uid": 64,
        "owner_uid": 64,
        "hash": 71,
    },
    indexed={"service_id", "cluster_id"},
)


images = Table(
    "images",
    metadata,
    Column("image", String(1024), primary_key=True),
    Column("name", String(512), nullable=False, index=True),
    Column("tag", String(255), nullable=False),
)


plans = row_table("plans", DryRunResult, Column("sequence", BigInteger, nullable=False))


ledger = row_table(
    "ledger",
    LedgerEntry,
    Column("sequence", BigInteger, nullable=False),
    Column("id", SerialNumber, primary_key=True, autoincrement=True),
    Index(None, "service_id", "id"),
    Index(None, "cluster_id", "id"),
    Index(None, "project_id", "id"),
    lengths={"sha": 64, "digest": 71, "actor": 320},
)


deployments = Table(
    "deployments",
    metadata,
    Column("service_id", String(36), primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("cluster_id", String(36), nullable=False, index=True),
    Column("project_id", String(36), nullable=False, index=True),
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
for _column in (services.c.name, services.c.namespace):
    index_substrings("services", _column)
# All columns that lists filter by, so that SQLite's scans do not read whole services.
Index(
    "ix_services_listed",
    *(services.c[n] for n in ("id", "cluster_id", "project_id", "name", "namespace", "deleted_at")),
).ddl_if(dialect="sqlite")
Index("ix_components_kind_id", components.c.kind, components.c.id)
Index("ix_components_owner_uid", components.c.owner_uid)
index_substrings("components", components.c.kind, components.c.name)
# All columns that words and kinds are searched in, so that SQLite's scans read no whole objects.
Index("ix_components_kind_name_id", *(components.c[n] for n in ("kind", "name", "id"))).ddl_if(
    dialect="sqlite"
)
index_json_keys("components", components.c.labels, components.c.images)
