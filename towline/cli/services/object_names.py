"""Names of objects in commands: `Namespace/shop`, `StatefulSet/shop/db`, `job.batch/shop/a`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from core.errors import Invalid
from towline.cli.services.generated import PendingDeletion

if TYPE_CHECKING:
    from towline.generated_inputs import ObjectAttributes

# Every object has at least the fields of a pending deletion.
ObjectName = PendingDeletion
"""Kind, API group, namespace and name of an object."""
T = TypeVar("T", bound=ObjectName)


def name_of(thing: ObjectName) -> str:
    """Name of an object in the form commands accept."""
    return "/".join(part for part in (thing["kind"], thing["namespace"], thing["name"]) if part)


def attributes_of(thing: ObjectName) -> "ObjectAttributes":
    """Attributes of an object for the API."""
    return {
        "kind": thing["kind"],
        "name": thing["name"],
        "group": thing["group"],
        "namespace": thing["namespace"],
    }


def title_of(thing: ObjectName) -> str:
    """Name of an object for people, such as `Deployment shop/web`."""
    return f"{thing['kind']} {'/'.join(filter(None, (thing['namespace'], thing['name'])))}"


def kind_word(thing: ObjectName) -> str:
    """Kind as kubectl reads it, such as `Deployment.apps`."""
    return ".".join(filter(None, (thing["kind"], thing["group"])))


def parse_name(text: str) -> tuple[str, str | None, str]:
    """Splits a name into kind or kind.group, the namespace if given, and name. Raises Invalid."""
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise Invalid(f"{text!r} is not kind/name or kind/namespace/name")
    return parts[0], parts[1] if len(parts) == 3 else None, parts[-1]


def find_object(known: Sequence[T], text: str) -> T | None:
    """Finds one object by its name; the kind ignores case and may have a group: `job.batch`.

    Invalid: a malformed or ambiguous name.
    """
    kind, namespace, name = parse_name(text)
    meant = [
        thing
        for thing in known
        if kind.lower() in _kinds(thing)
        and name == thing["name"]
        and namespace in (None, thing["namespace"])
    ]
    if len(meant) > 1:
        raise Invalid(f"several objects match {text}; use kind.group/namespace/name")
    return meant[0] if meant else None


def _kinds(thing: ObjectName) -> tuple[str, str]:
    kind = thing["kind"].lower()
    return kind, f"{kind}.{thing['group'] or ''}"
