"""Configuration sources in the API."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.loading import load_projects
from controlplane.access.api.types import ProjectType
from controlplane.configuration_sources.model.managers import FieldManager
from controlplane.configuration_sources.model.source import (
    ApplyMode,
    ConfigurationSource,
    SourceResult,
)
from controlplane.configuration_sources.operations.field_managers import FieldManagers
from controlplane.configuration_sources.operations.sources import (
    ConfigurationSourceChange,
    ConfigurationSources,
)
from controlplane.manifests.api.manifests import ManifestChange, ManifestProblem
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, draft, output
from controlplane.platform.graphql.resource_fields import ResourceFields

strawberry.enum(ApplyMode, name="ConfigurationSourceMode")
strawberry.enum(SourceResult, name="ConfigurationSourceResult")


@output(
    ConfigurationSource,
    rename={"interval_seconds": "interval_s"},
    hide={
        *("project_id", "repository_id", "service_account_id"),
        *("approved_digest", "is_requested", "is_forced", "reverts"),
    },
    nullable={"message", "seen_sha", "applied_sha", "plan_digest", "approved_by"},
    name="ConfigurationSource",
)
class ConfigurationSourceType(Output[ConfigurationSource]):
    """A folder in Git whose manifests the control plane applies as a service account."""

    problems: list[ManifestProblem]
    plan: list[ManifestChange]
    project: ProjectType | None
    """Project of the source."""
    repository_url: str | None
    """URL of the Git repository. Null if the caller may not read it."""
    service_account: str | None
    """E-mail address of the service account. Null if the caller may not read it."""


@draft(ConfigurationSourceChange, rename={"interval_seconds": "interval_s"})
class ConfigurationSourceAttributes(Draft[ConfigurationSourceChange]):
    """Fields of a configuration source. A field that is null or absent stays as it is."""


async def _source_types(
    info: Info, rows: Sequence[ConfigurationSource]
) -> list[ConfigurationSourceType]:
    context = info.context
    projects = await load_projects(context, [row.project_id for row in rows])
    sources = context[ConfigurationSources]
    repositories = await sources.repository_urls(context.actor, rows)
    accounts = await sources.accounts(context.actor, rows)
    return [
        ConfigurationSourceType.of(
            row,
            project=projects.get(row.project_id),
            repository_url=repositories.get(row.settings.repository_id),
            service_account=accounts.get(row.settings.service_account_id),
        )
        for row in rows
    ]


_SOURCES = ResourceFields(
    "configuration source", ConfigurationSources, ConfigurationSourceType, _source_types
)


@output(FieldManager, nullable={"source"}, name="FieldManager")
class FieldManagerType(Output[FieldManager]):
    """A manager that has set fields of a resource through its manifest."""


@strawberry.type
class ConfigurationSourceQuery:
    """Queries of configuration sources."""

    configuration_source = _SOURCES.get(ConfigurationSources.get)
    """A configuration source, by ID or name."""
    configuration_sources = _SOURCES.page(ConfigurationSources.page)
    """Configuration sources.

    Args:
        q: Text to search for in names and folders. Limit: 200 characters.
    """

    @strawberry.field
    async def field_managers(self, info: Info, kind: str, name: str) -> list[FieldManagerType]:
        """Managers of the fields of a resource: configuration sources, Terraform and others.

        Args:
            kind: Name of the kind of manifests, such as `Service`.
            name: Name of the resource; that of a service contains its cluster, as `eu-1/web`.
        """
        found = await info.context[FieldManagers].of(info.context.actor, kind, name)
        return [FieldManagerType.of(manager) for manager in found]


@strawberry.type
class ConfigurationSourceMutation:
    """Mutations of configuration sources."""

    create_configuration_source = _SOURCES.create(
        ConfigurationSources.create, ConfigurationSourceAttributes
    )
    """Creates a configuration source. The caller needs all permissions of its service account."""
    update_configuration_source = _SOURCES.update(
        ConfigurationSources.update, ConfigurationSourceAttributes
    )
    """Updates, suspends or resumes a configuration source.

    Args:
        attributes: Fields to change. More than `suspended` and `intervalSeconds` needs all
            permissions of the service account.
    """
    delete_configuration_source = _SOURCES.action(ConfigurationSources.delete)
    """Deletes a configuration source and keeps its resources."""
    sync_configuration_source = _SOURCES.call(ConfigurationSources.sync)
    """Fetches the repository now, and applies the folder again.

    Args:
        force: True takes over fields of other managers, except of other sources. Default:
            false.
    """
    approve_configuration_source = _SOURCES.call(ConfigurationSources.approve)
    """Approves the plan of a configuration source.

    Args:
        digest: Digest of the plan that the caller reviewed. Fails with CONFLICT if the source
            has another plan by now.
    """
