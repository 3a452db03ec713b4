"""Routes notifications to sinks, and detects states that no event reports."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from controlplane.access.ports import TokenStore
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.notifications.model.commit_status import commit_key
from controlplane.notifications.model.notification import (
    UNHEALTHY_STAGES,
    Delivery,
    NotificationKey,
    Router,
    Sink,
)
from controlplane.notifications.ports import (
    DeliveryStore,
    NotificationKeyStore,
    NotificationStore,
    ResourceLabels,
    RouterStore,
    SinkStore,
)
from controlplane.notifications.sinks import BY_KIND
from controlplane.pipelines.engine import codec
from controlplane.pipelines.model.pipeline import StageId
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.pipelines.model.state import ReleaseId
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import ContextOperations
from controlplane.platform.notification import (
    Notification,
    NotificationKind,
    Severity,
    notification,
)
from controlplane.platform.ports import Transaction
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Invalid
from core.identity import ClusterId, ServiceId, TokenKind

OFFLINE_AFTER = timedelta(seconds=90)
EXPIRES_SOON = timedelta(days=7)
RETENTION = timedelta(days=90)
_AT_ONCE = 500
_CLUSTER, _REPOSITORY = "cluster:", "repository:"
_TOKEN, _AGENT_TOKEN = "token:", "agent-token:"
_LONG_LIVED: Final = (TokenKind.USER, TokenKind.SERVICE_ACCOUNT, TokenKind.AGENT)
_SUBJECTS = {
    NotificationKind.SERVICE_UPDATE: "was rendered",
    NotificationKind.SERVICE_FAILED: "has failed",
    NotificationKind.SERVICE_RECOVERED: "is healthy again",
    NotificationKind.SERVICE_DRIFTED: "was changed outside Git",
}


@dataclass(frozen=True, slots=True)
class _RelatedResources:
    """Services of notifications (also deleted ones) and their clusters, by id.

    `previous_stages`: the previous stage of the service, by id of each notification about health.
    `labels`: those of services, pipelines and clusters, by id.
    """

    services: Mapping[str, Service]
    clusters: Mapping[str, Cluster]
    previous_stages: Mapping[int, LedgerStage | None]
    labels: Mapping[str, Mapping[str, str]]

    def labels_of(self, pending: Notification) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Returns the labels of a notification's resource, and the tags of its cluster."""
        cluster = self.clusters.get(pending.cluster_id)
        return self.labels.get(_labelled_id(pending), {}), cluster.tags if cluster else {}


class NotificationRouting(ContextOperations):
    """Turns new notifications into deliveries."""

    async def route(self) -> int:
        """Routes a batch of new notifications; returns its size."""
        async with self._context.store.read() as tx:
            if not await tx[NotificationStore].waiting(1):
                return 0
        async with self._context.store.write() as tx:
            waiting = await tx[NotificationStore].waiting(_AT_ONCE)
            routers, sinks = await tx[RouterStore].all(), await tx[SinkStore].all()
            related = await _load_related(tx, waiting)
            routed: list[Notification] = []
            deliveries: list[Delivery] = []
            for pending in waiting:
                completed, commits = await _complete(tx, pending, related)
                if completed is not None:
                    routed.append(completed)
                    matching = [
                        r for r in routers if r.matches(completed, *related.labels_of(completed))
                    ]
                    receivers = _receiving_sinks(commits, matching, sinks)
                    deliveries += self._new_deliveries(_id_of(pending), receivers)
            await tx[NotificationStore].mark_routed(routed, self._context.clock.now())
            await tx[NotificationStore].drop(
                {_id_of(pending) for pending in waiting} - set(map(_id_of, routed))
            )
            await tx[DeliveryStore].add_each(deliveries)
        return len(waiting)

    async def forget(self) -> None:
        """Deletes notifications that are older than 90 days."""
        cutoff = self._context.clock.now() - RETENTION
        async with self._context.store.write() as tx:
            await tx[NotificationStore].forget(cutoff)
            for key in await tx[NotificationKeyStore].past("at", cutoff):
                if key.id.startswith(_TOKEN):
                    await tx[NotificationKeyStore].remove(key.id)

    def _new_deliveries(self, id: int, sinks: Iterable[Sink]) -> list[Delivery]:
        """One delivery of a notification to each sink."""
        now, new_id = self._context.clock.now(), self._context.new_id
        return [Delivery(new_id(), id, sink.id, sink.project_id, now, now) for sink in sinks]


class StateWatcher(ContextOperations):
    """Detects offline clusters, broken repositories and expiring tokens, and reports each once."""

    async def check_clusters(self) -> None:
        """Reports clusters that went offline or came back."""
        now, kind = self._context.clock.now(), NotificationKind.CLUSTER_AWAY
        async with self._context.store.read() as tx:
            silent = await tx[ClusterStore].past("pinged_at", now - OFFLINE_AFTER)
            notified = await _notified_ids(tx, _CLUSTER)
        notices: dict[str, Notification] = {}
        for cluster in silent:
            if cluster.deleted_at is None:
                text = f"Its agent was last seen at {cluster.pinged_at:%F %T} UTC."
                subject = f"cluster {cluster.handle} is offline"
                notices[cluster.id] = _about_cluster(cluster, kind, now, subject, text)
        for id in await self._report_new(_CLUSTER, notices, notified):
            async with self._context.store.write() as tx:
                await tx[NotificationKeyStore].remove(_CLUSTER + id)
                cluster = await tx[ClusterStore].get(id)
                if cluster is not None:
                    subject = f"cluster {cluster.handle} is online again"
                    back = _about_cluster(cluster, NotificationKind.CLUSTER_BACK, now, subject)
                    await tx[NotificationStore].append([back])

    async def check_repositories(self) -> None:
        """Reports repositories that fail to fetch, and those that recovered."""
        now, kind = self._context.clock.now(), NotificationKind.REPOSITORY_BROKEN
        async with self._context.store.read() as tx:
            failed = await tx[RepositoryStore].failed()
            notified = await _notified_ids(tx, _REPOSITORY)
        notices: dict[str, Notification] = {}
        for repository in failed:
            subject = f"repository {repository.url} cannot be fetched"
            text, project = repository.error or "", repository.project_id
            notices[repository.id] = notification(kind, now, subject, text, project_id=project)
        for id in await self._report_new(_REPOSITORY, notices, notified):
            async with self._context.store.write() as tx:
                await tx[NotificationKeyStore].remove(_REPOSITORY + id)
                repository = await tx[RepositoryStore].get(id)
                if repository is not None:
                    kind, project = NotificationKind.REPOSITORY_MENDED, repository.project_id
                    subject = f"repository {repository.url} is fetched again"
                    mended = notification(kind, now, subject, project_id=project)
                    await tx[NotificationStore].append([mended])

    async def check_tokens(self) -> None:
        """Reports tokens that expire within 7 days."""
        now, kind = self._context.clock.now(), NotificationKind.TOKEN_EXPIRING
        async with self._context.store.read() as tx:
            expiring = await tx[TokenStore].past("expires_at", now + EXPIRES_SOON)
            notified = await _notified_ids(tx, _TOKEN)
        notices: dict[str, Notification] = {}
        for token in expiring:
            is_valid = token.expires_at and token.expires_at > now and token.revoked_at is None
            if is_valid and token.kind in _LONG_LIVED and token.parent_id is None:
                text = (
                    f"It expires at {token.expires_at:%F %T} UTC: create a new token before then."
                )
                subject = f"token {token.name} expires soon"
                notices[token.id] = notification(kind, now, subject, text)
        await self._report_new(_TOKEN, notices, notified)

    async def check_agent_tokens(self) -> None:
        """Reports agents whose token for the Kubernetes API expires within 7 days."""
        now, kind = self._context.clock.now(), NotificationKind.TOKEN_EXPIRING
        async with self._context.store.read() as tx:
            expiring = await tx[ClusterStore].past("agent_token_expires_at", now + EXPIRES_SOON)
            notified = await _notified_ids(tx, _AGENT_TOKEN)
        notices: dict[str, Notification] = {}
        for cluster in expiring:
            if cluster.deleted_at is None:
                text = (
                    f"It expires at {cluster.agent_token_expires_at:%F %T} UTC: renew it with "
                    f"towline clusters join {cluster.handle} --service-account."
                )
                subject = f"the token of the agent of cluster {cluster.handle} expires soon"
                notices[cluster.id] = _about_cluster(cluster, kind, now, subject, text)
        renewed = await self._report_new(_AGENT_TOKEN, notices, notified)
        async with self._context.store.write() as tx:
            for id in renewed:
                await tx[NotificationKeyStore].remove(_AGENT_TOKEN + id)

    async def _report_new(
        self, prefix: str, notices: Mapping[str, Notification], notified: set[str]
    ) -> set[str]:
        """Reports states that were not notified before, by the ids of their resources.

        Returns the ids of those that were notified, and ended.
        """
        for id, notice in notices.items():
            if id not in notified:
                # Conflict: another replica already reported it.
                with suppress(Conflict):
                    async with self._context.store.write() as tx:
                        await tx[NotificationKeyStore].add(NotificationKey(prefix + id, notice.at))
                        await tx[NotificationStore].append([notice])
        return notified - notices.keys()


async def _notified_ids(tx: Transaction, prefix: str) -> set[str]:
    """Returns the ids of resources whose state was notified, by the prefix of their keys."""
    keys = await tx[NotificationKeyStore].all()
    return {key.id.removeprefix(prefix) for key in keys if key.id.startswith(prefix)}


def _about_cluster(
    cluster: Cluster, kind: NotificationKind, at: datetime, subject: str, text: str = ""
) -> Notification:
    location = {"cluster_id": cluster.id, "project_id": cluster.project_id}
    return notification(kind, at, subject, text, **location)


async def _load_related(tx: Transaction, waiting: Sequence[Notification]) -> _RelatedResources:
    ids = {pending.service_id for pending in waiting if pending.service_id}
    services = await tx[ServiceStore].by_ids(ids, deleted=True)
    cluster_ids = {service.cluster_id for service in services}
    cluster_ids |= {ClusterId(pending.cluster_id) for pending in waiting if pending.cluster_id}
    clusters = await tx[ClusterStore].by_ids(cluster_ids)
    healthy = {
        _id_of(pending) for pending in waiting if pending.kind is NotificationKind.SERVICE_RECOVERED
    }
    previous_stages = await tx[NotificationStore].previous_stages(healthy)
    return _RelatedResources(
        {service.id: service for service in services},
        {cluster.id: cluster for cluster in clusters},
        previous_stages,
        await tx[ResourceLabels].of({_labelled_id(pending) for pending in waiting}),
    )


def _labelled_id(pending: Notification) -> str:
    """Returns the id of the resource whose labels routers compare; may be empty."""
    return pending.service_id or pending.pipeline_id or pending.cluster_id


async def _complete(
    tx: Transaction, pending: Notification, related: _RelatedResources
) -> tuple[Notification | None, Mapping[str, str]]:
    """The notification with names, and its commits by repository. None: it must not be sent."""
    if pending.service_id:
        service = related.services.get(pending.service_id)
        if service is None:
            return None, {}
        commits = {service.repository_id or "": pending.detail.get("sha", "")}
        return _complete_for_service(pending, service, related), commits
    if pending.pipeline_id:
        pipeline = await tx[PipelineStore].peek(pending.pipeline_id)
        if pipeline is None:
            return None, {}
        return await _complete_for_pipeline(tx, pending, pipeline)
    return pending, {}


async def _complete_for_pipeline(
    tx: Transaction, pending: Notification, pipeline: PipelineRecord
) -> tuple[Notification, Mapping[str, str]]:
    """The notification with the stage's name, and the commits of its release."""
    shas, environment = _release_commits(pipeline, pending.detail)
    services = await tx[ServiceStore].by_ids(set(shas))
    commits = {str(s.repository_id): shas[s.id] for s in services if s.repository_id}
    commit_details = {commit_key(id): sha for id, sha in commits.items()}
    location = {"pipeline": pipeline.name, "environment": environment}
    subject = f"pipeline {pipeline.name}: {pending.subject}"[:320]
    detail = {**pending.detail, **location, **commit_details}
    completed = replace(pending, subject=subject, project_id=pipeline.project_id, detail=detail)
    return completed, commits


def _release_commits(
    pipeline: PipelineRecord, detail: Mapping[str, str]
) -> tuple[Mapping[ServiceId, str], str]:
    """The commits of a release, and the name of its stage or of the stage after its gate."""
    try:
        spec = codec.pipeline_from_json(pipeline.spec)
        releases = codec.state_from_json(pipeline.state).releases
    except Invalid:
        # A newer version wrote this row. It must not block all other notifications.
        return {}, ""
    release = releases.get(ReleaseId(detail.get("release", "")))
    place = detail.get("place", "")
    stage_of_gate = next((stage for stage, gate in spec.all_gates if gate.id == place), None)
    stage = stage_of_gate or spec.stage.get(StageId(place))
    return release.commits if release else {}, stage.name if stage else ""


def _complete_for_service(
    pending: Notification, service: Service, related: _RelatedResources
) -> Notification:
    cluster = related.clusters.get(service.cluster_id)
    handle = cluster.handle if cluster else service.cluster_id
    kind, predicate = pending.kind, _SUBJECTS[pending.kind]
    if (
        kind is NotificationKind.SERVICE_RECOVERED
        and related.previous_stages.get(_id_of(pending)) not in UNHEALTHY_STAGES
    ):
        kind, predicate = NotificationKind.SERVICE_UPDATE, "is healthy"
    severity = Severity.INFO if kind is NotificationKind.SERVICE_UPDATE else pending.severity
    return replace(
        pending,
        kind=kind,
        severity=severity,
        subject=f"{service.name} in {handle} {predicate}"[:320],
        project_id=service.project_id,
        detail={**pending.detail, "cluster": handle, "service": service.name},
    )


def _receiving_sinks(
    commits: Mapping[str, str], routers: Iterable[Router], sinks: Sequence[Sink]
) -> list[Sink]:
    """Returns the sinks that get the notification, each once, sorted by id."""
    ids = {id for router in routers for id in router.rule.sinks}
    of_commits = (sink for sink in sinks if BY_KIND[sink.type].of_commits)
    ids |= {sink.id for sink in of_commits if commits.get(sink.repository_id)}
    return sorted((sink for sink in sinks if sink.id in ids), key=lambda sink: sink.id)


def _id_of(pending: Notification) -> int:
    assert pending.id is not None  # Rows from the store have an id.
    return pending.id
