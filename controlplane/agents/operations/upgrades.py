"""Upgrades of agents to the version of their settings, a few at a time."""

from collections.abc import Iterable, Mapping, Sequence

from controlplane.authorization import SYSTEM
from controlplane.clusters.model.agent_settings import MAX_UPGRADING, AgentSettings
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command, CommandKind
from controlplane.clusters.operations.agent_settings import effective_settings, newest_upgrades
from controlplane.clusters.operations.freezes import frozen_clusters
from controlplane.clusters.ports import AgentSettingsStore, ClusterStore, CommandStore
from controlplane.platform.context import CLUSTER, DESIRED_STATE, Change, ContextOperations
from controlplane.platform.ports import Transaction


class AgentUpgrades(ContextOperations):
    """Asks agents with another version than that of their settings to upgrade.

    At most `MAX_UPGRADING` agents of the same settings upgrade at the same time. An agent that
    failed counts as one of them and is not asked again, so a bad version stops after that many.
    """

    async def upgrade_outdated(self) -> None:
        async with self._context.store.read() as tx:
            if not await self._clusters_to_upgrade(tx, await tx[AgentSettingsStore].all()):
                return
        async with self._context.change(SYSTEM, "upgradeAgents") as tx:
            tx.authorized_by("settings of agents")
            settings_ids = [row.id for row in await tx[AgentSettingsStore].all()]
            # Locks the settings, so that two replicas do not ask the same agent.
            due = await self._clusters_to_upgrade(
                tx, await tx[AgentSettingsStore].lock(settings_ids)
            )
            for settings, clusters in due:
                await add_upgrades(tx, clusters, settings.spec.upgrade)
                tx.audit(
                    settings.name,
                    settings.id,
                    **settings.spec.upgrade,
                    clusters=[c.handle for c in clusters],
                )

    async def _clusters_to_upgrade(
        self, tx: Transaction, all_settings: Iterable[AgentSettings]
    ) -> list[tuple[AgentSettings, Sequence[Cluster]]]:
        """Returns which agents to ask now, by their settings."""
        versioned = {settings.id: settings for settings in all_settings if settings.spec.version}
        if not versioned:
            return []
        now, frozen = self._context.clock.now(), await frozen_clusters(tx)
        clusters = [
            cluster
            for cluster in await tx[ClusterStore].not_ending()
            if not (cluster.skips_agent_upgrades or cluster.is_silent(now) or cluster.id in frozen)
        ]
        effective = await effective_settings(tx, clusters)
        outdated: dict[str, list[Cluster]] = {}
        for cluster in sorted(clusters, key=lambda cluster: cluster.handle):
            own_settings = effective.get(cluster.id)
            if own_settings and own_settings.settings.id in versioned:
                if cluster.agent_version != own_settings.settings.spec.version:
                    outdated.setdefault(own_settings.settings.id, []).append(cluster)
        newest = await newest_upgrades(tx, [c.id for group in outdated.values() for c in group])
        due = [
            (versioned[id], _next_batch(versioned[id], group, newest))
            for id, group in outdated.items()
        ]
        return [(settings, group) for settings, group in due if group]


def _next_batch(
    settings: AgentSettings, outdated: Sequence[Cluster], newest: Mapping[str, Command]
) -> Sequence[Cluster]:
    requested = {id for id, command in newest.items() if command.payload == settings.spec.upgrade}
    capacity = MAX_UPGRADING - sum(cluster.id in requested for cluster in outdated)
    return [cluster for cluster in outdated if cluster.id not in requested][: max(0, capacity)]


async def add_upgrades(
    tx: Change, clusters: Sequence[Cluster], agent: Mapping[str, object]
) -> None:
    """Adds a command for each agent."""
    now, new_id = tx.context.clock.now(), tx.context.new_id
    await tx[CommandStore].add_each(
        Command(new_id(), cluster.id, CommandKind.UPGRADE, now, payload=agent)
        for cluster in clusters
    )
    for cluster in clusters:
        tx.publish(DESIRED_STATE, f"{cluster.id}/upgrade")
        tx.publish(CLUSTER, cluster.id)
