"""Reads values of secrets from environment variables and files, before manifests are sent.

The schema of a kind tells where a secret stands. The text of a file keeps its lines, so that the
control plane names the lines that the user sees.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from core.errors import Invalid, NotFound
from core.json_object import JsonObject, JsonValue
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
    value: JsonValue
    """Text, nodes, or pairs of nodes."""
    start_mark: "Mark"
    end_mark: "Mark"


ReadSchema = Callable[[str], JsonObject | None]
ReadValue = Callable[[Path, str, str], str]
"""Returns a value: arguments are the manifest, `env` or `file`, and the name."""


def with_values(
    api: GraphQLApi, sources: list["ManifestSource"], *, read: ReadValue | None = None
) -> list["ManifestSource"]:
    """Returns the files with the values of secrets. Invalid: a variable or a file is missing."""

    @cache
    def schema(kind: str) -> JsonObject | None:
        try:
            found: JsonObject = json.loads(operations.manifest_schema(api, kind))
        except NotFound:
            return None
        return found

    return [
        {**source, "content": _resolved(source, schema, read or value_of)} for source in sources
    ]


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


def _resolved(source: "ManifestSource", schema: ReadSchema, read: ReadValue) -> str:
    content, file = source["content"].removeprefix("\ufeff"), Path(source["file"])
    if "env" not in content and "file" not in content:
        return content
    found = {node.start_mark.index: node for node in _secrets_in(content, schema)}
    pieces, end = [], len(content)
    for start in sorted(found, reverse=True):
        node = found[start]
        try:
            value = read(file, *_source_of(node))
        except Invalid as error:
            line = node.start_mark.line + 1
            raise Invalid(f"{file}:{line}: {error.message}", field="--file") from None
        stop = node.end_mark.index
        pieces += [content[stop:end], _written(value, content[start:stop])]
        end = start
    return "".join(reversed([*pieces, content[:end]]))


def _secrets_in(content: str, schema: ReadSchema) -> Iterator[YamlNode]:
    """Yields the objects that stand for the text of a secret."""
    yaml = load("yaml")
    try:
        documents = list(yaml.compose_all(content, Loader=yaml.CSafeLoader))
    except yaml.YAMLError:
        # The control plane names the line, with all other problems.
        return
    for document in documents:
        kind = _scalar_in(document, "kind")
        found = schema(kind) if kind else None
        if found is not None:
            yield from _walk(document, found, found.get("$defs", {}))


def _walk(
    node: YamlNode, schema: JsonObject, shared: JsonObject, depth: int = 0
) -> Iterator[YamlNode]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name == SECRET:
        if node.id == "mapping":
            yield node
        return
    schema = shared.get(name, schema)
    if depth > MAX_DEPTH:
        return
    if node.id == "sequence" and "items" in schema:
        for item in node.value:
            yield from _walk(item, schema["items"], shared, depth + 1)
    if node.id == "mapping":
        schema = _option(schema, node)
        properties: Mapping[str, JsonObject] = schema.get("properties", {})
        others = schema.get("additionalProperties")
        for key, value in node.value:
            inner = properties.get(key.value) if key.id == "scalar" else None
            inner = inner or (others if isinstance(others, dict) else None)
            if inner is not None:
                yield from _walk(value, inner, shared, depth + 1)


def _option(schema: JsonObject, node: YamlNode) -> JsonObject:
    """Returns the schema of a plug-in by the kind that the object names."""
    kind = _scalar_in(node, "kind")
    options: list[JsonObject] = schema.get("oneOf", [])
    found = (
        option
        for option in options
        if option.get("properties", {}).get("kind", {}).get("const") == kind
    )
    return next(found, schema)


def _scalar_in(node: YamlNode | None, name: str) -> str:
    if node is None or node.id != "mapping":
        return ""
    found = (value for key, value in node.value if key.value == name and value.id == "scalar")
    return next((str(value.value) for value in found), "")


def _source_of(node: YamlNode) -> tuple[str, str]:
    pairs = [(key.value, value.value) for key, value in node.value]
    if len(pairs) != 1 or pairs[0][0] not in ("env", "file") or not isinstance(pairs[0][1], str):
        raise Invalid("a secret is a text, {env: NAME} or {file: PATH}")
    return pairs[0]


def _written(value: str, before: str) -> str:
    """Returns a text in quotes with as many lines as the object before."""
    yaml = load("yaml")
    quoted = yaml.safe_dump(value, default_style='"', width=sys.maxsize).rstrip("\n")
    _, newline, indent = before.rpartition("\n")
    return quoted + "\n" * before.count("\n") + (indent if newline and not indent.strip() else "")
