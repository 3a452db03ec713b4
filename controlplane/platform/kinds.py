"""The base class of kinds of manifests: one small module a noun, and one line in the registry.

The spec of a kind is the dataclass of changes that its operations take. So a field of the API is a
field of the kind, with the same limits and the same description.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from controlplane.authorization import DEFAULT_PROJECT, Actor, Resource, Verb
from controlplane.platform.names import ANY_NAME, NameForm
from controlplane.platform.parts import Columns, column_values, default_of, part_fields, row_of
from controlplane.platform.ports import Transaction
from core.json_object import JsonMapping

R = TypeVar("R", bound="DeclaredRow")
P = TypeVar("P", bound="DeletingOperations")


class DeclaredRow(Protocol):
    """A row that a manifest describes."""

    @property
    def id(self) -> str: ...


class DeletingOperations(Protocol):
    """Operations on resources that manifests describe."""

    async def delete(self, actor: Actor, id: str, /) -> object: ...


class ResourceOperations(DeletingOperations, Protocol):
    """Operations with the usual verbs, on resources that manifests describe."""

    async def create(self, actor: Actor, change: Any, /) -> DeclaredRow: ...

    async def update(self, actor: Actor, id: str, change: Any, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Placement:
    """Name and place of a new resource, from the metadata of its manifest."""

    name: str
    scope_id: str = ""
    """ID of the cluster of a service. Empty for other kinds."""
    project_id: str | None = None
    """ID of the project. None: the manifest names none."""


class ManifestKind(ABC, Generic[R]):
    """One kind of manifest, such as `Service`."""

    name: ClassVar[str]
    """Name in manifests."""
    change: ClassVar[type[Any]]
    """Dataclass of changes, whose fields are the spec."""
    port: ClassVar[type[Any]]
    """Repository of the resources, with the verb `by_names`."""
    family: ClassVar[str] = ""
    """Kinds that share their names, as repositories do. Default: the kind alone."""
    scope: ClassVar[str] = ""
    """Kind whose name the metadata contains as well: a service is in a cluster."""
    has_project: ClassVar[bool] = True
    """True if the metadata can name a project."""
    default_project: ClassVar[str | None] = DEFAULT_PROJECT
    """Project of a resource whose manifest names none. None: the installation."""
    hidden: ClassVar[Collection[str]] = ()
    """Fields of `change` that are not part of the spec. Those of a nested class have its name, such
    as `ServiceChange.paused`."""
    rename: ClassVar[Mapping[str, str]] = {}
    """Names in the spec, in snake case, by field of `change`."""
    name_form: ClassVar[NameForm] = ANY_NAME
    """Form of names."""
    named_by: ClassVar[str] = "name"
    """Field of the operations that has the name of the manifest."""
    references: ClassVar[Mapping[str, str]] = {}
    """Kinds that fields refer to by id, such as `{"Selector.groups": "ClusterGroup"}`; only for
    fields whose name does not tell it, as `cluster_id` does."""
    hints: ClassVar[Mapping[str, Any]] = {}
    """Types of fields whose own type is a plain mapping, such as `{"ServiceChange.helm": …}`."""
    mappings: ClassVar[Collection[type[Any]]] = ()
    """Types of `hints` whose values operations take as mappings."""
    takes_all: ClassVar[bool] = False
    """True if the operation takes all fields of the spec instead of the changed ones."""
    unordered: ClassVar[Mapping[str, str]] = {}
    """Fields whose lists have no order, and the published field that tells their items apart; an
    empty text for plain items."""
    immutable: ClassVar[Collection[str]] = ()
    """Fields that only the creation of a resource sets."""
    clearable: ClassVar[Collection[str]] = ()
    """Fields without another default that an empty text clears."""
    concluding: ClassVar[Collection[str]] = ()
    """Fields that block other changes: an apply sets them with `conclude`, after all documents."""
    sensitive: ClassVar[Collection[str]] = ()
    """Fields that are never returned, such as passwords."""
    destinations: ClassVar[Collection[str]] = ()
    """Fields that tell who receives the secrets beside them, such as `RepositoryChange.via`. A
    sealed value opens for the same receiver only."""
    plugins: ClassVar[Mapping[type[Any], Mapping[str, type[Any]]]] = {}
    """Kinds of plug-ins in the spec, by their base class and name."""

    @classmethod
    def family_name(cls) -> str:
        """Returns the name that references to the kind have."""
        return cls.family or cls.name

    model: ClassVar[type[Any] | None] = None
    """Class of the resources, whose fields tell the defaults."""

    @classmethod
    def defaults(cls) -> Columns:
        """Returns the fields of a resource whose spec is empty."""
        members = part_fields(cls.model) if cls.model else ()
        values = {member.name: default_of(member) for _, _, member in members}
        known = {name: value for name, value in values.items() if value is not MISSING}
        return known | dict.fromkeys(cls.clearable, "")

    async def all(self, tx: Transaction) -> Sequence[R]:
        """Reads all resources of the kind."""
        return await tx[self.port].all()

    async def by_names(
        self, tx: Transaction, names: Collection[str], scopes: Collection[str]
    ) -> Sequence[R]:
        """Reads resources by their names, in one query; `scopes` are IDs of clusters."""
        return await tx[self.port].by_names(names)

    async def by_ids(self, tx: Transaction, ids: Collection[str]) -> Sequence[R]:
        """Reads resources by their IDs, in one query."""
        return await tx[self.port].by_ids(ids)

    async def prefetch(self, tx: Transaction, ids: Collection[str]) -> None:
        """Reads what updates of these resources need, with few queries."""
        await tx[self.port].prefetch_each(ids)

    async def prefetch_new(self, tx: Transaction, keys: Collection[tuple[str, str]]) -> None:
        """Reads what creations of resources need, by the IDs of their clusters and their names."""
        await tx[self.port].prefetch_keys((self.named_by,), [(name,) for _, name in keys])

    def target_of(self, row: R) -> Resource:
        """Returns the location of a resource for authorization."""
        target: Resource = getattr(row, "target")  # noqa: B009
        return target

    def may_read(self, actor: Actor, row: R) -> bool:
        """Returns whether the actor may read a resource, or name it in a reference."""
        return actor.may(Verb.READ, self.target_of(row))

    def name_of(self, row: R) -> str:
        """Returns the name of a resource in manifests."""
        name: str = getattr(row, "name")  # noqa: B009
        return name

    def scope_of(self, row: R) -> str:
        """Returns the ID of the cluster of a service."""
        return ""

    def project_of(self, row: R) -> str | None:
        """Returns the ID of the project of a resource."""
        project: str | None = getattr(row, "project_id", None)
        return project

    def neighbours(self, spec: JsonMapping) -> Collection[str]:
        """Returns the names of resources in the same cluster that a spec names."""
        return ()

    def hidden_fields(self, actor: Actor, row: R) -> Collection[str]:
        """Returns the fields of a readable resource that the actor may not see."""
        return ()

    def is_declared(self, row: R) -> bool:
        """Returns whether manifests can describe the resource; false for generated ones."""
        return True

    async def values(self, tx: Transaction, rows: Sequence[R]) -> Sequence[Columns]:
        """Returns the fields of `change` as each resource has them now."""
        return [column_values(row) for row in rows]

    async def secrets(self, tx: Transaction, row: R) -> Columns:
        """Returns the fields with plain secrets of a resource, to compare them with sealed ones.

        The caller must drop them. Default: `values` has them.
        """
        return {}

    @classmethod
    def build_change(cls, change: type[Any], columns: Columns) -> Any:
        """Returns a change with these columns; the other ones have their defaults."""
        return row_of(change, columns)

    def with_placement(self, placement: Placement, columns: Columns) -> Columns:
        """Returns the fields of a new resource, with its name and project."""
        project = {"project_id": placement.project_id} if self.has_project else {}
        return columns | {self.named_by: placement.name} | project

    @abstractmethod
    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        """Creates a resource through its operation, and returns its ID."""

    @abstractmethod
    async def update(self, actor: Actor, row: R, columns: Columns) -> None:
        """Changes the given fields of a resource through its operation."""

    async def conclude(self, actor: Actor, id: str, columns: Columns) -> None:
        """Sets the given fields of `concluding` through their operations."""

    @abstractmethod
    async def delete(self, actor: Actor, row: R) -> None:
        """Deletes a resource through its operation."""


class KindWithOperations(ManifestKind[R], Generic[R, P]):
    """A kind whose resources one class of operations changes, and deletes by ID."""

    def __init__(self, operations: P) -> None:
        self._operations = operations

    async def delete(self, actor: Actor, row: R) -> None:
        await self._operations.delete(actor, row.id)


class OperatedKind(KindWithOperations[R, ResourceOperations]):
    """A kind whose operations have the usual verbs, with `change` as their argument."""

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        change = row_of(self.change, self.with_placement(placement, columns))
        return (await self._operations.create(actor, change)).id

    async def update(self, actor: Actor, row: R, columns: Columns) -> None:
        await self._operations.update(actor, row.id, row_of(self.change, columns))


AnyKind = ManifestKind[Any]
"""A kind of any resource: only its own methods know the class of its rows."""
