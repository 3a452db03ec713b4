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


def name_of(ref: ObjectName) -> str:
    """Name of an object in the form commands accept."""
    return "/".join(part for part in (ref["kind"], ref["namespace"], ref["name"]) if part)


def attributes_of(ref: ObjectName) -> "ObjectAttributes":
    """Attributes of an object for the API."""
    return {
        "kind": ref["kind"],
        "name": ref["name"],
        "group": ref["group"],
        "namespace": ref["namespace"],
    }


def title_of(ref: ObjectName) -> str:
    """Name of an object for people, such as `Deployment shop/web`."""
    return f"{ref['kind']} {'/'.join(filter(None, (ref['namespace'], ref['name'])))}"


def kind_word(ref: ObjectName) -> str:
    """Kind as kubectl reads it, such as `Deployment.apps`."""
    return ".".join(filter(None, (ref["kind"], ref["group"])))


def parse_name(text: str) -> tuple[str, str | None, str]:
    """Splits a name into kind or kind.group, the namespace if given, and name. Raises Invalid."""
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise Invalid(f"{text!r} is not kind/name or kind/namespace/name")
    return parts[0], parts[1] if len(parts) == 3 else None, parts[-1]


def find_object(candidates: Sequence[T], text: str) -> T | None:
    """Finds one object by its name; the kind ignores case and may have a group: `job.batch`.

    Invalid: a malformed or ambiguous name.
    """
    kind, namespace, name = parse_name(text)
    matching = [
        candidate
        for candidate in candidates
        if kind.lower() in _kinds(candidate)
        and name == candidate["name"]
        and namespace in (None, candidate["namespace"])
    ]
    if len(matching) > 1:
        raise Invalid(f"several objects match {text}; use kind.group/namespace/name")
    return matching[0] if matching else None


def _kinds(ref: ObjectName) -> tuple[str, str]:
    kind = ref["kind"].lower()
    return kind, f"{kind}.{ref['group'] or ''}"
