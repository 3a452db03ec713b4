"""Services that documents define, one in each YAML document.

name: shop
namespace: shop
folder: manifests/shop        # of `repository` at `ref`; without these, beside the document
options: {createNamespace: true, drift: report, keepOnPrune: false}
helm: {valuesFiles: [prod.yaml], values: {replicas: 2}}    # if it is a chart
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

import yaml

from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject
from core.spec.sync import DriftPolicy, SyncOptions
from syncagent.autonomy.helm import release_of
from syncagent.domain.local_services import Document, ServiceDefinition

MAX_SERVICES = 1000
MAX_DOCUMENT = 256 << 10
_MAX_MERGED = 100_000
# Errors of the YAML and JSON parsers; invalid values (`2024-99-99`, `!!int ""`, `!!bool x`) raise
# many kinds.
YAML_ERRORS = (
    yaml.YAMLError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
_TEXTS = {"name", "namespace", "folder", "repository", "ref"}
_FIELDS = {*_TEXTS, "options", "helm"}
_OPTIONS = {
    "createNamespace": "create_namespace",
    "keepOnPrune": "keep_on_prune",
    "replaceImmutable": "replace_immutable",
    "paused": "paused",
    "dryRun": "dry_run",
}


@dataclass(frozen=True, slots=True)
class ParsedDefinitions:
    """Result of reading all places.
    `problems`: documents that cannot be used, with reasons. `has_empty_source`: a place holds no
    document at all, so it defines neither services nor their absence; an empty document means "no
    services". `unread`: places that could not be read, mostly for a moment.
    """

    services: tuple[ServiceDefinition, ...]
    problems: tuple[str, ...]
    has_empty_source: bool = False
    unread: tuple[str, ...] = ()


class BoundedYamlLoader(yaml.CSafeLoader):
    """YAML loader that limits the growth of maps by merge keys (`<<`)."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > _MAX_MERGED:
            raise Invalid(f"a map grows beyond {_MAX_MERGED:,} fields by its merge keys")


class DefinitionReader:
    """Reads documents; unchanged documents are not parsed again."""

    def __init__(self) -> None:
        self._read: dict[Document, list[ServiceDefinition]] = {}

    def read(self, documents: Iterable[Document]) -> ParsedDefinitions:
        """Parses all definitions; an invalid or duplicate one becomes a problem."""
        found: dict[str, ServiceDefinition] = {}
        problems: list[str] = []
        read: dict[Document, list[ServiceDefinition]] = {}
        for document in documents:
            try:
                known = self._read.get(document)
                read[document] = _parse(document) if known is None else known
                _add_definitions(found, read[document])
            except Invalid as error:
                problems.append(f"{document.origin}: {error.message}")
        self._read = read
        return ParsedDefinitions(tuple(found.values()), tuple(problems))


def first_line(error: Exception) -> str:
    """First line of an error's message."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _add_definitions(
    found: dict[str, ServiceDefinition], definitions: Iterable[ServiceDefinition]
) -> None:
    for definition in definitions:
        if definition.name in found:
            raise Invalid(f"the service {definition.name} is defined twice")
        if len(found) >= MAX_SERVICES:
            raise Invalid(f"more than {MAX_SERVICES:,} services in one cluster")
        found[definition.name] = definition


def _parse(document: Document) -> list[ServiceDefinition]:
    if len(document.text) > MAX_DOCUMENT:
        raise Invalid(f"longer than {MAX_DOCUMENT:,} characters")
    try:
        raws = list(yaml.load_all(document.text, BoundedYamlLoader))
    except YAML_ERRORS as error:
        raise Invalid(f"is not YAML: {first_line(error)}") from error
    return [_parse_definition(raw, document) for raw in raws if raw is not None]


def _parse_definition(raw: object, document: Document) -> ServiceDefinition:
    if not isinstance(raw, dict) or not raw.keys() <= _FIELDS:
        raise Invalid(f"a service has unknown fields; expected {', '.join(sorted(_FIELDS))}")
    texts: JsonObject = {name: raw[name] for name in _TEXTS if name in raw}
    if not all(isinstance(text, str) and text for text in texts.values()):
        raise Invalid("name, namespace, folder, repository and ref are texts")
    if missing := {"name", "namespace", "folder"} - texts.keys():
        raise Invalid(f"{', '.join(sorted(missing))} is missing")
    if PurePosixPath(texts["folder"]).is_absolute() or ".." in PurePosixPath(texts["folder"]).parts:
        raise Invalid(f"the folder {texts['folder']} leads outside its root")
    if document.repository and "repository" not in texts:
        texts = {"ref": document.ref} | texts | {"repository": document.repository}
    helm = release_of(raw["helm"], texts["name"], texts["namespace"]) if "helm" in raw else None
    if helm is not None and "repository" not in texts:
        raise Invalid("helm needs a repository: folders beside the document are plain manifests")
    own: JsonObject = _parse_options(raw.get("options") or {})
    return ServiceDefinition(**texts, **own, helm=helm)


def _parse_options(raw: JsonMapping) -> JsonObject:
    """Returns the options, and the fields of the definition that are given among them."""
    if not isinstance(raw, dict) or not raw.keys() <= {*_OPTIONS, "drift"}:
        raise Invalid(f"unknown options; expected {', '.join([*_OPTIONS, 'drift'])}")
    options: JsonObject = {field: raw[name] for name, field in _OPTIONS.items() if name in raw}
    if not all(isinstance(value, bool) for value in options.values()):
        raise Invalid("all options except drift must be true or false")
    drift = raw.get("drift", DriftPolicy.HEAL.value)
    if not isinstance(drift, str) or drift not in set(DriftPolicy):
        raise Invalid(f"drift must be one of {', '.join(DriftPolicy)}")
    own = {field: options.pop(field, False) for field in ("dry_run", "paused")}
    return {"options": SyncOptions(**options, drift=DriftPolicy(drift)), **own}
