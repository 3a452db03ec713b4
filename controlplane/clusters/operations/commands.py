"""Adds commands for agents."""

from controlplane.clusters.model.commands import Command, CommandKind
from controlplane.clusters.ports import CommandStore
from controlplane.platform.context import Change
from core.identity import ClusterId, ServiceId
from core.json_object import JsonMapping


async def add_command(
    tx: Change,
    cluster_id: ClusterId,
    kind: CommandKind,
    payload: JsonMapping,
    service_id: ServiceId | None = None,
) -> None:
    """Adds a command that the agent of a cluster executes once."""
    id, now = tx.context.new_id(), tx.context.clock.now()
    await tx[CommandStore].add(Command(id, cluster_id, kind, now, service_id, payload=payload))
