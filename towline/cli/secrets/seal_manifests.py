"""`towline secrets seal-manifests`: seals the secret fields of manifests for Git."""

import base64
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from core.errors import Invalid
from core.json_object import JsonObject
from core.sealed_places import SEALED, SealedPlace, destination_of
from towline.cli.lazy_import import load
from towline.cli.manifests.values import (
    ReadSchema,
    SecretNode,
    YamlNode,
    is_sealed,
    replace_nodes,
    scalar_in,
    schemas_of,
    secrets_in,
    text_of,
)
from towline.cli.secrets import generated as operations
from towline.cli.shell.session import connect
from towline.input_files import read_text


def seal_manifests(
    context: typer.Context,
    file: Annotated[Path, typer.Option("-f", "--file", help="YAML file; - reads standard input.")],
) -> None:
    """Print manifests with sealed values instead of their secrets, such as for Git.

    Each value belongs to its field of its resource, in its project, and to the receivers that are
    named beside it. The control plane does not receive the values.

    \b
    Example:
      towline secrets seal-manifests -f sink.yaml > fleet/sink.yaml
    """
    content, api = read_text(file), connect(context)
    public = base64.b64decode(operations.sealing_key(api)["sealingKey"])
    print(sealed_text(public, schemas_of(api), file, content), end="")


def sealed_text(public: bytes, schema: ReadSchema, file: Path, content: str) -> str:
    """Returns manifests with sealed values. Invalid: no secret, or one without a value."""
    content = content.removeprefix("\ufeff")
    replacements = [
        (secret.node, partial(_seal_node, public, schema, secret, file))
        for secret in secrets_in(content, schema)
        if not is_sealed(secret.node)
    ]
    if not replacements:
        raise Invalid("the file has no plain secrets", field="--file")
    return replace_nodes(file, content, replacements)


def _seal_node(public: bytes, schema: ReadSchema, secret: SecretNode, file: Path) -> JsonObject:
    plain = text_of(secret.node, file)
    if not plain:
        raise Invalid("the value is empty")
    destination = _destination(schema, secret, file)
    return {SEALED: load("core.sealed_values").seal_field(public, destination, plain)}


def _destination(schema: ReadSchema, secret: SecretNode, file: Path) -> SealedPlace:
    kind, name = scalar_in(secret.document, "kind"), scalar_in(secret.document, "metadata", "name")
    if not name:
        raise Invalid("the document has no metadata.name")
    project = scalar_in(secret.document, "metadata", "project") or _default_project(schema(kind))
    receivers = {name: _receiver(name, node, file) for name, node in secret.destination.items()}
    destination = destination_of(receivers, receivers)
    return SealedPlace(kind, name, project, secret.path, destination)


def _receiver(name: str, node: YamlNode, file: Path) -> str:
    if is_sealed(node):
        raise Invalid(
            f"belongs to {name}, which is sealed already: seal both at once, from plain values"
        )
    return "" if node.tag.endswith(":null") else text_of(node, file)


def _default_project(schema: JsonObject | None) -> str:
    metadata: JsonObject = (schema or {})["properties"]["metadata"]["properties"]
    default: str = metadata.get("project", {}).get("default", "")
    return default
