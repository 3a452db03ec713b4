"""Warnings about fields that other managers set, such as a configuration source."""

from collections.abc import Collection, Mapping

from core.errors import TowlineError
from towline.cli.manifests.generated import FieldManager, field_managers
from towline.cli.shell.output import say
from towline.operations import GraphQLApi


def warn_of_managers(api: GraphQLApi, kind: str, name: str, changed: Collection[str]) -> None:
    """Says which changed fields of a resource others set as well, and what they do to the change.

    `changed` has fields of the spec, such as `ref` or `helm.values`. The change is done already, so
    a failure of the query is no failure of the command.
    """
    try:
        managers = field_managers(api, kind, name)
    except TowlineError:
        return
    for manager in managers:
        fields = sorted(field for field in changed if _sets(manager, field))
        if fields:
            say(f"warning: {_consequence(manager, ', '.join(fields))}")


def fields_of(attributes: Mapping[str, object]) -> set[str]:
    """Returns the fields of the spec that given attributes change."""
    given = {name for name, value in attributes.items() if value is not None}
    # A manifest refers to another resource by its name, without an ID.
    return given | {name.removesuffix("Id") for name in given}


def _sets(manager: FieldManager, field: str) -> bool:
    """Reports whether a manager set a field, a part of it, or the object around it."""
    path = f"spec.{field}."
    others = [f"{other}." for other in manager["fields"]]
    return any(path.startswith(other) or other.startswith(path) for other in others)


def _consequence(manager: FieldManager, fields: str) -> str:
    source = manager["source"]
    if source is None:
        return f"manager {manager['manager']} set {fields}: its next apply may revert the change"
    if not manager["reverts"]:
        return (
            f"configuration source {source} manages {fields}, and its next commit overwrites the "
            "change: change it in Git as well"
        )
    return (
        f"configuration source {source} manages {fields}, and its next check reverts the change: "
        f"change it in Git, or run `towline config-sources suspend {source}` first"
    )
