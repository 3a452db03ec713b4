"""Reconciles generators: creates, updates and deletes their services in small transactions.

Deletes nothing while an evaluation is incomplete.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

import structlog

from controlplane.access.operations.scopes import find_project
from controlplane.access.ports import ProjectStore
from controlplane.authorization import SYSTEM
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.freezes import frozen_clusters
from controlplane.clusters.ports import ClusterStore
from controlplane.generators.model.definitions import MAX_DELETIONS, LeavePolicy
from controlplane.generators.model.plan import (
    ExistingServices,
    GeneratedService,
    GeneratorEvaluation,
    Place,
    TargetPlan,
    changed_columns,
    plan_changes,
)
from controlplane.generators.operations.generation import AnyGenerator, GeneratorEvaluator
from controlplane.generators.operations.template_secrets import (
    assign_template_secrets,
    secrets_of_services,
    without_deleted_secrets,
)
from controlplane.generators.ports import (
    GlobalOverrideStore,
    GlobalServiceStore,
    ManagedNamespaceStore,
    PullRequests,
    ServiceSetStore,
)
from controlplane.platform.batch import append_last
from controlplane.platform.context import RENDER_SERVICES, OperationContext
from controlplane.platform.parts import Columns, column_values
from controlplane.platform.ports import NamedRows, Transaction
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import OwnerKind, Service
from controlplane.services.operations.fences import (
    full_project_message,
    reserve_room,
    room_for_services,
)
from controlplane.services.operations.generations import wake_agents
from controlplane.services.operations.quarantine import bundle_columns
from controlplane.services.operations.removal import begin_removal
from controlplane.services.ports import LedgerStore, ServiceStore
from core.identity import ClusterId, RepositoryId, ServiceId
from core.spec.sync import Removal

T = TypeVar("T")

log = structlog.get_logger(__name__)

MAX_CHANGES_PER_TRANSACTION = 50
"""Maximum number of services that change in one transaction."""

_STATUS_INTERVAL = timedelta(minutes=5)
_MAX_PROBLEM = 1000
_CLUSTERS_PER_READ = 200
_APPLY_OPTIONS = frozenset({"dry_run", "options", "verification"})
_NOT_RENDERED = _APPLY_OPTIONS | {"protect", "version", "docs_path", "digest", "dependencies"}


@dataclass(frozen=True, slots=True)
class _Step:
    """Creation, change or removal of one service."""

    cluster_id: str
    generated: GeneratedService | None = None
    service: Service | None = None


class GeneratorReconciler:
    """Evaluates generators, and applies the resulting changes."""

    def __init__(self, context: OperationContext, hosting: PullRequests | None = None) -> None:
        self._context = context
        self.evaluator = GeneratorEvaluator(context, hosting)

    async def keys(self) -> list[str]:
        """`<kind>/<id>` of every generator."""
        async with self._context.store.read() as tx:
            return [
                generator_key(kind, row.id)
                for kind in OwnerKind
                for row in await generator_table(tx, kind).all()
            ]

    async def sources(self) -> dict[str, set[str]]:
        """Keys of generators, by the ids of the services and repositories that they depend on."""
        keys: dict[str, set[str]] = {}
        async with self._context.store.read() as tx:
            for definition in await tx[GlobalServiceStore].all():
                if definition.source_id is not None:
                    key = generator_key(definition.kind, definition.id)
                    keys.setdefault(definition.source_id, set()).add(key)
            for definition in await tx[ServiceSetStore].all():
                if definition.generator.folders is not None:
                    key = generator_key(definition.kind, definition.id)
                    keys.setdefault(definition.generator.folders.repository_id, set()).add(key)
        return keys

    async def plan(self, definition: AnyGenerator) -> TargetPlan:
        """The changes that a reconcile of the given generator would make."""
        evaluation = await self.evaluator.evaluate(definition)
        async with self._context.store.read() as tx:
            evaluation = await without_deleted_secrets(tx, evaluation)
            owned = await tx[ServiceStore].of_owner(definition.id)
            frozen = frozenset(await frozen_clusters(tx))
            uses = await secrets_of_services(tx, owned)
            project = await find_project(tx, definition.services_project_id)
            room = await room_for_services(tx, project)
            occupied = await _occupied_places(tx, definition, evaluation)
        limit = (
            MAX_DELETIONS if definition.ending_at else max(definition.budget, definition.confirmed)
        )
        plan = plan_changes(evaluation, ExistingServices(owned, occupied, frozen, uses), limit)
        excess = 0 if room is None else len(plan.create) - max(room, 0)
        if excess <= 0:
            return plan
        problem = f"{excess} services are not created: {full_project_message(project)}"
        created = plan.create[: len(plan.create) - excess]
        return replace(plan, create=created, problems=(*plan.problems, problem))

    async def reconcile(self, key: str) -> TargetPlan | None:
        """Reconciles one generator. None: it does not exist any more."""
        kind, _, id = key.partition("/")
        async with self._context.store.read() as tx:
            definition = await generator_table(tx, OwnerKind(kind)).get(id)
        if definition is None:
            return None
        plan = await self.plan(definition)
        is_complete = await self._apply_plan(definition, plan)
        await self._record_result(definition, plan, is_complete=is_complete)
        return plan

    async def _apply_plan(self, definition: AnyGenerator, plan: TargetPlan) -> bool:
        """Applies the steps; False if a user changed the generator meanwhile."""
        steps = list(_steps(plan))
        for batch in _batches(steps, MAX_CHANGES_PER_TRANSACTION):
            changed: list[Service] = []
            async with self._context.store.write() as tx:
                current = await generator_table(tx, definition.kind).get(definition.id)
                if current is None or current.updated_at != definition.updated_at:
                    return False
                clusters = await _lock_clusters(tx, batch)
                frozen = await frozen_clusters(tx)
                await tx[ServiceStore].lock({step.service.id for step in batch if step.service})
                for step in await self._within_room(tx, definition, batch):
                    cluster = clusters.get(ClusterId(step.cluster_id))
                    if cluster is None or cluster.ending_at or cluster.id in frozen:
                        continue
                    if (
                        service := await self._apply_step(tx, definition, step, cluster)
                    ) is not None:
                        changed.append(service)
            self._publish_changes(changed)
        return True

    async def _within_room(
        self, tx: Transaction, definition: AnyGenerator, steps: Sequence[_Step]
    ) -> Sequence[_Step]:
        """Leaves out creations for which the project has no room any more since the plan."""
        creations = [step for step in steps if step.service is None]
        if not creations:
            return steps
        project = await tx[ProjectStore].peek(definition.services_project_id)
        room = await reserve_room(tx, project) if project is not None else 0
        if room is None or room >= len(creations):
            return steps
        changes = [step for step in steps if step.service is not None]
        return [*creations[: max(room, 0)], *changes]

    async def _apply_step(
        self, tx: Transaction, definition: AnyGenerator, step: _Step, cluster: Cluster
    ) -> Service | None:
        generated = step.generated
        if step.service is None:
            return await self._create(tx, definition, generated, cluster) if generated else None
        service = await tx[ServiceStore].get(step.service.id)
        if service is None or service.owner_id != definition.id:
            return None
        if generated is not None:
            return await self._update(tx, definition, service, generated)
        return await self._remove(tx, definition, service, cluster)

    async def _create(
        self,
        tx: Transaction,
        definition: AnyGenerator,
        generated: GeneratedService,
        cluster: Cluster,
    ) -> Service | None:
        name = generated.template.name
        if await tx[ServiceStore].peek_by_name(cluster.id, name) is not None:
            return None
        now = self._context.clock.now()
        columns = generated.template.columns()
        repository = columns.pop("repository_id")
        service = Service(
            ServiceId(self._context.new_id()),
            cluster.id,
            RepositoryId(repository) if repository else None,
            columns.pop("name"),
            columns.pop("namespace"),
            now,
            now,
            project_id=definition.services_project_id,
            owner_kind=definition.kind,
            owner_id=definition.id,
        ).changed(**columns)
        if generated.content is not None:
            content = await bundle_columns(self._context, tx, service, generated.content)
            service = service.changed(**content)
        await tx[ServiceStore].add(service)
        await append_last(
            tx, LedgerStore, [self._ledger_entry(definition, service, LedgerStage.CREATED)]
        )
        await assign_template_secrets(self._context, tx, service, generated.template.secrets)
        return service

    async def _update(
        self,
        tx: Transaction,
        definition: AnyGenerator,
        service: Service,
        generated: GeneratedService,
    ) -> Service | None:
        changed: Columns = changed_columns(service, generated)
        secrets = generated.template.secrets
        if not changed:
            return (
                service
                if await assign_template_secrets(self._context, tx, service, secrets)
                else None
            )
        names = ", ".join(sorted(changed))
        if changed.keys() - _NOT_RENDERED:
            changed["input_digest"] = None
        if changed.keys() & {"ref", "folder", "repository_id"}:
            changed["pinned_sha"] = None
        if changed.keys() & _APPLY_OPTIONS and service.desired.digest:
            changed["generation"] = service.desired.generation + 1
        if changed.pop("digest", None) and generated.content is not None:
            content = await bundle_columns(self._context, tx, service, generated.content)
            present = column_values(service)
            changed |= {k: value for k, value in content.items() if present[k] != value}
            if not changed:
                return None
        after = service.changed(**changed, updated_at=self._context.clock.now())
        await tx[ServiceStore].put(after)
        await append_last(
            tx, LedgerStore, [self._ledger_entry(definition, after, LedgerStage.CONFIGURED, names)]
        )
        await assign_template_secrets(self._context, tx, after, secrets)
        return after

    async def _remove(
        self, tx: Transaction, definition: AnyGenerator, service: Service, cluster: Cluster
    ) -> Service:
        """Deletes or detaches a service. A protected service stays, without an owner."""
        leave = definition.on_delete if definition.ending_at else definition.leave
        if leave is LeavePolicy.DELETE and service.spec.protect:
            await tx[ServiceStore].remove_owner(service.id)
            return service
        removal = Removal.CASCADE if leave is LeavePolicy.DELETE else Removal.ORPHAN
        await begin_removal(self._context, tx, SYSTEM, service, removal, cluster)
        return service

    async def _record_result(
        self, definition: AnyGenerator, plan: TargetPlan, *, is_complete: bool
    ) -> None:
        """Stores the result of a reconcile; deletes an ending generator after its last service."""
        problem, waiting, now = problem_of(plan), len(plan.withheld), self._context.clock.now()
        is_fresh = (
            definition.evaluated_at is not None and now - definition.evaluated_at < _STATUS_INTERVAL
        )
        is_same = (problem, waiting) == (definition.problem, definition.waiting) and not plan.size
        if is_fresh and is_same and definition.ending_at is None:
            return
        async with self._context.store.write() as tx:
            if (
                definition.ending_at is not None
                and is_complete
                and not await tx[ServiceStore].of_owner(definition.id)
            ):
                await delete_generator(tx, definition)
                return
            confirmed = {"confirmed": 0} if plan.remove else {}
            await generator_table(tx, definition.kind).change(
                definition.id, problem=problem, waiting=waiting, evaluated_at=now, **confirmed
            )
        if plan.size or problem:
            log.info(
                "generator reconciled",
                kind=definition.kind.value,
                name=definition.name,
                problem=problem,
                made=len(plan.create),
                changed=len(plan.update),
                removed=len(plan.remove),
            )

    def _ledger_entry(
        self, definition: AnyGenerator, service: Service, stage: LedgerStage, message: str = ""
    ) -> LedgerEntry:
        actor = f"{definition.kind.noun} {definition.name}"[:320]
        now = self._context.clock.now()
        return LedgerEntry.of(service, stage, now, actor=actor, message=message)

    def _publish_changes(self, services: Sequence[Service]) -> None:
        wake_agents(self._context, services)
        for repository in {service.repository_id for service in services if service.repository_id}:
            self._context.bus.publish(RENDER_SERVICES, f"{repository}/")


async def _occupied_places(
    tx: Transaction, definition: AnyGenerator, evaluation: GeneratorEvaluation
) -> set[Place]:
    """Places of generated services that other services, or deleted ones, have."""
    names_by_cluster: dict[str, set[str]] = {}
    for generated in evaluation.services:
        names_by_cluster.setdefault(generated.cluster_id, set()).add(generated.template.name)
    present: list[Service] = []
    for clusters in _batches(sorted(names_by_cluster), _CLUSTERS_PER_READ):
        names = set().union(*(names_by_cluster[cluster] for cluster in clusters))
        present += await tx[ServiceStore].with_names_and_deleted(clusters, names)
    return {
        (service.cluster_id, service.name)
        for service in present
        if service.owner_id != definition.id or service.deleted_at is not None
    }


def generator_key(kind: OwnerKind, id: str) -> str:
    """`<kind>/<id>` of a generator."""
    return f"{kind.value}/{id}"


def generator_table(tx: Transaction, kind: OwnerKind) -> NamedRows[Any]:
    """The table of a kind of generator."""
    tables: dict[OwnerKind, Callable[[], NamedRows[Any]]] = {
        OwnerKind.GLOBAL: lambda: tx[GlobalServiceStore],
        OwnerKind.SET: lambda: tx[ServiceSetStore],
        OwnerKind.NAMESPACE: lambda: tx[ManagedNamespaceStore],
    }
    return tables[kind]()


def problem_of(plan: TargetPlan) -> str:
    """Reason why a reconcile is incomplete, for users; empty if it is complete."""
    parts = list(plan.problems)
    if plan.collisions:
        names = ", ".join(sorted({collision.template.name for collision in plan.collisions})[:5])
        parts.append(
            f"{len(plan.collisions)} clusters already have another service of that name: {names}"
        )
    if plan.withheld and not parts:
        parts.append(f"{len(plan.withheld)} deletions exceed the deletion budget: confirm them")
    if plan.frozen:
        parts.append(f"{len(plan.frozen)} changes wait for frozen cluster groups")
    return "; ".join(parts)[:_MAX_PROBLEM]


async def delete_generator(tx: Transaction, definition: AnyGenerator) -> None:
    """Deletes a generator with its overrides."""
    if definition.kind is OwnerKind.GLOBAL:
        overrides = await tx[GlobalOverrideStore].of_definition(definition.id)
        await tx[GlobalOverrideStore].remove_each([override.id for override in overrides])
    await generator_table(tx, definition.kind).remove(definition.id)


async def _lock_clusters(tx: Transaction, steps: Sequence[_Step]) -> dict[str, Cluster]:
    """The clusters of steps, by id. Locks clusters that lose services, before the services.

    The lock keeps agents from connecting meanwhile, which decides what has to be deleted.
    """
    ids = {step.cluster_id for step in steps}
    losing = {step.cluster_id for step in steps if step.generated is None}
    clusters = [*await tx[ClusterStore].lock(losing), *await tx[ClusterStore].by_ids(ids - losing)]
    return {cluster.id: cluster for cluster in clusters}


def _steps(plan: TargetPlan) -> Iterator[_Step]:
    """Creations and changes, then removals."""
    yield from (_Step(new.cluster_id, generated=new) for new in plan.create)
    yield from (_Step(s.cluster_id, generated=new, service=s) for s, new in plan.update)
    yield from (_Step(service.cluster_id, service=service) for service in plan.remove)


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
