"""Pipelines and their gates as callers see them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from controlplane.authorization import Actor, ResourceKind, Verb
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.pipelines.engine import codec
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.pipelines.model.state import (
    Digests,
    GateState,
    PipelineState,
    Release,
    ReleaseId,
    StageState,
    digests_of,
)
from controlplane.pipelines.ports import PipelineGateStore, PipelineStore
from controlplane.platform.ports import Transaction
from controlplane.platform.references import found
from controlplane.repositories.model.push import Push
from controlplane.repositories.ports import PushStore
from controlplane.services.model.service import Service
from controlplane.services.ports import RevisionStore, ServiceStore
from core.errors import NotFound


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A pipeline with its spec and state, the services of its stages, and their clusters."""

    row: PipelineRecord
    spec: pipeline.Pipeline
    state: PipelineState
    services: Mapping[str, Service]
    clusters: Mapping[str, Cluster]


async def find_pipeline(tx: Transaction, id: str | None, name: str | None) -> PipelineRecord:
    return found(await tx[PipelineStore].by_id_or_name(id, name), ResourceKind.PIPELINE)


def stage_named(view: PipelineView, name: str) -> pipeline.Stage:
    """NotFound: the pipeline has no stage with this name."""
    target = next((stage for stage in view.spec.stages if stage.name == name), None)
    if target is None:
        raise NotFound(f"pipeline {view.row.name!r} has no stage {name!r}")
    return target


async def view_of(
    tx: Transaction, row: PipelineRecord, *, with_clusters: bool = True
) -> PipelineView:
    """A pipeline with its services and clusters."""
    spec = codec.pipeline_from_json(row.spec)
    ids = {service for stage in spec.stages for service in stage.services}
    services = await tx[ServiceStore].by_ids(ids)
    cluster_ids = {service.cluster_id for service in services} if with_clusters else set()
    clusters = await tx[ClusterStore].by_ids(cluster_ids) if cluster_ids else []
    return PipelineView(
        row,
        spec,
        codec.state_from_json(row.state),
        {service.id: service for service in services},
        {cluster.id: cluster for cluster in clusters},
    )


def visible_view(view: PipelineView, actor: Actor) -> PipelineView:
    """The view without services and clusters that the actor may not read."""
    return replace(
        view,
        services={k: v for k, v in view.services.items() if actor.may(Verb.READ, v.target)},
        clusters={k: v for k, v in view.clusters.items() if actor.may(Verb.READ, v.target)},
    )


async def find_gate(tx: Transaction, id: str) -> tuple[PipelineView, pipeline.Gate]:
    """A gate or workflow with its pipeline. NotFound: no gate has this id."""
    row = await tx[PipelineGateStore].get(id)
    record = await tx[PipelineStore].get(row.pipeline_id) if row else None
    view = await view_of(tx, found(record, ResourceKind.PIPELINE))
    gate = next((gate for _, gate in view.spec.all_gates if gate.id == id), None)
    return view, found(gate, ResourceKind.PIPELINE)


def gates_in_progress(
    spec: pipeline.Pipeline, state: PipelineState
) -> Iterator[tuple[pipeline.Gate, GateState, ReleaseId]]:
    """The gates before which a release waits and the begun workflows, with state and release."""
    for edge, gate in spec.gate.values():
        candidate = state.candidates.get(edge.id)
        if candidate is not None and gate.id in candidate.gates:
            yield gate, candidate.gates[gate.id], candidate.release
    for stage, gate in spec.workflow.values():
        stage_state = state.stages.get(stage.id, StageState())
        if stage_state.release is not None and stage_state.workflow is not None:
            yield gate, stage_state.workflow, stage_state.release


def waiting_release(view: PipelineView, gate: pipeline.GateId) -> tuple[ReleaseId | None, Digests]:
    """The release that waits at a gate, and the digests that its stage runs or would run."""
    if gate in view.spec.workflow:
        state = view.state.stages.get(view.spec.workflow[gate][0].id)
        return (state.release, digests_of(state.revisions)) if state else (None, {})
    edge, _ = view.spec.gate[gate]
    candidate = view.state.candidates.get(edge.id)
    stage = view.state.stages.get(edge.target)
    if candidate is None or stage is None:
        return None, {}
    return candidate.release, digests_of(stage.rendered.get(candidate.release, {}))


async def pushes_of(tx: Transaction, release: Release) -> list[Push]:
    """Returns the pushes of the release's commits that signed webhooks have announced."""
    services = await tx[ServiceStore].by_ids(release.commits.keys(), deleted=True)
    repositories = {service.repository_id for service in services if service.repository_id}
    return await tx[PushStore].of_commits(repositories, set(release.commits.values()))


async def is_author(tx: Transaction, actor: Actor, release: Release) -> bool:
    """True if the actor is an author of the release's commits, or has pushed one of them.

    Anybody can write any address into a commit; the Git host vouches for the account that pushed.
    """
    email = actor.email.casefold()
    if any(push.email.casefold() == email for push in await pushes_of(tx, release)):
        return True
    revisions = await tx[RevisionStore].of_commits(
        release.commits.keys(), set(release.commits.values())
    )
    authors = [release.author, *(revision.author for revision in revisions)]
    # Identity providers and git may write an address in different cases.
    return any(f"<{email}>" in author.casefold() for author in authors)
