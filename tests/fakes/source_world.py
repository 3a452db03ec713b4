"""Configuration sources over the store in memory, with their service accounts and commits."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from controlplane.access.model.users import User, UserKind
from controlplane.authorization import Actor
from controlplane.authorization.roles import BuiltInRole
from controlplane.configuration_sources.model.source import (
    ConfigurationSource,
    SourceResult,
    SourceSettings,
    SourceStatus,
)
from controlplane.configuration_sources.operations.reconciler import SourceReconciler
from controlplane.configuration_sources.operations.sources import (
    RECONCILE,
    ConfigurationSourceChange,
    ConfigurationSources,
)
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.platform.parts import given
from controlplane.platform.ports import JobStore
from controlplane.repositories.operations import RepositoryOperations
from tests.fakes.access import bind
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START
from tests.fakes.manifest_world import ManifestWorld, manifest_world
from tests.fakes.operations import make_repository

REPOSITORY = "fleet"
_MAX_ROUNDS = 5
ACCOUNT = User("robot", "robot@example.org", "robot", START, START, UserKind.SERVICE_ACCOUNT)


def change_of(**settings: Any) -> ConfigurationSourceChange:
    """Returns a change of the settings of a source."""
    return ConfigurationSourceChange(settings=given(SourceSettings, **settings))


@dataclass(frozen=True)
class SourceWorld:
    """An installation that a repository runs."""

    manifests: ManifestWorld
    sources: ConfigurationSources
    reconciler: SourceReconciler

    async def create(
        self,
        name: str = "fleet",
        actor: Actor = ADMIN,
        project_id: str | None = None,
        **columns: Any,
    ) -> ConfigurationSource:
        """Creates a source that follows folder `name`, and reconciles it."""
        required: dict[str, Any] = {
            "repository_id": REPOSITORY, "service_account_id": ACCOUNT.id, "folder": name,
        }  # fmt: skip
        settings = given(SourceSettings, **(required | columns))
        change = ConfigurationSourceChange(name, project_id, settings)
        source = await self.sources.create(actor, change)
        await self.run_due()
        return source

    async def push(self, files: Mapping[str, str], name: str = "fleet") -> str:
        """Pushes files of the folder of a source, and reconciles; the commit."""
        paths = {f"{name}/{path}": text for path, text in files.items()}
        sha = self.git.push_files(REPOSITORY, paths)
        await self.reconciler.commits_changed(REPOSITORY)
        await self.run_due()
        return sha

    async def pass_interval(self) -> None:
        """Lets the interval of all sources pass, and reconciles them."""
        await self.manifests.memory.clock.advance(timedelta(days=1).total_seconds())
        await self.run_due()

    async def run_due(self) -> None:
        """Runs due jobs until there are none."""
        memory = self.manifests.memory
        repositories = RepositoryOperations(memory.context)
        await repositories.update_followed_refs(REPOSITORY)
        for _ in range(_MAX_ROUNDS):
            async with memory.store.write() as tx:
                jobs = await tx[JobStore].claim([RECONCILE], "here", memory.clock.now(), 100)
            if not jobs:
                return
            for job in jobs:
                await self.reconciler.run(job)
        raise AssertionError("the sources never come to rest")

    async def status(self, name: str = "fleet") -> SourceStatus:
        """The status of a source."""
        return (await self.sources.get(ADMIN, None, name)).status

    async def result(self, name: str = "fleet") -> SourceResult:
        """The result of the last reconciliation of a source."""
        return (await self.status(name)).result

    async def problems(self, name: str = "fleet") -> list[str]:
        """The messages of the problems of a source."""
        return [problem.message for problem in (await self.status(name)).problems]

    async def settings(self, name: str = "fleet") -> Any:
        """The settings of a source."""
        return (await self.sources.get(ADMIN, None, name)).settings

    async def rows(self) -> list[ConfigurationSource]:
        """All sources."""
        return await self.manifests.memory.rows(ConfigurationSourceStore)

    @property
    def git(self) -> Any:
        """The Git cache."""
        return self.manifests.memory.manifests


async def source_world(role: BuiltInRole = BuiltInRole.ADMIN) -> SourceWorld:
    """Makes an installation with an empty repository, and a service account with a role."""
    manifests = manifest_world()
    memory = manifests.memory
    await memory.given(make_repository(REPOSITORY), ACCOUNT, bind(role.value, ACCOUNT))
    reconciler = SourceReconciler(memory.context, manifests.manifests)
    world = SourceWorld(manifests, manifests.operations[ConfigurationSources], reconciler)
    memory.manifests.push_files(REPOSITORY, {"fleet/readme.txt": "empty"})
    return world
