"""Reads and validates manifests of Towline's own kinds.

A document has `apiVersion: towline/v1`, a `kind`, and the fields of that kind; see `shapes`.
Unknown fields are errors, so that a typo never passes silently.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.errors import Invalid
from core.json_object import JsonObject
from towline.cli.apply import pipeline_manifests
from towline.cli.apply.shapes import ANYTHING, SOURCE, STRING_MAP, Fields, check, fields_of
from towline.cli.generators.generated import Template
from towline.cli.lazy_import import load
from towline.cli.services.generated import Service
from towline.input_files import read_text

API_VERSION = "towline/v1"
MAX_BYTES = 5 << 20
_SUFFIXES = (".yaml", ".yml")

GIT_SECRETS = (
    "password",
    "privateKey",
    "passphrase",
    "clientCertificate",
    "clientKey",
    "authority",
    "knownHosts",
    "proxy",
    "webhookSecret",
)
_NOT_IN_MANIFESTS = (
    "httpsPath",
    "urlFormat",
    "decrypt",
    "projectId",
    "viaClusterId",
    "recurseSubmodules",
)
# Fields that all generators have, without their template.
_DEFINITION: Fields = {
    "name": str,
    "project": str,
    "tags": STRING_MAP,
    "distro": str,
    "groups": [str],
    "ignoreClusters": [str],
    "onLeave": str,
    "onDelete": str,
    "deletionBudget": int,
}


@cache
def shapes() -> Mapping[str, Fields]:
    """Fields of each kind, in apply order: a kind comes after the kinds it refers to.

    Most are fields of the API's input objects, with names instead of ids. Of a service and a
    template, they are the fields that the commands also read.
    """
    inputs = load("towline.generated_inputs")
    source = fields_of(inputs.ServiceSourceAttributes, "repositoryId") | {"repository": str}
    helm = fields_of(inputs.HelmConfigAttributes, "repositoryId") | {"repository": str}
    own = {"repository": str, "helm": helm, "configuration": STRING_MAP, "secrets": STRING_MAP}
    service = _written(fields_of(inputs.ServiceUpdateAttributes), Service)
    template = _written(fields_of(inputs.ServiceDeploymentAttributes, "repositoryId"), Template)
    kustomize = fields_of(inputs.KustomizeAttributes, "enableHelm")
    definition = _DEFINITION | {"template": template | own | {"kustomize": kustomize}}
    folders = fields_of(inputs.FolderGeneratorAttributes, "repositoryId") | {"repository": str}
    requests = fields_of(inputs.RequestGeneratorAttributes, "repositoryId") | {"repository": str}
    return {
        "Repository": fields_of(inputs.GitAttributes, *_NOT_IN_MANIFESTS)
        | dict.fromkeys(GIT_SECRETS, SOURCE)
        | {"via": str, "submodules": bool},
        "HelmRepository": {"url": str, "project": str, "username": str, "password": SOURCE},
        "Cluster": {"handle": str, "name": str, "protect": bool, "tags": STRING_MAP},
        "Secret": {
            "name": str,
            "project": str,
            "description": str,
            "value": SOURCE,
            "source": fields_of(inputs.SecretSourceAttributes),
            "refreshSeconds": int,
            "rotation": fields_of(inputs.SecretRotationAttributes),
        },
        "Service": {"cluster": str, "name": str, "namespace": str, "promoted": bool}
        | service
        | own
        | {"kustomize": kustomize, "sources": [source]},
        "Flow": {
            "service": str,
            "exports": [{"name": str, "type": str, "value": ANYTHING, "shared": bool}],
            "imports": [{"alias": str, "service": str, "export": str, "default": ANYTHING}],
        },
        "Context": {
            "name": str,
            "project": str,
            "values": ANYTHING,
            "types": STRING_MAP,
            "secrets": [{"name": str, "value": SOURCE}],
            "secretsByReference": bool,
            "overrides": [{"layer": str, "place": str, "values": ANYTHING}],
        },
        "Pipeline": pipeline_manifests.shape(),
        "ClusterGroup": {
            "name": str,
            "project": str,
            "description": str,
            "tags": STRING_MAP,
            "clusters": [str],
            "maxChanging": int,
        },
        "Namespace": definition
        | {"namespace": str}
        | dict.fromkeys(("labels", "annotations", "quota"), STRING_MAP),
        "GlobalService": definition,
        "ServiceSet": definition
        | {"folders": folders, "items": [STRING_MAP], "requests": requests},
    }


def _written(given: Fields, read: type) -> Fields:
    """Fields that the API accepts and the commands read, to compare them."""
    return {name: shape for name, shape in given.items() if name in read.__annotations__}


_REQUIRED = {
    "Repository": ("url",),
    "HelmRepository": ("url",),
    "Cluster": ("handle",),
    "Secret": ("name",),
    "Service": ("cluster", "name", "namespace"),
    "Flow": ("service",),
    "Context": ("name",),
    "Pipeline": ("name", "stages"),
    "ClusterGroup": ("name",),
    "Namespace": ("name",),
    "GlobalService": ("name", "template"),
    "ServiceSet": ("name", "template"),
}
# In apply order.
KINDS = tuple(_REQUIRED)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One YAML document; `place` is its file and number, `fields` its content."""

    kind: str
    fields: JsonObject
    place: str

    @property
    def label(self) -> str:
        """Name of the resource in messages: `Service dev/web`."""
        fields = self.fields
        if self.kind == "Service":
            return f"Service {fields['cluster']}/{fields['name']}"
        return f"{self.kind} {fields[_REQUIRED[self.kind][0]]}"


def read_manifests(*paths: Path) -> list[Manifest]:
    """Reads files, and all YAML files under folders, and sorts the documents by kind.

    The path `-` is standard input. Invalid: a path has no documents, or a document is wrong; the
    message names the document and the field.
    """
    found: list[Manifest] = []
    for path in paths:
        before = len(found)
        found += [manifest for file in _files(path) for manifest in _read(file)]
        if len(found) == before:
            raise Invalid(f"{path} contains no {API_VERSION} documents")
    return sorted(found, key=lambda manifest: KINDS.index(manifest.kind))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
    return [path]


def _read(path: Path) -> Iterator[Manifest]:
    yaml = load("yaml")
    try:
        documents = list(yaml.safe_load_all(read_text(path, "--file", limit=MAX_BYTES)))
    except yaml.YAMLError as error:
        raise Invalid(f"{path} is not YAML: {error}") from None
    for number, document in enumerate(documents, 1):
        if document is not None:
            place = f"{path}, document {number}"
            try:
                manifest = _manifest(document, place)
            except RecursionError:
                raise Invalid(f"{place} contains itself through a YAML alias") from None
            yield manifest


def _manifest(document: object, place: str) -> Manifest:
    if not isinstance(document, dict) or document.get("apiVersion") != API_VERSION:
        raise Invalid(f"{place}: apiVersion is not {API_VERSION}")
    kind = document.get("kind")
    if kind not in KINDS:
        raise Invalid(f"{place}: unknown kind {kind!r}; expected one of {', '.join(KINDS)}")
    fields = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    check(fields, shapes()[kind], place, kind)
    if missing := [key for key in _REQUIRED[kind] if key not in fields]:
        raise Invalid(f"{place}: {kind} requires the field {missing[0]}")
    return Manifest(kind, fields, place)
