"""Each verb that a port adds to its rows runs on each implementation of the store."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

from controlplane.platform.ports import Ids, ReadableRows, Store
from controlplane.services.model.service import Confirmation
from controlplane.store.repositories import REPOSITORIES

_VALUES: dict[Any, Any] = {
    str: "x",
    Ids: ["x"],
    datetime: datetime(2026, 1, 1, tzinfo=UTC),
    int: 1,
    bool: True,
    bytes: b"x",
    Confirmation: Confirmation(1, ()),
}


def _verbs() -> list[tuple[type[Any], str]]:
    """The methods of ports with code of their own."""
    return [
        (port, name)
        for port in REPOSITORIES
        for owner in port.__mro__
        if owner is not ReadableRows
        for name, method in vars(owner).items()
        if inspect.iscoroutinefunction(method) and _has_code(method)
    ]


def _has_code(method: Any) -> bool:
    return any(name in method.__code__.co_names for name in ("find", "select", "change"))


def _value(kind: Any) -> Any:
    """A value of a parameter's type."""
    if kind in _VALUES:
        return _VALUES[kind]
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return next(iter(kind))
    if (origin := get_origin(kind)) is Mapping:
        return {}
    if origin is Collection:
        return ["x"]
    if origin is Sequence:
        return ()
    return _value(get_args(kind)[0])


def _arguments(verb: Callable[..., Any]) -> list[Any]:
    hints, parameters = get_type_hints(verb), inspect.signature(verb).parameters.values()
    asked = [p for p in parameters if p.name != "self" and p.kind is not p.KEYWORD_ONLY]
    return [_value(hints[parameter.name]) for parameter in asked]


async def test_verbs_name_columns_that_the_table_has(store: Store) -> None:
    for port, name in _verbs():
        verb = getattr(port, name)
        async with store.write() as tx:
            answer = await getattr(tx[port], name)(*_arguments(verb))
            assert tx.has_writes is ("change" in verb.__code__.co_names), verb
        assert answer in (None, [], False), verb


def test_ports_have_verbs() -> None:
    """Otherwise the test above would pass without running one."""
    assert len(_verbs()) > 100
