"""Reads values of secrets from environment variables and files, before manifests are sent.

The schema of a kind tells where a secret stands. The text of a file keeps its lines, so that the
control plane names the lines that the user sees.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from core.errors import Invalid, NotFound
from core.json_object import JsonObject, JsonValue
from core.sealed_places import SEALED, item_name
from towline.cli.lazy_import import load
from towline.cli.manifests import generated as operations
from towline.input_files import STDIN, read_text
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from yaml import Mark

    from towline.generated_inputs import ManifestSource

SECRET = "SecretText"
"""Name of the type that texts of secrets have in schemas."""
MAX_DEPTH = 64


class YamlNode(Protocol):
    """A node of a parsed document: the parser's stubs leave out `id`."""

    id: str
    """`scalar`, `sequence` or `mapping`."""
    tag: str
    value: JsonValue
    """Text, nodes, or pairs of nodes."""
    start_mark: "Mark"
    end_mark: "Mark"


@dataclass(frozen=True)
class SecretNode:
    """The value of a secret field."""

    node: YamlNode
    document: YamlNode
    path: tuple[str, ...]
    """Fields of the spec that lead to the value, as in a `SealedPlace`."""
    destination: Mapping[str, YamlNode]
    """Fields beside it that tell who receives the value."""


ReadSchema = Callable[[str], JsonObject | None]
ReadValue = Callable[[Path, str, str], str]
"""Returns a value: arguments are the manifest, `env` or `file`, and the name."""


def fill_secret_values(
    api: GraphQLApi, sources: list["ManifestSource"], *, read: ReadValue | None = None
) -> list["ManifestSource"]:
    """Returns the files with the values of secrets. Invalid: a variable or a file is missing."""

    schema = schemas_of(api)
    return [
        {**source, "content": _fill_secrets(source, schema, read or value_of)} for source in sources
    ]


def schemas_of(api: GraphQLApi) -> ReadSchema:
    """Returns a function that asks for the schema of each kind once."""

    @cache
    def schema(kind: str) -> JsonObject | None:
        try:
            found: JsonObject = json.loads(operations.manifest_schema(api, kind))
        except NotFound:
            return None
        return found

    return schema


def value_of(manifest: Path, kind: str, name: str) -> str:
    """Reads a variable, or a file beside a manifest. Invalid: there is none."""
    if kind == "file":
        return read_text(Path(name) if manifest == STDIN else manifest.parent / name)
    if name not in os.environ:
        raise Invalid(f"environment variable {name} is not set")
    return os.environ[name]


def no_value(_manifest: Path, _kind: str, _name: str) -> str:
    """Stands for a value that nobody needs, as for a deletion."""
    return ""


def _fill_secrets(source: "ManifestSource", schema: ReadSchema, read: ReadValue) -> str:
    content, file = source["content"].removeprefix("\ufeff"), Path(source["file"])
    if "env" not in content and "file" not in content:
        return content
    replacements = [
        (secret.node, partial(_read, read, file, secret.node))
        for secret in secrets_in(content, schema)
        if secret.node.id == "mapping" and not is_sealed(secret.node)
    ]
    return replace_nodes(file, content, replacements)


def _read(read: ReadValue, manifest: Path, node: YamlNode) -> str:
    return read(manifest, *_source_of(node))


def replace_nodes(
    file: Path, content: str, replacements: Iterable[tuple[YamlNode, Callable[[], JsonValue]]]
) -> str:
    """Returns a file in which the values of nodes are replaced. Invalid: names the line."""
    by_start = {node.start_mark.index: (node, value) for node, value in replacements}
    pieces, end = [], len(content)
    for start in sorted(by_start, reverse=True):
        node, value = by_start[start]
        try:
            text = value()
        except Invalid as error:
            line = node.start_mark.line + 1
            raise Invalid(f"{file}:{line}: {error.message}", field="--file") from None
        stop = node.end_mark.index
        pieces += [content[stop:end], _encode_value(text, content[start:stop])]
        end = start
    return "".join(reversed([*pieces, content[:end]]))


def secrets_in(content: str, schema: ReadSchema) -> Iterator[SecretNode]:
    """Yields the values of secret fields."""
    yaml = load("yaml")
    try:
        documents = list(yaml.compose_all(content, Loader=yaml.CSafeLoader))
    except yaml.YAMLError:
        # The control plane names the line, with all other problems.
        return
    for document in documents:
        kind = scalar_in(document, "kind")
        kind_schema = schema(kind) if kind else None
        if kind_schema is not None:
            yield from _SecretFinder(document, kind_schema.get("$defs", {})).secrets(
                document, kind_schema
            )


@dataclass(frozen=True)
class _SecretFinder:
    """Finds the secrets of a document."""

    document: YamlNode
    shared: JsonObject

    def secrets(
        self,
        node: YamlNode,
        schema: JsonObject,
        path: tuple[str, ...] = (),
        destination: Mapping[str, YamlNode] = MappingProxyType({}),
    ) -> Iterator[SecretNode]:
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name == SECRET:
            yield SecretNode(node, self.document, path[1:], destination)
        elif len(path) <= MAX_DEPTH:
            yield from self._secrets_inside(node, self.shared.get(name, schema), path, destination)

    def _secrets_inside(
        self,
        node: YamlNode,
        schema: JsonObject,
        path: tuple[str, ...],
        destination: Mapping[str, YamlNode],
    ) -> Iterator[SecretNode]:
        if node.id == "sequence" and "items" in schema:
            for item in node.value:
                inner = (*path, item_name(_scalars_of(item)))
                yield from self.secrets(item, schema["items"], inner)
        if node.id != "mapping":
            return
        schema = _plugin_schema(schema, node)
        properties: Mapping[str, JsonObject] = schema.get("properties", {})
        public = destination
        if properties:
            fields = _fields_of(node)
            destination_fields = {
                key for key, inner in properties.items() if inner.get("x-destination")
            }
            destination = {key: fields[key] for key in destination_fields & fields.keys()}
            # A secret destination cannot belong to itself.
            public = {k: v for k, v in destination.items() if not _is_secret(properties[k])}
        additional = schema.get("additionalProperties")
        for key, value in node.value:
            inner = properties.get(key.value) if key.id == "scalar" else None
            inner = inner or (additional if isinstance(additional, dict) else None)
            if inner is not None:
                receivers = public if key.value in destination else destination
                yield from self.secrets(value, inner, (*path, key.value), receivers)


def _is_secret(schema: JsonObject) -> bool:
    return str(schema.get("$ref", "")).endswith(f"/{SECRET}")


def _plugin_schema(schema: JsonObject, node: YamlNode) -> JsonObject:
    """Returns the schema of a plug-in by the kind that the object names."""
    kind = scalar_in(node, "kind")
    options: list[JsonObject] = schema.get("oneOf", [])
    matching = (
        option
        for option in options
        if option.get("properties", {}).get("kind", {}).get("const") == kind
    )
    return next(matching, schema)


def scalar_in(node: YamlNode | None, *path: str) -> str:
    """Returns a text of an object, or of an object inside; empty if there is none."""
    *keys, last = path
    for key in keys:
        node = _fields_of(node).get(key) if node is not None else None
    return _scalars_of(node).get(last, "") if node is not None else ""


def _scalars_of(node: YamlNode) -> dict[str, str]:
    """Returns the texts of an object, without those that mean null."""
    return {
        key: str(value.value)
        for key, value in _fields_of(node).items()
        if value.id == "scalar" and not value.tag.endswith(":null")
    }


def _fields_of(node: YamlNode) -> dict[str, YamlNode]:
    return {key.value: value for key, value in node.value} if node.id == "mapping" else {}


def is_sealed(node: YamlNode) -> bool:
    """Returns whether the value of a secret field is sealed."""
    return SEALED in _fields_of(node)


def text_of(node: YamlNode, manifest: Path) -> str:
    """Returns the plain text of a secret field: its own, or that of its source."""
    return str(node.value) if node.id == "scalar" else _read(value_of, manifest, node)


def _source_of(node: YamlNode) -> tuple[str, str]:
    pairs = [(key.value, value.value) for key, value in node.value]
    if len(pairs) != 1 or pairs[0][0] not in ("env", "file") or not isinstance(pairs[0][1], str):
        raise Invalid("a secret is a text, {env: NAME}, {file: PATH} or {sealed: VALUE}")
    return pairs[0]


def _encode_value(value: JsonValue, source: str) -> str:
    """Returns a text in quotes, or an object, with as many lines as the value before."""
    yaml = load("yaml")
    style = '"' if isinstance(value, str) else None
    quoted = yaml.safe_dump(
        value, default_style=style, default_flow_style=True, width=sys.maxsize
    ).rstrip("\n")
    _, newline, indent = source.rpartition("\n")
    return quoted + "\n" * source.count("\n") + (indent if newline and not indent.strip() else "")
