"""Configuration sources in the API."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.loading import projects_of
from controlplane.access.api.types import ProjectType
from controlplane.configuration_sources.model.source import (
    ApplyMode,
    ConfigurationSource,
    SourceResult,
)
from controlplane.configuration_sources.operations.sources import (
    ConfigurationSourceChange,
    ConfigurationSources,
)
from controlplane.manifests.api.manifests import ManifestChange, ManifestProblem
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.derive import Draft, Output, draft, output

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


@strawberry.type
class ConfigurationSourceQuery:
    """Queries of configuration sources."""

    @strawberry.field
    async def configuration_source(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> ConfigurationSourceType | None:
        """A configuration source, by ID or name.

        Args:
            id: ID of the configuration source.
        """
        row = await info.context[ConfigurationSources].get(info.context.actor, id, name)
        return await _type(info.context, row)

    @strawberry.field
    async def configuration_sources(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
    ) -> relay.Connection[ConfigurationSourceType]:
        """Configuration sources.

        Args:
            q: Text to search for in names and folders. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q, labels=labels)
        page = await info.context[ConfigurationSources].page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, _types)


@strawberry.type
class ConfigurationSourceMutation:
    """Mutations of configuration sources."""

    @strawberry.mutation
    async def create_configuration_source(
        self, info: Info, attributes: ConfigurationSourceAttributes
    ) -> ConfigurationSourceType | None:
        """Creates a configuration source. The caller needs all permissions of its service account.

        Args:
            attributes: Fields of the configuration source.
        """
        sources = info.context[ConfigurationSources]
        row = await sources.create(info.context.actor, attributes.change())
        return await _type(info.context, row)

    @strawberry.mutation
    async def update_configuration_source(
        self, info: Info, id: strawberry.ID, attributes: ConfigurationSourceAttributes
    ) -> ConfigurationSourceType | None:
        """Updates, suspends or resumes a configuration source.

        Args:
            id: ID of the configuration source.
            attributes: Fields to change. More than `suspended` and `intervalSeconds` needs all
                permissions of the service account.
        """
        sources = info.context[ConfigurationSources]
        row = await sources.update(info.context.actor, id, attributes.change())
        return await _type(info.context, row)

    @strawberry.mutation
    async def delete_configuration_source(
        self, info: Info, id: strawberry.ID
    ) -> ConfigurationSourceType | None:
        """Deletes a configuration source and keeps its resources.

        Args:
            id: ID of the configuration source.
        """
        row = await info.context[ConfigurationSources].delete(info.context.actor, id)
        return await _type(info.context, row)

    @strawberry.mutation
    async def sync_configuration_source(
        self, info: Info, id: strawberry.ID, force: bool = False
    ) -> ConfigurationSourceType | None:
        """Fetches the repository now, and applies the folder again.

        Args:
            id: ID of the configuration source.
            force: True takes over fields of other managers, except of other sources. Default:
                false.
        """
        sources = info.context[ConfigurationSources]
        row = await sources.sync(info.context.actor, id, force=force)
        return await _type(info.context, row)

    @strawberry.mutation
    async def approve_configuration_source(
        self, info: Info, id: strawberry.ID, digest: str
    ) -> ConfigurationSourceType | None:
        """Approves the plan of a configuration source.

        Args:
            id: ID of the configuration source.
            digest: Digest of the plan that the caller reviewed. Fails with CONFLICT if the source
                has another plan by now.
        """
        sources = info.context[ConfigurationSources]
        row = await sources.approve(info.context.actor, id, digest)
        return await _type(info.context, row)


async def _type(context: Context, row: ConfigurationSource) -> ConfigurationSourceType:
    return (await _types(context, [row]))[0]


async def _types(
    context: Context, rows: Sequence[ConfigurationSource]
) -> list[ConfigurationSourceType]:
    projects = await projects_of(context, [row.project_id for row in rows])
    origins = await context[ConfigurationSources].origins(context.actor, rows)
    return [
        ConfigurationSourceType.of(
            row,
            project=projects.get(row.project_id),
            repository_url=origins.repositories.get(row.settings.repository_id),
            service_account=origins.accounts.get(row.settings.service_account_id),
        )
        for row in rows
    ]
