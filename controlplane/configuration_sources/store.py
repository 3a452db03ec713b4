"""The table of configuration sources."""

from controlplane.configuration_sources.model.source import ConfigurationSource
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables

configuration_sources = row_table(
    "configuration_sources",
    ConfigurationSource,
    lengths={
        "ref": 255,
        "folder": 1024,
        "seen_sha": 64,
        "applied_sha": 64,
        "plan_digest": 64,
        "approved_digest": 64,
        "approved_by": 320,
    },
    indexed={"project_id", "repository_id", "service_account_id", "result"},
)

REPOSITORIES = tables(
    TableRows(
        ConfigurationSourceStore, configuration_sources, ConfigurationSource, ("name", "folder")
    )
)
