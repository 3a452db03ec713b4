"""Settings of agents, and which of them a cluster has."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from controlplane.authorization import Actor, Resource, ResourceKind, Verb
from controlplane.authorization.actor import require_any
from controlplane.clusters.model.agent_settings import (
    GLOBAL,
    AgentSettings,
    AgentSize,
    EffectiveAgentSettings,
    most_specific,
)
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.model.selectors import Fleet, Selector
from controlplane.clusters.operations.clusters import check_tags
from controlplane.clusters.ports import AgentSettingsStore, ClusterGroupStore, CommandStore
from controlplane.platform.conflicts import name_conflict
from controlplane.platform.context import ContextOperations
from controlplane.platform.limits import check_length, check_range
from controlplane.platform.names import check_label, check_text
from controlplane.platform.parts import Columns, given_columns
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Invalid, NotFound
from core.identity import ClusterId

SETTINGS_ID = "00000000-0000-7000-8000-000000000002"
"""ID of the settings `global` as long as nobody has changed them."""
_MAX_VALUES_LENGTH = 64 * 1024
_MAX_PRIORITY = 1000


@dataclass(frozen=True, slots=True)
class AgentSettingsChange:
    """Changes to settings of agents. None leaves a field unchanged."""

    name: str | None = None
    """Unique name. Required on creation."""
    selector: Selector | None = None
    """Conditions on clusters. Replaces all conditions. Default: every cluster."""
    priority: int | None = None
    """Precedence: the settings with the highest priority win. At the same priority, settings with a
    selector win over those without, then the first by name. Default: 0. Limits: -1,000 to 1,000."""
    version: str | None = None
    """Version to which agents upgrade, such as `1.2.0`. Needs `image`. Default: agents keep their
    version."""
    image: str | None = None
    """Container image with this version."""
    size: AgentSize | None = None
    """Memory and CPU of agents that Helm installs. Default: `SMALL`."""
    agent_values: str | None = None
    """Helm values (YAML) for the agent chart. Limit: 64 KiB."""
    agent_values_templated: bool | None = None
    """True if the values are a Liquid template with the variable `cluster`."""

    def columns(self) -> Columns:
        """The validated fields. Invalid: a value is not allowed."""
        columns = given_columns(self)
        check_length(self.agent_values or "", "agentValues", _MAX_VALUES_LENGTH)
        check_range(self.priority or 0, "priority", -_MAX_PRIORITY, _MAX_PRIORITY)
        if self.name is not None:
            columns["name"] = check_label(self.name, "name")
        if self.selector is not None:
            columns["selector"] = self.selector.checked()
        for name, limit in (("version", 64), ("image", 1024)):
            if columns.get(name):
                columns[name] = check_text(columns[name], name, limit)
        return columns


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
        columns, now = change.columns(), self._context.clock.now()
        if "name" not in columns:
            raise Invalid("is required", field="name")
        async with self._context.change(actor, "createAgentSettings", _ADMINISTRATION) as tx:
            id = self._context.new_id()
            settings = _require_version_and_image(
                AgentSettings(id, inserted_at=now, updated_at=now, **columns)
            )
            if existing := await tx[AgentSettingsStore].by_name(settings.name):
                raise name_conflict(actor, existing, f"settings {settings.name!r} already exist")
            await tx[AgentSettingsStore].add(settings)
            tx.audit(settings.name, id)
        return settings

    async def update(self, actor: Actor, id: str, change: AgentSettingsChange) -> AgentSettings:
        columns, now = change.columns(), self._context.clock.now()
        async with self._context.change(actor, "updateAgentSettings", _ADMINISTRATION) as tx:
            before = _require_found(await tx[AgentSettingsStore].get(id))
            after = _require_version_and_image(replace(before, **columns, updated_at=now))
            await tx[AgentSettingsStore].put(after)
            tx.audit(after.name, id, changed=sorted(columns))
        return after

    async def update_of_installation(
        self, actor: Actor, change: AgentSettingsChange
    ) -> AgentSettings:
        """Changes the settings `global`; creates them before their first change."""
        columns, now = change.columns(), self._context.clock.now()
        async with self._context.change(actor, "updateDeploymentSettings", _ADMINISTRATION) as tx:
            after = replace(await self._of_installation(tx), **columns, updated_at=now)
            rows = tx[AgentSettingsStore]
            await (rows.put(after) if await rows.get(after.id) else rows.add(after))
            tx.audit(after.name, after.id, changed=sorted(columns))
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
            newest = await newest_upgrades(
                tx, [id for id, effective in effective_by_id.items() if effective.settings.version]
            )
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
        cluster.id: most_specific(s for s in all_settings if fleet.selects(cluster, s.selector))
        for cluster in clusters
    }
    return {id: effective for id, effective in effective_by_id.items() if effective is not None}


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
    require_any(actor, Verb.WRITE, Resource.whole(ResourceKind.CLUSTER))


def _require_found(settings: AgentSettings | None) -> AgentSettings:
    if settings is None:
        raise NotFound(kind=ResourceKind.INSTALLATION)
    return settings


def _without_secret_values(actor: Actor, settings: AgentSettings) -> AgentSettings:
    return settings if may_read_values(actor) else replace(settings, agent_values="")


def _upgrade_problem(settings: AgentSettings, newest: Command | None) -> str:
    """Why the agent did not upgrade to the version of its settings."""
    if newest is None or newest.payload != settings.upgrade:
        return ""
    return newest.message if newest.state in (CommandState.FAILED, CommandState.REFUSED) else ""


def _require_version_and_image(settings: AgentSettings) -> AgentSettings:
    if bool(settings.version) != bool(settings.image):
        missing = "image" if settings.version else "version"
        raise Invalid("is required: version and image belong together", field=missing)
    return settings
