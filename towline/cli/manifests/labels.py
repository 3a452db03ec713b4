"""`towline label`."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.manifests import generated as operations
from towline.cli.manifests.plans import problem_lines
from towline.cli.shell.output import say
from towline.cli.shell.session import connect

_MANAGER = "label"


def label(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="Kind of manifest, such as service.")],
    name: Annotated[str, typer.Argument(help="Name; that of a service contains its cluster.")],
    labels: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE", help="Label; NAME- removes one.")
    ],
) -> None:
    """Set or remove labels of a resource. The next apply of its manifest replaces them.

    \b
    Example:
      towline label service eu-1/web team=shop tier-
      towline label cluster eu-1 owner=platform
    """
    api = connect(context)
    manifest = json.loads(operations.manifest(api, kind=kind, name=name))
    manifest["metadata"]["labels"] = apply_label_changes(
        manifest["metadata"].get("labels", {}), labels
    )
    # Without a spec, the apply changes no field of another manager.
    document = {key: value for key, value in manifest.items() if key != "spec"}
    plan = operations.apply_manifests(
        api,
        [{"file": "labels", "content": json.dumps(document)}],
        options={"manager": _MANAGER},
    )
    if plan["problems"]:
        raise Invalid("\n".join(problem_lines(plan["problems"])))
    label_text = ",".join(f"{key}={value}" for key, value in manifest["metadata"]["labels"].items())
    say(f"labels of {manifest['kind']} {name}: {label_text or 'none'}")


def apply_label_changes(labels: Mapping[str, str], arguments: Iterable[str]) -> dict[str, str]:
    """Returns labels after changes such as `team=shop` and `tier-`. Raises Invalid."""
    result = dict(labels)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if equals and key:
            result[key] = value
        elif argument.endswith("-") and len(argument) > 1:
            result.pop(argument[:-1], None)
        else:
            raise Invalid(f"{argument!r} is neither NAME=VALUE nor NAME-", field="labels")
    return dict(sorted(result.items()))
