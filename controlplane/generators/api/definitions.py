"""Common types of global services, service sets and managed namespaces in the API."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import strawberry
from strawberry.types.field import StrawberryField

from controlplane.access.api.types import ProjectType
from controlplane.authorization import Actor
from controlplane.clusters.api.selectors import ClusterSelectorAttributes
from controlplane.generators.model.definitions import GeneratorDefinition, LeavePolicy
from controlplane.generators.model.plan import GeneratedService, TargetPlan
from controlplane.generators.operations.definitions import GeneratorChange
from controlplane.generators.operations.reconciler import problem_of
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, computed, output
from controlplane.platform.graphql.relay import Identified
from controlplane.platform.graphql.resource_fields import ResourceFields
from controlplane.services.api.types import GitRef, ServiceConfiguration
from controlplane.services.model.service import Service
from controlplane.services.model.templates import ServiceTemplate

C = TypeVar("C", bound=GeneratorChange)
D = TypeVar("D", bound=GeneratorDefinition)
N = TypeVar("N", bound=Identified)
P = TypeVar("P")
_CONFIRM = "Number of removals to allow in this evaluation. Default: 0, the deletion budget."
MAX_SHOWN = 500
"""Maximum number of services in each list of a plan. Counts include all."""

strawberry.enum(LeavePolicy, name="LeavePolicy")


@strawberry.input
class CascadeAttributes:
    """Handling of services on clusters that no longer match. Default: detach."""

    delete: bool | None = None
    """Delete the service and its objects."""
    detach: bool | None = None
    """Delete the service and keep its objects. Takes precedence over `delete`."""

    @property
    def leave(self) -> LeavePolicy:
        return LeavePolicy.DELETE if self.delete and not self.detach else LeavePolicy.DETACH


@strawberry.type
class TemplateSecret:
    """A secret that all services of a template use."""

    name: str
    """Name in the manifests, as in `${towline.secret:NAME}`."""
    secret_id: strawberry.ID
    """ID of the secret."""


@output(
    ServiceTemplate,
    hide={
        *("ref", "folder", "renderer", "options", "docs_path"),
        *("paused", "promoted", "rendered_by"),
    },
)
class ServiceTemplateType(Output[ServiceTemplate]):
    """Template of the services that a global service, service set or managed namespace creates."""

    git: GitRef = computed(lambda template: GitRef.of(template.spec))
    """Ref and folder in the repository."""
    configuration: list[ServiceConfiguration] = computed(
        lambda template: [
            ServiceConfiguration(name=name, value=value)
            for name, value in template.spec.configuration.items()
        ]
    )
    secrets: list[TemplateSecret] = computed(
        lambda template: [
            TemplateSecret(name=name, secret_id=strawberry.ID(id))
            for name, id in (template.secrets or {}).items()
        ]
    )
    """Secrets that the services use."""


@strawberry.type
class PlannedService:
    """A service of a plan."""

    id: strawberry.ID | None
    """ID of the service. Null for a service that would be created."""
    cluster_id: strawberry.ID
    """ID of the cluster."""
    name: str
    """Name of the service."""
    namespace: str
    """Namespace of the service."""
    ref: str
    """Git ref."""
    folder: str
    """Folder in the repository."""

    @classmethod
    def of(
        cls, row: ServiceTemplate | Service, cluster_id: str, id: str | None = None
    ) -> "PlannedService":
        return cls(
            id=strawberry.ID(id) if id else None,
            cluster_id=strawberry.ID(cluster_id),
            name=row.name,
            namespace=row.namespace,
            ref=row.spec.ref,
            folder=row.spec.folder,
        )


@strawberry.type
class TargetPlanType:
    """Changes that a global service, service set or managed namespace would make. Lists contain the
    first 500 services; numbers count all."""

    creates: int
    """Number of services to create."""
    updates: int
    """Number of services to update."""
    deletes: int
    """Number of services to remove."""
    create: list[PlannedService]
    """Services to create."""
    update: list[PlannedService]
    """Services to update."""
    delete: list[PlannedService]
    """Services to remove."""
    withheld: list[PlannedService]
    """Services whose removal waits for a confirmation or for complete input."""
    collisions: list[PlannedService]
    """Services that cannot be created, since another service has the same name in that cluster."""
    frozen: int
    """Number of changes that wait for the end of a freeze."""
    complete: bool
    """True if all clusters, folders and requests were evaluated."""
    problem: str | None
    """Reason of an incomplete plan."""

    @classmethod
    def of(cls, row: TargetPlan) -> "TargetPlanType":
        return cls(
            creates=len(row.create),
            updates=len(row.update),
            deletes=len(row.remove),
            create=_planned_services(row.create),
            update=[
                PlannedService.of(generated.template, generated.cluster_id, service.id)
                for service, generated in row.update[:MAX_SHOWN]
            ],
            delete=_existing_services(row.remove),
            withheld=_existing_services(row.withheld),
            collisions=_planned_services(row.collisions),
            frozen=len(row.frozen),
            complete=not row.problems,
            problem=problem_of(row) or None,
        )


@output(
    GeneratorDefinition,
    rename={"deleted_at": "ending_at"},
    only={"waiting", "problem", "evaluated_at", "ending_at"},
    nullable={"problem"},
)
class DefinitionState(Output[GeneratorDefinition]):
    """Result of the last evaluation."""


GENERATOR_NAMES = {"on_leave": "leave", "deletion_budget": "budget"}


@output(
    GeneratorDefinition,
    rename=GENERATOR_NAMES,
    hide={"project_id", "confirmed", "waiting", "problem", "evaluated_at", "ending_at"},
)
class GeneratorOutput(Output[D]):
    """Fields of a global service, service set or managed namespace."""

    project: ProjectType | None
    """Project whose clusters can match. Null: clusters of all projects."""
    state: DefinitionState = computed(DefinitionState.of)
    """Result of the last evaluation."""


class GeneratorFields(ResourceFields[P, D, N]):
    """Fields of the API that return generators of one kind."""

    def sync(self, operation: Callable[[P, Actor, str, int], Awaitable[D]]) -> StrawberryField:
        """Returns a mutation that evaluates a generator now."""

        async def resolve(info: Info, id: strawberry.ID, confirm: int = 0) -> object:
            return await self.one(info, await operation(*self.caller(info), id, confirm))

        return self.mutation(resolve, confirm=_CONFIRM)


class GeneratorInput(Draft[C]):
    """Conversion of the fields of a generator."""

    selector: ClusterSelectorAttributes | None

    def field_values(self) -> FieldValues:
        given = super().field_values()
        if self.selector is not None:
            given["selector"] = self.selector.field_values()
        return given


def _planned_services(rows: Sequence[GeneratedService]) -> list[PlannedService]:
    return [PlannedService.of(row.template, row.cluster_id) for row in rows[:MAX_SHOWN]]


def _existing_services(services: Sequence[Service]) -> list[PlannedService]:
    return [PlannedService.of(row, row.cluster_id, row.id) for row in services[:MAX_SHOWN]]
