"""Fields of the API that call one operation on resources of a kind, with the usual arguments."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Concatenate, Generic, TypeVar, cast, get_type_hints

import strawberry
from strawberry.types.field import StrawberryField

from controlplane.authorization import Actor
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, argument_type
from controlplane.platform.ports import Page, PageQuery

C = TypeVar("C")
P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")
N = TypeVar("N", bound=relay.Identified)
X = TypeVar("X")
_SIGNATURE = "__signature__"
Resolver = Callable[..., Awaitable[object]]
Load = Callable[[Info, Sequence[R]], Awaitable[Sequence[T]]]
"""Converts rows, with the related resources that the caller may read, to a published type."""


def each(convert: Callable[[R], T]) -> Load[R, T]:
    """Returns a conversion of rows without related resources."""

    async def load(_info: Info, rows: Sequence[R]) -> Sequence[T]:
        return [convert(row) for row in rows]

    return load


class ResourceFields(Generic[P, R, N]):
    """Fields that return resources of one kind. Each of them calls a method of `operations`.

    The string below a field is its description. Its `Args:` are only necessary for arguments that
    differ from those of other kinds in more than the `noun`. `is_nullable` tells the published type
    of mutations.
    """

    def __init__(
        self,
        noun: str,
        operations: type[P],
        output: type[N],
        load: Load[R, N],
        *,
        is_nullable: bool = True,
    ) -> None:
        self._operations = operations
        self._output = output
        self._load = load
        self._changed: object = output | None if is_nullable else output
        self._id = f"ID of the {noun}."
        self._attributes = f"Fields of the {noun}."

    async def one(self, info: Info, row: R) -> N:
        """Returns the published form of a row."""
        return (await self._load(info, [row]))[0]

    def get(
        self, read: Callable[[P, Actor, str | None, str | None], Awaitable[R]]
    ) -> StrawberryField:
        """Returns a query of one resource by ID or name."""

        async def resolve(
            info: Info, id: strawberry.ID | None = None, name: str | None = None
        ) -> object:
            return await self.one(info, await read(*self.caller(info), id, name))

        return self.query(resolve)

    def by_id(self, read: Callable[[P, Actor, str], Awaitable[R]]) -> StrawberryField:
        """Returns a query of one resource by ID."""
        return self.query(self._resolver_by_id(read))

    def page(self, read: Callable[[P, Actor, PageQuery], Awaitable[Page[R]]]) -> StrawberryField:
        """Returns a query of a list."""

        async def resolve(
            info: Info,
            first: int | None = None,
            after: str | None = None,
            q: str | None = None,
            labels: str | None = None,
        ) -> object:
            query = relay.page_query(first, after, q, labels=labels)
            page = await read(*self.caller(info), query)
            return await relay.connection_of_many(info, page, query, self._load)

        return _field(resolve, relay.Connection[self._output])  # ty: ignore[invalid-type-form]

    def create(
        self, operation: Callable[[P, Actor, C], Awaitable[R]], attributes: type[Draft[C]]
    ) -> StrawberryField:
        """Returns a mutation that creates a resource."""

        async def resolve(info: Info, attributes: Draft[C]) -> object:
            return await self.one(info, await operation(*self.caller(info), attributes.change()))

        resolve.__annotations__["attributes"] = attributes
        return self.mutation(resolve, attributes=self._attributes)

    def update(
        self, operation: Callable[[P, Actor, str, C], Awaitable[R]], attributes: type[Draft[C]]
    ) -> StrawberryField:
        """Returns a mutation that changes a resource."""

        async def resolve(info: Info, id: strawberry.ID, attributes: Draft[C]) -> object:
            row = await operation(*self.caller(info), id, attributes.change())
            return await self.one(info, row)

        resolve.__annotations__["attributes"] = attributes
        return self.mutation(resolve, attributes="Fields to change.")

    def query(self, resolve: Resolver, **descriptions: str) -> StrawberryField:
        """Returns a query of one resource. `descriptions` has those of arguments but `id`."""
        return _field(resolve, self._output | None, id=self._id, **descriptions)

    def mutation(self, resolve: Resolver, **descriptions: str) -> StrawberryField:
        """Returns a mutation of one resource. `descriptions` has those of arguments but `id`."""
        return _field(resolve, self._changed, id=self._id, **descriptions)

    def action(self, operation: Callable[[P, Actor, str], Awaitable[R]]) -> StrawberryField:
        """Returns a mutation of a resource without other arguments, such as its deletion."""
        return self.mutation(self._resolver_by_id(operation))

    def call(
        self,
        operation: Callable[Concatenate[P, Actor, ...], Awaitable[R]],
        attributes: type[Draft[C]] | None = None,
        **names: str,
    ) -> StrawberryField:
        """Returns a mutation of a resource with the arguments of its operation.

        `attributes` publishes the argument that it makes. `names` has the published names of the
        others that differ.
        """
        resolve = self._resolver_with_arguments(operation, self.one, names, attributes)
        return self.mutation(resolve, attributes=self._attributes)

    def lookup(
        self, read: Callable[Concatenate[P, Actor, ...], Awaitable[R]], **names: str
    ) -> StrawberryField:
        """Returns a query of one resource with the arguments of its operation."""
        return self.query(self._resolver_with_arguments(read, self.one, names))

    def all(
        self, read: Callable[Concatenate[P, Actor, ...], Awaitable[Sequence[R]]], **names: str
    ) -> StrawberryField:
        """Returns a query of several resources with the arguments of its operation."""
        resolve = self._resolver_with_arguments(read, self._load, names)
        return _field(resolve, list[self._output])  # ty: ignore[invalid-type-form]

    def related(
        self,
        read: Callable[[P, Actor, str], Awaitable[Sequence[X]]],
        output: type[T],
        load: Load[X, T],
    ) -> StrawberryField:
        """Returns a query of the rows of another kind that belong to a resource."""

        async def resolve(info: Info, id: strawberry.ID) -> object:
            return await load(info, await read(*self.caller(info), id))

        return _field(resolve, list[output], id=self._id)  # ty: ignore[invalid-type-form]

    def _resolver_by_id(self, operation: Callable[[P, Actor, str], Awaitable[R]]) -> Resolver:
        async def resolve(info: Info, id: strawberry.ID) -> object:
            return await self.one(info, await operation(*self.caller(info), id))

        return resolve

    def _resolver_with_arguments(
        self,
        operation: Callable[Concatenate[P, Actor, ...], Awaitable[T]],
        publish: Callable[[Info, T], Awaitable[object]],
        names: Mapping[str, str],
        attributes: type[Draft[C]] | None = None,
    ) -> Resolver:
        """Returns a resolver with the arguments of an operation."""

        async def resolve(info: Info, **arguments: object) -> object:
            values = {name: arguments[published.name] for name, published in parameters.items()}
            changes = {
                name: value.change() for name, value in values.items() if isinstance(value, Draft)
            }
            return await publish(info, await operation(*self.caller(info), **values | changes))

        parameters = dict(_parameters(operation, names, attributes))
        info = inspect.Parameter("info", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Info)
        setattr(resolve, _SIGNATURE, inspect.Signature([info, *parameters.values()]))
        return resolve

    def caller(self, info: Info) -> tuple[P, Actor]:
        """Returns the operations, and the user who calls them."""
        return info.context[self._operations], info.context.actor


def _parameters(
    operation: Callable[..., object], names: Mapping[str, str], attributes: type[Draft[C]] | None
) -> Iterator[tuple[str, inspect.Parameter]]:
    """Yields the parameters of an operation after the actor, by name, in their published form."""
    hints: Mapping[str, object] = get_type_hints(operation)
    for name, parameter in list(inspect.signature(operation).parameters.items())[2:]:
        published, annotation = names.get(name, name), hints[name]
        if attributes and annotation is attributes.__model__:
            published, annotation = "attributes", attributes
        else:
            annotation = argument_type(published, annotation)
        kind = inspect.Parameter.KEYWORD_ONLY
        yield name, parameter.replace(name=published, kind=kind, annotation=annotation)


def _field(resolve: Resolver, returned: object, **descriptions: str) -> StrawberryField:
    """Returns the field of a resolver with the published type of its result.

    `descriptions` has those of arguments by name.
    """
    resolve.__annotations__["return"] = returned
    if (signature := getattr(resolve, _SIGNATURE, None)) is not None:
        setattr(resolve, _SIGNATURE, signature.replace(return_annotation=returned))
    field = cast("StrawberryField", strawberry.field(resolver=resolve))
    for argument in field.arguments:
        argument.description = descriptions.get(argument.python_name)
    return field
