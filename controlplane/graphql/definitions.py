"""What definitions of services for many clusters have in common in the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import strawberry

from controlplane.domain.clusters import Distribution
from controlplane.domain.owners import Definition, Leave
from controlplane.domain.selectors import Selector as SelectorRow
from controlplane.domain.services import Service
from controlplane.domain.targets import TargetPlan as PlanRow
from controlplane.domain.targets import Wanted
from controlplane.domain.templates import ServiceTemplate as TemplateRow
from controlplane.graphql.access import Project
from controlplane.graphql.clusters import Tag
from controlplane.graphql.context import Context
from controlplane.graphql.inputs import TagAttributes
from controlplane.graphql.scalars import Map
from controlplane.graphql.types import GitRef, ServiceConfiguration
from controlplane.graphql.verification import ServiceVerification
from controlplane.usecases.definitions import DefinitionChange
from controlplane.usecases.targets import problem_of

MOST_SHOWN = 500
"""So many services of a plan are listed; all are counted."""

strawberry.enum(Leave, name="LeavePolicy")


@strawberry.type
class ClusterSelector:
    """All conditions that are given must hold; without any, every cluster fits."""

    tags: list[Tag]
    distro: Distribution | None
    project_id: strawberry.ID | None
    group_ids: list[strawberry.ID]
    ignored_cluster_ids: list[strawberry.ID]

    @classmethod
    def of(cls, row: SelectorRow) -> "ClusterSelector":
        return cls(
            tags=[Tag(name=name, value=value) for name, value in row.tags.items()],
            distro=row.distribution,
            project_id=strawberry.ID(row.project_id) if row.project_id else None,
            group_ids=[strawberry.ID(one) for one in row.groups],
            ignored_cluster_ids=[strawberry.ID(one) for one in row.excluded],
        )


@strawberry.input
class ClusterSelectorAttributes:
    """What is left out stays as it is; `groupIds`: one of them is enough."""

    tags: list[TagAttributes] | None = None
    distro: Distribution | None = None
    project_id: strawberry.ID | None = None
    group_ids: list[strawberry.ID] | None = None
    ignored_cluster_ids: list[strawberry.ID] | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of a selector that are given."""
        return selector_fields(
            self.tags,
            distribution=self.distro,
            project_id=self.project_id or None,
            groups=self.group_ids,
            excluded=self.ignored_cluster_ids,
        )


def selector_fields(
    tags: list[TagAttributes] | None, *, distribution: Distribution | None = None, **given: Any
) -> dict[str, Any]:
    """The fields of a selector that are not null."""
    found = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in {"distribution": distribution, **given}.items()
        if value is not None
    }
    return found if tags is None else found | {"tags": {tag.name: tag.value for tag in tags}}


@strawberry.input
class CascadeAttributes:
    """What becomes of services that are no longer wanted: deleted, else detached."""

    delete: bool | None = None
    detach: bool | None = None

    @property
    def leave(self) -> Leave:
        return Leave.DELETE if self.delete and not self.detach else Leave.DETACH


@strawberry.type
class TemplateSecret:
    """A secret that all services of a template use, under the name that objects call it by."""

    name: str
    secret_id: strawberry.ID


@strawberry.type
class ServiceTemplate:
    """What services are made from."""

    name: str
    namespace: str
    version: str
    repository_id: strawberry.ID | None
    git: GitRef
    kustomize_path: str | None
    helm: Map | None
    configuration: list[ServiceConfiguration]
    templated: bool
    protect: bool
    dry_run: bool
    dependencies: list[str]
    verification: ServiceVerification | None
    secrets: list[TemplateSecret]

    @classmethod
    def of(cls, row: TemplateRow) -> "ServiceTemplate":
        return cls(
            name=row.name,
            namespace=row.namespace,
            version=row.version,
            repository_id=strawberry.ID(row.repository_id) if row.repository_id else None,
            git=GitRef(ref=row.ref, folder=row.folder),
            kustomize_path=row.kustomize_path,
            helm=Map(dict(row.helm)) if row.helm is not None else None,
            configuration=[
                ServiceConfiguration(name=n, value=v) for n, v in row.configuration.items()
            ],
            templated=row.templated,
            protect=row.protect,
            dry_run=row.dry_run,
            dependencies=list(row.dependencies),
            verification=ServiceVerification.of(row.verification),
            secrets=[
                TemplateSecret(name=name, secret_id=strawberry.ID(id))
                for name, id in (row.secrets or {}).items()
            ],
        )


@strawberry.type
class PlannedService:
    """A service of a plan; without an id there is none yet."""

    id: strawberry.ID | None
    cluster_id: strawberry.ID
    name: str
    namespace: str
    ref: str
    folder: str


@strawberry.type
class TargetPlan:
    """What a definition would do. The lists show the first 500 services, the numbers count all.

    `withheld` are removals that wait for a person, or for what is incomplete now.
    """

    creates: int
    updates: int
    deletes: int
    create: list[PlannedService]
    update: list[PlannedService]
    delete: list[PlannedService]
    withheld: list[PlannedService]
    collisions: list[PlannedService]
    frozen: int
    complete: bool
    problem: str | None

    @classmethod
    def of(cls, row: PlanRow) -> "TargetPlan":
        return cls(
            creates=len(row.create),
            updates=len(row.update),
            deletes=len(row.remove),
            create=[_wanted(one) for one in row.create[:MOST_SHOWN]],
            update=[_wanted(one, service.id) for service, one in row.update[:MOST_SHOWN]],
            delete=[_present(one) for one in row.remove[:MOST_SHOWN]],
            withheld=[_present(one) for one in row.withheld[:MOST_SHOWN]],
            collisions=[_wanted(one) for one in row.collisions[:MOST_SHOWN]],
            frozen=len(row.frozen),
            complete=not row.problems,
            problem=problem_of(row) or None,
        )


@strawberry.type
class DefinitionState:
    """What came of the last look at a definition. `waiting` removals have to be confirmed."""

    waiting: int
    problem: str | None
    evaluated_at: datetime | None
    deleted_at: datetime | None

    @classmethod
    def of(cls, row: Definition) -> "DefinitionState":
        return cls(
            waiting=row.waiting,
            problem=row.problem or None,
            evaluated_at=row.evaluated_at,
            deleted_at=row.ending_at,
        )


async def projects_of(context: Context, ids: Sequence[str | None]) -> dict[str, Project]:
    """The projects of some things, by id."""
    found = await context.verbs.projects.of(context.actor, [one for one in ids if one])
    return {id: Project.of(row) for id, row in found.items()}


def common(
    name: str | None,
    project_id: str | None,
    selector: dict[str, Any] | None,
    policies: tuple[Leave | None, Leave | None],
    budget: int | None,
) -> DefinitionChange:
    """The change of what all definitions have; `policies`: on leaving, on deletion."""
    leave, on_delete = policies
    return DefinitionChange(name, project_id or None, selector, leave, on_delete, budget)


def _wanted(one: Wanted, id: str | None = None) -> PlannedService:
    template = one.template
    return PlannedService(
        id=strawberry.ID(id) if id else None,
        cluster_id=strawberry.ID(one.cluster_id),
        name=template.name,
        namespace=template.namespace,
        ref=template.ref,
        folder=template.folder,
    )


def _present(one: Service) -> PlannedService:
    return PlannedService(
        id=strawberry.ID(one.id),
        cluster_id=strawberry.ID(one.cluster_id),
        name=one.name,
        namespace=one.namespace,
        ref=one.ref,
        folder=one.folder,
    )
