"""The table of configuration sources."""

from sqlalchemy import Boolean, Column, Integer, String, Table, Text

from controlplane.configuration_sources.model.source import (
    ApplyMode,
    ConfigurationSource,
    SourceResult,
)
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.manifests.model.documents import DocumentProblem
from controlplane.manifests.model.plan import ManifestEffect
from controlplane.platform.store.columns import EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import metadata, named_columns, project_column
from core.spec.sync import DriftPolicy

configuration_sources = Table(
    "configuration_sources",
    metadata,
    *named_columns(),
    project_column(),
    Column("repository_id", String(36), nullable=False, index=True),
    Column("ref", String(255), nullable=False),
    Column("folder", String(1024), nullable=False),
    Column("service_account_id", String(36), nullable=False, index=True),
    Column("mode", EnumColumn(ApplyMode), nullable=False),
    Column("prune", Boolean, nullable=False),
    Column("deletion_budget", Integer, nullable=False),
    Column("drift", EnumColumn(DriftPolicy), nullable=False),
    Column("interval_s", Integer, nullable=False),
    Column("suspended", Boolean, nullable=False),
    Column("result", EnumColumn(SourceResult), nullable=False, index=True),
    Column("message", Text, nullable=False),
    Column("seen_sha", String(64), nullable=False),
    Column("seen_at", UtcColumn),
    Column("applied_sha", String(64), nullable=False),
    Column("applied_at", UtcColumn),
    Column("checked_at", UtcColumn),
    Column("problems", JsonColumn(tuple[DocumentProblem, ...]), nullable=False),
    Column("plan", JsonColumn(tuple[ManifestEffect, ...]), nullable=False),
    Column("plan_size", Integer, nullable=False),
    Column("plan_digest", String(64), nullable=False),
    Column("approved_digest", String(64), nullable=False),
    Column("approved_by", String(320), nullable=False),
    Column("is_requested", Boolean, nullable=False),
    Column("is_forced", Boolean, nullable=False),
    Column("reverts", JsonColumn(dict[str, int]), nullable=False),
)

REPOSITORIES = tables(
    TableRows(
        ConfigurationSourceStore, configuration_sources, ConfigurationSource, ("name", "folder")
    )
)
