"""Settings of agents, and which of them a cluster has."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from controlplane.authorization import Actor, Resource, ResourceKind, Verb
from controlplane.authorization.actor import permission_error, require_any
from controlplane.clusters.model.agent_settings import (
    GLOBAL,
    AgentSettings,
    AgentSpec,
    EffectiveAgentSettings,
    most_specific,
)
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.model.selectors import Fleet
from controlplane.clusters.operations.clusters import check_tags
from controlplane.clusters.ports import AgentSettingsStore, ClusterGroupStore, CommandStore
from controlplane.platform.conflicts import name_conflict
from controlplane.platform.context import ContextOperations
from controlplane.platform.names import check_label
from controlplane.platform.parts import Given, given_part
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Forbidden, Invalid, NotFound
from core.identity import ClusterId

SETTINGS_ID = "00000000-0000-7000-8000-000000000002"
"""ID of the settings `global` as long as nobody has changed them."""


@dataclass(frozen=True, slots=True)
class AgentSettingsChange:
    """Changes to settings of agents. None leaves a field unchanged."""

    name: str | None = None
    """Unique name. Required on creation."""
    spec: Given[AgentSpec] = given_part(AgentSpec)
    """Other fields to change."""

    @property
    def fields(self) -> list[str]:
        """Returns the names of the fields that change."""
        names = {*self.spec.columns, *(["name"] if self.name is not None else [])}
        return sorted(names)

    def applied(self, settings: AgentSettings) -> AgentSettings:
        """Returns the changed settings. Invalid: a value is not allowed."""
        name = settings.name if self.name is None else check_label(self.name, "name")
        return replace(settings, name=name, spec=self.spec.applied(settings.spec).checked())


@retry_operations
class AgentSettingsOperations(ContextOperations):
    """Operations on settings of agents. Only administrators of the installation change them.

    Helm values can contain secrets: users who may register clusters read them.
    """

    async def page(self, actor: Actor, query: PageQuery) -> Page[AgentSettings]:
        _require_reader(actor)
        async with self._context.store.read() as tx:
            return await tx[AgentSettingsStore].page(query)

    async def get(self, actor: Actor, name: str) -> AgentSettings:
        _require_reader(actor)
        async with self._context.store.read() as tx:
            return _require_found(await tx[AgentSettingsStore].by_name(name))

    async def of_installation(self, actor: Actor) -> AgentSettings:
        """The settings `global`, with their defaults if nobody has changed them."""
        _require_reader(actor)
        async with self._context.store.read() as tx:
            return await self._of_installation(tx)

    async def create(self, actor: Actor, change: AgentSettingsChange) -> AgentSettings:
        """Creates settings. Conflict: the name is already used."""
        id, now = self._context.new_id(), self._context.clock.now()
        async with self._context.change(actor, "createAgentSettings", _ADMINISTRATION) as tx:
            if change.name is None:
                raise Invalid("is required", field="name")
            settings = change.applied(AgentSettings(id, change.name, now, now))
            if existing := await tx[AgentSettingsStore].by_name(settings.name):
                raise name_conflict(actor, existing, f"settings {settings.name!r} already exist")
            await _check_groups(tx, settings)
            await tx[AgentSettingsStore].add(settings)
            tx.audit(settings.name, id)
        return settings

    async def update(self, actor: Actor, id: str, change: AgentSettingsChange) -> AgentSettings:
        async with self._context.change(actor, "updateAgentSettings", _ADMINISTRATION) as tx:
            before = _require_found(await tx[AgentSettingsStore].get(id))
            after = replace(change.applied(before), updated_at=self._context.clock.now())
            await _check_groups(tx, after)
            await tx[AgentSettingsStore].put(after)
            tx.audit(after.name, id, changed=change.fields)
        return after

    async def update_of_installation(
        self, actor: Actor, change: AgentSettingsChange
    ) -> AgentSettings:
        """Changes the settings `global`; creates them before their first change."""
        async with self._context.change(actor, "updateDeploymentSettings", _ADMINISTRATION) as tx:
            before = await self._of_installation(tx)
            after = replace(change.applied(before), updated_at=self._context.clock.now())
            rows = tx[AgentSettingsStore]
            await (rows.put(after) if await rows.get(after.id) else rows.add(after))
            tx.audit(after.name, after.id, changed=change.fields)
        return after

    async def delete(self, actor: Actor, id: str) -> AgentSettings:
        async with self._context.change(actor, "deleteAgentSettings", _ADMINISTRATION) as tx:
            settings = _require_found(await tx[AgentSettingsStore].get(id))
            await tx[AgentSettingsStore].remove(id)
            tx.audit(settings.name, id)
        return settings

    async def of_clusters(
        self, actor: Actor, clusters: Collection[Cluster]
    ) -> Mapping[str, EffectiveAgentSettings]:
        """The settings of clusters that the actor may see, by ID of the cluster; without the Helm
        values unless the actor may read them.
        """
        async with self._context.store.read() as tx:
            effective_by_id = await effective_settings(tx, clusters)
            specs = {id: found.settings.spec for id, found in effective_by_id.items()}
            newest = await newest_upgrades(tx, [id for id, spec in specs.items() if spec.version])
        return {
            id: replace(
                effective,
                settings=_without_secret_values(actor, effective.settings),
                problem=_upgrade_problem(effective.settings, newest.get(id)),
            )
            for id, effective in effective_by_id.items()
        }

    async def of_new_cluster(
        self, actor: Actor, handle: str, tags: Mapping[str, str], project_id: str
    ) -> EffectiveAgentSettings | None:
        """The settings that a cluster with these tags would have."""
        _require_reader(actor)
        now = self._context.clock.now()
        new = Cluster(
            ClusterId(""), handle, handle, now, now, check_tags(tags), project_id=project_id
        )
        async with self._context.store.read() as tx:
            return (await effective_settings(tx, [new])).get(new.id)

    async def _of_installation(self, tx: Transaction) -> AgentSettings:
        now = self._context.clock.now()
        stored = await tx[AgentSettingsStore].by_name(GLOBAL)
        return stored or AgentSettings(SETTINGS_ID, GLOBAL, now, now)


async def effective_settings(
    tx: Transaction, clusters: Collection[Cluster]
) -> dict[str, EffectiveAgentSettings]:
    """The settings of each cluster, by its ID; a cluster without any is left out."""
    all_settings = await tx[AgentSettingsStore].all()
    fleet = Fleet(groups=tuple(await tx[ClusterGroupStore].all())) if all_settings else Fleet()
    effective_by_id = {
        cluster.id: most_specific(
            s for s in all_settings if fleet.selects(cluster, s.spec.selector)
        )
        for cluster in clusters
    }
    return {id: effective for id, effective in effective_by_id.items() if effective is not None}


async def _check_groups(tx: Transaction, settings: AgentSettings) -> None:
    """Invalid: the selector names a cluster group that does not exist.

    Such settings would leave all clusters without theirs.
    """
    groups = await tx[ClusterGroupStore].all()
    Fleet(groups=tuple(groups)).matching(settings.spec.selector, None)


async def newest_upgrades(tx: Transaction, cluster_ids: Collection[str]) -> dict[str, Command]:
    """The newest upgrade command of each cluster, by its ID."""
    if not cluster_ids:
        return {}
    upgrades = await tx[CommandStore].of_kind(cluster_ids, CommandKind.UPGRADE)
    return {c.cluster_id: c for c in sorted(upgrades, key=lambda command: command.id)}


def may_read_values(actor: Actor) -> bool:
    """True if the actor may register clusters everywhere, and so read all Helm values."""
    return actor.may(Verb.WRITE, Resource.whole(ResourceKind.CLUSTER))


_ADMINISTRATION = Verb.ADMINISTER, Resource.whole(ResourceKind.INSTALLATION)


def _require_reader(actor: Actor) -> None:
    """Forbidden: the actor may register clusters in no project.

    A role in a cluster changes that cluster, and registers none.
    """
    require_any(actor, Verb.WRITE, ResourceKind.CLUSTER)
    for scopes in actor.policy.visible(ResourceKind.CLUSTER, Verb.WRITE):
        if not any(scope.startswith(f"{ResourceKind.PROJECT}:") for scope in scopes):
            clusters = Resource.whole(ResourceKind.CLUSTER)
            raise Forbidden(permission_error(actor, Verb.WRITE, clusters))


def _require_found(settings: AgentSettings | None) -> AgentSettings:
    if settings is None:
        raise NotFound(kind=ResourceKind.INSTALLATION)
    return settings


def _without_secret_values(actor: Actor, settings: AgentSettings) -> AgentSettings:
    if may_read_values(actor):
        return settings
    return replace(settings, spec=replace(settings.spec, agent_values=""))


def _upgrade_problem(settings: AgentSettings, newest: Command | None) -> str:
    """Why the agent did not upgrade to the version of its settings."""
    if newest is None or newest.payload != settings.spec.upgrade:
        return ""
    return newest.message if newest.state in (CommandState.FAILED, CommandState.REFUSED) else ""
