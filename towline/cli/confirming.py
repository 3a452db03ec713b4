"""Which deletions that wait for a person `towline services confirm` means."""

from collections.abc import Sequence

from fleet.errors import Invalid, NotFound
from towline.cli.session import Json


def chosen(awaiting: Sequence[Json], things: Sequence[str]) -> list[Json]:
    """Those that are named, each once; all without names. NotFound: one, or any, does not wait.

    Invalid: a name is none, or several objects have it.
    """
    if not awaiting:
        raise NotFound("nothing waits for a confirmation")
    found = [_meant(awaiting, thing) for thing in things] or list(awaiting)
    return [one for place, one in enumerate(found) if one not in found[:place]]


def name_of(thing: Json) -> str:
    """An object as commands take it: `Namespace/shop`, `StatefulSet/shop/db`."""
    return "/".join(part for part in (thing["kind"], thing["namespace"], thing["name"]) if part)


def attributes_of(thing: Json) -> Json:
    """An object as the API takes it."""
    return {key: thing[key] for key in ("kind", "name", "group", "namespace")}


def _meant(awaiting: Sequence[Json], thing: str) -> Json:
    """Kinds are read in any case, also with their group: `job.batch`."""
    parts = thing.split("/")
    if len(parts) not in (2, 3):
        raise Invalid(f"{thing!r} is not kind/name or kind/namespace/name")
    kind, *place, name = parts
    meant = [
        one
        for one in awaiting
        if kind.lower() in _kinds(one) and name == one["name"] and place in ([], [one["namespace"]])
    ]
    if not meant:
        waiting = ", ".join(name_of(one) for one in awaiting[:5])
        raise NotFound(f"{thing} does not wait for a confirmation; these do: {waiting}")
    if len(meant) > 1:
        raise Invalid(f"several are called {thing}: say kind.group/namespace/name")
    return meant[0]


def _kinds(one: Json) -> tuple[str, str]:
    kind = one["kind"].lower()
    return kind, f"{kind}.{one['group'] or ''}"
