"""Chart repositories and OCI registries, as the API shows them."""

from datetime import datetime

import strawberry

from controlplane.domain.repositories import GitHealth, Repository
from controlplane.graphql import relay
from controlplane.graphql.context import Info
from controlplane.usecases.repositories import RepositoryChange
from fleet.source import GitCredentials, RepositoryKind, chart_of_ref

_HELM = RepositoryKind.HELM


@strawberry.type
class HelmChart:
    """A chart in use: the range of versions that is followed, and the newest that it allows.

    `digest` is the sha256 of its archive.
    """

    chart: str
    range: str
    version: str
    digest: str


@strawberry.type
class HelmRepository:
    """A place of charts. `error` tells why it could not be asked; what was known stays."""

    id: strawberry.ID
    url: str
    health: GitHealth | None
    error: str | None
    signs_in: bool
    project_id: strawberry.ID | None
    inserted_at: datetime
    updated_at: datetime
    polled_at: datetime | None
    charts: list[HelmChart]

    @classmethod
    def of(cls, row: Repository) -> "HelmRepository":
        found = [(chart_of_ref(ref), commit) for ref, commit in sorted(row.commits.items())]
        return cls(
            id=strawberry.ID(row.id),
            url=row.url,
            health=row.health,
            error=row.error,
            signs_in=row.auth_method is not None,
            project_id=strawberry.ID(row.project_id) if row.project_id else None,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
            polled_at=row.polled_at,
            charts=[
                HelmChart(
                    chart=named[0],
                    range=named[1],
                    version=commit.subject.rpartition(" ")[2],
                    digest=f"sha256:{commit.sha}",
                )
                for named, commit in found
                if named is not None
            ],
        )


@strawberry.input
class HelmRepositoryAttributes:
    """`url`: https://… or oci://… . The password is only written; empty text takes it away."""

    url: str | None = None
    username: str | None = None
    password: str | None = None
    project_id: strawberry.ID | None = None

    def change(self) -> RepositoryChange:
        credentials = GitCredentials(username=self.username, password=self.password)
        return RepositoryChange(self.url, credentials, project_id=self.project_id or None)


@strawberry.type
class HelmRepositoryQuery:
    @strawberry.field(description="A place of charts by id, else by URL.")
    async def helm_repository(
        self, info: Info, id: strawberry.ID | None = None, url: str | None = None
    ) -> HelmRepository | None:
        verbs = info.context.verbs
        return HelmRepository.of(await verbs.repositories.get(info.context.actor, id, url, _HELM))

    @strawberry.field(description="Places of charts; `q` is looked for in URLs.")
    async def helm_repositories(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[HelmRepository]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.repositories.page(info.context.actor, asked, _HELM)
        return relay.listed(page, asked, HelmRepository.of)


@strawberry.type
class HelmRepositoryMutation:
    @strawberry.mutation(description="Connect a chart repository or an OCI registry.")
    async def create_helm_repository(
        self, info: Info, attributes: HelmRepositoryAttributes
    ) -> HelmRepository | None:
        verbs, change = info.context.verbs, attributes.change()
        return HelmRepository.of(await verbs.repositories.create(info.context.actor, change, _HELM))

    @strawberry.mutation
    async def update_helm_repository(
        self, info: Info, id: strawberry.ID, attributes: HelmRepositoryAttributes
    ) -> HelmRepository | None:
        repositories, actor = info.context.verbs.repositories, info.context.actor
        return HelmRepository.of(await repositories.update(actor, id, attributes.change(), _HELM))

    @strawberry.mutation(description="Disconnect it. Conflict: services still use it.")
    async def delete_helm_repository(self, info: Info, id: strawberry.ID) -> HelmRepository | None:
        verbs = info.context.verbs
        return HelmRepository.of(await verbs.repositories.delete(info.context.actor, id, _HELM))

    @strawberry.mutation(description="Look for new versions now.")
    async def sync_helm_repository(self, info: Info, id: strawberry.ID) -> HelmRepository | None:
        verbs = info.context.verbs
        return HelmRepository.of(await verbs.repositories.sync(info.context.actor, id, _HELM))
