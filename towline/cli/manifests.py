"""Reads and validates manifests of Towline's own kinds.

A document has `apiVersion: towline/v1`, a `kind`, and the fields of that kind; see `SHAPES`.
Unknown fields are errors, so that a typo never passes silently.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import Invalid
from towline.cli import pipeline_manifests
from towline.cli.lazy_import import load

API_VERSION = "towline/v1"
MAX_BYTES = 5 << 20
_SUFFIXES = (".yaml", ".yml")

# A shape is a type, [shape] for a list, a dict for an object, WORDS for a map of strings,
# ANYTHING for a value that only the API validates.
STRING_MAP = "map of strings"
ANYTHING = "any value"
_SOURCE = {"env": str, "file": str}
_HELM = {
    "repository": str,
    "chart": str,
    "version": str,
    "url": str,
    "release": str,
    "values": str,
    "valuesFiles": [str],
    "ignoreHooks": bool,
    "ignoreCrds": bool,
}
_TEMPLATE = {
    "name": str,
    "namespace": str,
    "repository": str,
    "git": {"ref": str, "folder": str},
    "kustomize": {"path": str},
    "helm": _HELM,
    "templated": bool,
    "protect": bool,
    "configuration": STRING_MAP,
    "secrets": STRING_MAP,
    "verification": pipeline_manifests.VERIFICATION,
}
# Fields that all generators have.
_DEFINITION = {
    "name": str,
    "project": str,
    "tags": STRING_MAP,
    "distro": str,
    "groups": [str],
    "ignoreClusters": [str],
    "onLeave": str,
    "onDelete": str,
    "deletionBudget": int,
    "template": _TEMPLATE,
}
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "Repository": {
        "url": str,
        "username": str,
        "password": _SOURCE,
        "privateKey": _SOURCE,
        "passphrase": _SOURCE,
        "appId": str,
        "installationId": str,
        "apiUrl": str,
        "clientCertificate": _SOURCE,
        "clientKey": _SOURCE,
        "authority": _SOURCE,
        "knownHosts": _SOURCE,
        "proxy": _SOURCE,
        "webhookSecret": _SOURCE,
        "via": str,
        "submodules": bool,
    },
    "HelmRepository": {"url": str, "project": str, "username": str, "password": _SOURCE},
    "Cluster": {"handle": str, "name": str, "protect": bool, "tags": STRING_MAP},
    "Secret": {
        "name": str,
        "project": str,
        "description": str,
        "value": _SOURCE,
        "source": {"kind": str, "store": str, "path": str, "key": str, "readerId": str},
        "refreshSeconds": int,
        "rotation": {
            "batch": int,
            "soakSeconds": int,
            "timeoutSeconds": int,
            "automatic": bool,
        },
    },
    "Service": {
        "cluster": str,
        "name": str,
        "namespace": str,
        "repository": str,
        "git": {"ref": str, "folder": str},
        "kustomize": {"path": str},
        "helm": _HELM,
        "sources": [{"repository": str, "ref": str, "folder": str, "path": str}],
        "templated": bool,
        "protect": bool,
        "promoted": bool,
        "paused": bool,
        "configuration": STRING_MAP,
        "secrets": STRING_MAP,
        "verification": pipeline_manifests.VERIFICATION,
    },
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
        "secrets": [{"name": str, "value": _SOURCE}],
        "secretsByReference": bool,
        "overrides": [{"layer": str, "place": str, "values": ANYTHING}],
    },
    "Pipeline": pipeline_manifests.SHAPE,
    "ClusterGroup": {
        "name": str,
        "project": str,
        "description": str,
        "tags": STRING_MAP,
        "clusters": [str],
        "maxChanging": int,
    },
    "Namespace": {
        **_DEFINITION,
        "namespace": str,
        "labels": STRING_MAP,
        "annotations": STRING_MAP,
        "quota": STRING_MAP,
    },
    "GlobalService": _DEFINITION,
    "ServiceSet": {
        **_DEFINITION,
        "folders": {"repository": str, "ref": str, "pattern": str, "excluded": [str]},
        "items": [STRING_MAP],
        "requests": {
            "repository": str,
            "labels": [str],
            "base": str,
            "limit": int,
            "ttlHours": int,
            "provider": str,
        },
    },
}
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
_TYPE_NAMES: Mapping[type, str] = {
    str: "text (quote it)",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}
# In apply order: a kind comes after the kinds it refers to.
KINDS = tuple(SHAPES)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One YAML document; `place` is its file and number, `fields` its content."""

    kind: str
    fields: Mapping[str, Any]
    place: str

    @property
    def label(self) -> str:
        """Name of the resource in messages: `Service dev/web`."""
        fields = self.fields
        if self.kind == "Service":
            return f"Service {fields['cluster']}/{fields['name']}"
        return f"{self.kind} {fields[_REQUIRED[self.kind][0]]}"


def read_manifests(path: Path) -> list[Manifest]:
    """Reads a file, or all YAML files under a folder, and sorts the documents by kind.

    Invalid: a document is wrong; the message names the document and the field.
    """
    if not path.exists():
        raise Invalid(f"file {path} does not exist")
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
    found = [manifest for file in files for manifest in _read(file)]
    if not found:
        raise Invalid(f"{path} contains no {API_VERSION} documents")
    return sorted(found, key=lambda manifest: KINDS.index(manifest.kind))


def _read(path: Path) -> Iterator[Manifest]:
    yaml = load("yaml")
    if path.stat().st_size > MAX_BYTES:
        raise Invalid(f"{path} is larger than {MAX_BYTES:,} bytes; split it into several files")
    try:
        documents = list(yaml.safe_load_all(path.read_text()))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} is not YAML: {error}") from None
    for number, document in enumerate(documents, 1):
        if document is not None:
            place = f"{path}, document {number}"
            try:
                manifest = _manifest(document, place)
            except RecursionError:
                raise Invalid(f"{place} contains itself through a YAML alias") from None
            yield manifest


def _manifest(document: Any, place: str) -> Manifest:
    if not isinstance(document, dict) or document.get("apiVersion") != API_VERSION:
        raise Invalid(f"{place}: apiVersion is not {API_VERSION}")
    kind = document.get("kind")
    if kind not in SHAPES:
        raise Invalid(f"{place}: unknown kind {kind!r}; expected one of {', '.join(KINDS)}")
    fields = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    _check(fields, SHAPES[kind], place, kind)
    if missing := [key for key in _REQUIRED[kind] if key not in fields]:
        raise Invalid(f"{place}: {kind} requires the field {missing[0]}")
    return Manifest(kind, fields, place)


def _check(value: Any, shape: Any, place: str, where: str) -> None:
    if isinstance(shape, Mapping):
        _check_type(value, dict, place, where)
        for key, part in value.items():
            if key not in shape:
                raise Invalid(f"{place}: {where} has no field {key}")
            _check(part, shape[key], place, f"{where}.{key}")
    elif isinstance(shape, list):
        _check_type(value, list, place, where)
        for number, item in enumerate(value):
            _check(item, shape[0], place, f"{where}[{number}]")
    elif shape == ANYTHING:
        _check_numbers(value, place, where)
    elif shape == STRING_MAP:
        _check_type(value, dict, place, where)
        for key, text in value.items():
            _check_type(text, str, place, f"{where}.{key}")
    else:
        _check_type(value, shape, place, where)


def _check_numbers(value: Any, place: str, where: str) -> None:
    """Rejects infinity and NaN: YAML allows them, JSON does not."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{place}: {where} is {value}; use a finite number")
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            _check_numbers(part, place, f"{where}.{key}")


def _check_type(value: Any, wanted: type, place: str, where: str) -> None:
    if type(value) is not wanted and (wanted, type(value)) != (float, int):
        raise Invalid(f"{place}: {where} is not {_TYPE_NAMES[wanted]}")
    _check_numbers(value, place, where)
