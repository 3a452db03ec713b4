"""Records agents that connect; agents that connect at the same time share one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from controlplane.domain.clusters import Cluster, Distribution
from controlplane.domain.reports import FactsReport, Greeting
from controlplane.usecases import audit_agents
from controlplane.usecases.delivery import render_anew
from controlplane.usecases.deps import CLUSTER, LINKED, Deps
from controlplane.usecases.wanted import Asked, Wanted, Wants
from fleet.errors import NotFound, TowlineError
from fleet.identity import ClusterId
from fleet.runtime.batches import Batches
from fleet.runtime.tasks import finished


@dataclass(frozen=True, slots=True)
class Connected:
    """The desired state for an agent that connected, and its cluster's updated row.

    `wanted` contains all services of the cluster.
    """

    cluster: Cluster
    wanted: Wanted


class Connecting:
    """Records that agents connected, and reads their desired state."""

    def __init__(self, deps: Deps, wants: Wants) -> None:
        self._deps = deps
        self._wants = wants
        # Runs to its end even if the agent disconnects: others in the batch wait for the commit.
        self._batches: Batches[tuple[ClusterId, Greeting], Connected] = Batches(
            lambda coming: finished(self._take_in(coming))
        )

    async def connected(self, cluster_id: ClusterId, agent: Greeting) -> Connected:
        """Records that an agent connected. NotFound: its cluster was deleted. Unavailable."""
        return await self._batches.ask((cluster_id, agent))

    async def _take_in(
        self, coming: Sequence[tuple[ClusterId, Greeting]]
    ) -> list[Connected | TowlineError]:
        noted = await self._note(coming)
        wanted = iter(
            await self._wants.read([Asked(cluster.id) for cluster in noted if cluster is not None])
        )
        return [
            Connected(cluster, next(wanted))
            if cluster is not None
            else NotFound("this cluster was deleted")
            for cluster in noted
        ]

    async def _note(self, coming: Sequence[tuple[ClusterId, Greeting]]) -> list[Cluster | None]:
        """Updates the rows of the agents' clusters and returns them; None for a deleted cluster."""
        now = self._deps.clock.now()
        noted: list[Cluster | None] = []
        changes: dict[str, dict[str, Any]] = {}
        async with self._deps.store.write() as tx:
            found = await tx.clusters.lock({id for id, _ in coming})
            before: dict[str, Cluster] = {cluster.id: cluster for cluster in found}
            after = dict(before)
            for id, agent in coming:
                if id in after:
                    changes[id] = _columns(agent, now)
                    after[id] = replace(after[id], **changes[id])
                    await tx.audit.append([audit_agents.connected(after[id], now)])
                noted.append(after.get(id))
            await tx.clusters.change_each(changes)
            wakes = await render_anew(tx, [(before[id], after[id]) for id in changes])
        wakes |= {(CLUSTER, id) for id in changes}
        moved = (id for id in changes if before[id].agent_instance != after[id].agent_instance)
        for topic, key in (*wakes, *((LINKED, id) for id in moved)):
            self._deps.bus.publish(topic, key)
        return noted


def columns_of(about: FactsReport) -> dict[str, Any]:
    """The columns of a cluster's row that contain its facts."""
    return {
        "kubernetes_version": about.kubernetes_version,
        "distribution": Distribution(about.distribution) if about.distribution else None,
        "nodes": about.nodes,
        "facts": about.facts,
    }


def _columns(agent: Greeting, now: datetime) -> dict[str, Any]:
    return {
        "agent_version": agent.agent_version,
        "agent_instance": agent.instance,
        "mode": agent.mode,
        "sealing_key": agent.sealing_key,
        "pinged_at": now,
        **columns_of(agent.about),
    }
