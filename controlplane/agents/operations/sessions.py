"""Records agents that connect; agents that connect at the same time share one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from controlplane.agents.operations import audit
from controlplane.agents.operations.desired_state import (
    DesiredState,
    DesiredStateQuery,
    DesiredStateReader,
)
from controlplane.audit.ports import AuditLog
from controlplane.clusters.model.cluster import AgentMode, Cluster, Distribution
from controlplane.clusters.ports import ClusterStore
from controlplane.delivery.operations.render_reconciler import mark_for_render
from controlplane.platform.context import AGENT_CHANGED, CLUSTER, OperationContext
from controlplane.platform.parts import Columns
from core.errors import NotFound, TowlineError
from core.identity import ClusterId
from core.runtime.batcher import Batcher
from core.runtime.tasks import run_to_completion
from core.spec.facts import ClusterFacts


@dataclass(frozen=True, slots=True)
class AgentHello:
    """The agent's description of itself and its cluster at connect."""

    instance: str
    agent_version: str
    facts: ClusterFacts
    mode: AgentMode = AgentMode.MANAGED
    sealing_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class AgentConnected:
    """The desired state for an agent that connected, and its cluster's updated row.

    `desired_state` contains all services of the cluster.
    """

    cluster: Cluster
    desired_state: DesiredState


class ConnectionRecorder:
    """Records that agents connected, and reads their desired state."""

    def __init__(self, context: OperationContext, reader: DesiredStateReader) -> None:
        self._context = context
        self._desired_state = reader
        # Runs to its end even if the agent disconnects: others in the batch wait for the commit.
        self._batches: Batcher[tuple[ClusterId, AgentHello], AgentConnected] = Batcher(
            lambda agents: run_to_completion(self._commit_batch(agents))
        )

    async def record(self, cluster_id: ClusterId, agent: AgentHello) -> AgentConnected:
        """Records that an agent connected. NotFound: its cluster was deleted. Unavailable."""
        return await self._batches.submit((cluster_id, agent))

    async def _commit_batch(
        self, agents: Sequence[tuple[ClusterId, AgentHello]]
    ) -> list[AgentConnected | TowlineError]:
        clusters = await self._update_clusters(agents)
        states = iter(
            await self._desired_state.read(
                [DesiredStateQuery(cluster.id) for cluster in clusters if cluster is not None]
            )
        )
        return [
            AgentConnected(cluster, next(states))
            if cluster is not None
            else NotFound("this cluster was deleted")
            for cluster in clusters
        ]

    async def _update_clusters(
        self, agents: Sequence[tuple[ClusterId, AgentHello]]
    ) -> list[Cluster | None]:
        """Updates the rows of the agents' clusters and returns them; None for a deleted cluster."""
        now = self._context.clock.now()
        clusters: list[Cluster | None] = []
        changes: dict[str, Columns] = {}
        async with self._context.store.write() as tx:
            locked = await tx[ClusterStore].lock({id for id, _ in agents})
            before: dict[str, Cluster] = {cluster.id: cluster for cluster in locked}
            after = dict(before)
            for id, agent in agents:
                if id in after:
                    changes[id] = _agent_columns(agent, now)
                    after[id] = replace(after[id], **changes[id])
                    await tx[AuditLog].append([audit.connected_entry(after[id], now)])
                clusters.append(after.get(id))
            await tx[ClusterStore].change_each(changes)
            wakes = await mark_for_render(tx, [(before[id], after[id]) for id in changes])
        wakes |= {(CLUSTER, id) for id in changes}
        reconnected = (
            id for id in changes if before[id].agent_instance != after[id].agent_instance
        )
        for topic, key in (*wakes, *((AGENT_CHANGED, id) for id in reconnected)):
            self._context.bus.publish(topic, key)
        return clusters


def facts_columns(facts: ClusterFacts) -> Columns:
    """The columns of a cluster's row that contain its facts; an unknown distribution is None."""
    distribution = facts.distribution.upper()
    return {
        "kubernetes_version": facts.kubernetes_version,
        "distribution": Distribution(distribution) if distribution in set(Distribution) else None,
        "nodes": facts.nodes,
        "facts": facts,
        "agent_token_expires_at": facts.token_expires_at,
    }


def _agent_columns(agent: AgentHello, now: datetime) -> Columns:
    return {
        "agent_version": agent.agent_version,
        "agent_instance": agent.instance,
        "mode": agent.mode,
        "sealing_key": agent.sealing_key,
        "pinged_at": now,
        **facts_columns(agent.facts),
    }
