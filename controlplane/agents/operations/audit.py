"""Audit log entries for actions of agents."""

from datetime import datetime

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command, CommandState
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict


def connected_entry(cluster: Cluster, at: datetime) -> AuditEntry:
    """Entry for an agent that began its Sync call."""
    detail = {"version": cluster.agent_version, "mode": cluster.mode.value}
    target = f"instance {cluster.agent_instance}"
    return _agent_entry(cluster, at, "connect", target, cluster.id, AuditVerdict.ALLOWED, detail)


def command_entry(
    cluster: Cluster, command: Command, state: CommandState, message: str, at: datetime
) -> AuditEntry:
    """Entry for an agent's answer to a command: succeeded, failed or refused."""
    verdict = AuditVerdict.REFUSED if state is CommandState.REFUSED else AuditVerdict.ALLOWED
    target = command.service_id or command.id
    detail = {"result": state.value, "message": message[:1000], "command": command.id}
    return _agent_entry(cluster, at, command.kind.value, target, target, verdict, detail)


def refused_bundle_entry(cluster: Cluster, digest: str, at: datetime) -> AuditEntry:
    """Entry for an agent that requested a bundle of another cluster's service."""
    return _agent_entry(cluster, at, "fetch", digest, digest, AuditVerdict.REFUSED, {})


def _agent_entry(
    cluster: Cluster,
    at: datetime,
    action: str,
    target: str,
    target_id: str,
    verdict: AuditVerdict,
    detail: dict[str, str | None],
) -> AuditEntry:
    return AuditEntry(
        at=at,
        actor=f"agent of {cluster.handle}",
        actor_id=cluster.id,
        action=f"agent.{action}",
        verdict=verdict,
        target=target[:320],
        target_id=target_id,
        cluster_id=cluster.id,
        project_id=cluster.project_id,
        detail=detail,
    )
