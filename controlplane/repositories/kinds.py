"""Kinds of manifests: Git, Helm and OCI repositories, named by their URLs."""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from controlplane.authorization import Actor
from controlplane.platform.kinds import ManifestKind, Placement
from controlplane.platform.parts import Columns, column_names, row_of
from controlplane.platform.ports import Transaction
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from controlplane.repositories.ports import RepositoryStore
from core.spec.source import GitCredentials, RepositoryKind


class GitRepositoryKind(ManifestKind[Repository]):
    """Git repositories."""

    name = "GitRepository"
    family = "Repository"
    change = RepositoryChange
    port = RepositoryStore
    model = Repository
    hidden: ClassVar[Collection[str]] = ("url", "project_id")
    named_by = "url"
    rename = {"via": "via_cluster"}
    clearable = ("via", "https_path", "url_format")
    references = {"RepositoryChange.via": "Cluster"}
    sensitive = (*column_names(GitCredentials), "webhook_secret")
    destinations = (
        "RepositoryChange.via",
        *(f"GitCredentials.{name}" for name in ("authority", "api_url", "proxy")),
    )
    repository_kind: ClassVar[RepositoryKind] = RepositoryKind.GIT

    def __init__(self, repositories: RepositoryOperations) -> None:
        self._repositories = repositories

    async def by_names(
        self, tx: Transaction, names: Collection[str], scopes: Collection[str]
    ) -> Sequence[Repository]:
        return self._of_this_kind(await tx[RepositoryStore].by_urls(names))

    async def by_ids(self, tx: Transaction, ids: Collection[str]) -> Sequence[Repository]:
        return self._of_this_kind(await tx[RepositoryStore].by_ids(ids))

    async def all(self, tx: Transaction) -> Sequence[Repository]:
        return self._of_this_kind(await tx[RepositoryStore].all())

    def name_of(self, row: Repository) -> str:
        return row.url

    async def secrets(self, tx: Transaction, row: Repository) -> Columns:
        return self._repositories.secrets_of(row)

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        change = row_of(RepositoryChange, self.with_placement(placement, columns))
        return (await self._repositories.create(actor, change, self.repository_kind)).id

    async def update(self, actor: Actor, row: Repository, columns: Columns) -> None:
        change = row_of(RepositoryChange, columns)
        await self._repositories.update(actor, row.id, change, self.repository_kind)

    async def delete(self, actor: Actor, row: Repository) -> None:
        await self._repositories.delete(actor, row.id, self.repository_kind)

    def _of_this_kind(self, rows: Sequence[Repository]) -> list[Repository]:
        return [row for row in rows if row.kind is self.repository_kind]


class HelmRepositoryKind(GitRepositoryKind):
    """Helm repositories, also in OCI registries: their URLs begin with `oci://`."""

    name = "HelmRepository"
    hidden = ("url", "project_id", "webhook_secret", "submodules", "url_format")
    repository_kind = RepositoryKind.HELM


class OCIRepositoryKind(GitRepositoryKind):
    """OCI repositories: artifacts with folders of manifests or charts."""

    name = "OCIRepository"
    hidden = tuple(
        name
        for name in column_names(RepositoryChange)
        if name not in ("username", "password", "https_path")
    )
    rename: ClassVar[Mapping[str, str]] = {}
    references: ClassVar[Mapping[str, str]] = {}
    sensitive = ("username", "password")
    destinations = ()
    repository_kind = RepositoryKind.OCI
