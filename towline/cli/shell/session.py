"""Connects to the control plane that the global flags select."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from core.errors import Invalid, NotFound, Unauthenticated
from towline.cli.lazy_import import load
from towline.contexts import ControlPlaneTarget, GlobalFlags, resolve
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import ConfigAttributes, TagAttributes

Found = TypeVar("Found")
Search = Annotated[str | None, typer.Option("-q", "--query", help="Filter by text.")]


def global_flags(context: typer.Context) -> GlobalFlags:
    """Global flags of the command line."""
    return context.find_object(GlobalFlags) or GlobalFlags()


def selected_target(context: typer.Context) -> ControlPlaneTarget:
    """Control plane to call, with a token. Unauthenticated: not signed in."""
    return target_of(global_flags(context))


def target_of(flags: GlobalFlags) -> ControlPlaneTarget:
    """Control plane that global flags select, with a token. Unauthenticated: not signed in."""
    target = resolve(flags)
    if not target.token:
        raise Unauthenticated(f"not signed in: run `towline login {target.url}`")
    return target


def connect(context: typer.Context) -> GraphQLApi:
    """Creates a client of the selected control plane."""
    return load("towline.client").GraphQLClient(selected_target(context))


def name_value_pairs(values: Mapping[str, str]) -> "list[TagAttributes]":
    """Converts tags, claims and quotas by name to the API's list of pairs."""
    return [{"name": name, "value": value} for name, value in values.items()]


def configuration_of(values: Mapping[str, str]) -> "list[ConfigAttributes]":
    """Converts configuration values by name to the API's list of pairs."""
    return [{"name": name, "value": value} for name, value in values.items()]


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, str]:
    """Parses a repeated `key=value` option. Invalid: a value without `=`."""
    found = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Invalid(f"{pair!r} is not key=value", field=option)
        found[key] = value
    return found


def enum_name(value: str | None, option: str, *allowed: str) -> str | None:
    """Name in the API of an option's value, such as `CLUSTER_API` of `cluster-api`.

    None: the option is not given. Raises Invalid for any other value.
    """
    if value is None:
        return None
    name = value.upper().replace("-", "_")
    if name in allowed:
        return name
    names = ", ".join(allowed).lower().replace("_", "-")
    raise Invalid(f"{value!r} is not one of {names}", field=option)


def found_or_none(lookup: Callable[[], Found]) -> Found | None:
    """Returns the result of a lookup; None if it raises NotFound."""
    try:
        return lookup()
    except NotFound:
        return None


def first_found(subject: str, *lookups: Callable[[], Found], listed_by: str = "") -> Found:
    """Returns the first result of several lookups. Raises NotFound, with `subject`, if all fail.

    `listed_by`: the command that lists what exists, such as `clusters list`.
    """
    for lookup in lookups:
        if (found := found_or_none(lookup)) is not None:
            return found
    raise NotFound(not_found(subject, listed_by))


def not_found(subject: str, listed_by: str = "") -> str:
    """Returns the message about a missing resource, and the command that lists what exists."""
    hint = f"; `towline {listed_by}` shows what exists" if listed_by else ""
    return f"could not find {subject}{hint}"
