"""Calls the API servers of clusters through the Kubernetes proxy, as the signed-in user."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from typing import NamedTuple
from urllib.parse import quote, urlencode

from core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TowlineError,
    Unauthenticated,
    Unavailable,
)
from core.json_object import JsonObject
from towline.client import opener
from towline.contexts import ControlPlaneTarget

_ERRORS: dict[int, type[TowlineError]] = {
    400: Invalid,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: Invalid,
}
_MAX_BYTES = 64 << 20
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Kind(NamedTuple):
    """A kind of objects of a cluster, by its path in the API."""

    api: str
    plural: str
    is_namespaced: bool
    name: str
    """Name of the kind, such as `Deployment`."""

    @property
    def group(self) -> str:
        """API group, empty for the core group."""
        return self.api.split("/")[2] if self.api.startswith("/apis/") else ""

    def path(self, namespace: str | None) -> str:
        """Path of the list in a namespace, or in all."""
        namespace_path = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{self.api}{namespace_path if self.is_namespaced else ''}/{self.plural}"


class KubeApi:
    """API server of one cluster."""

    def __init__(self, target: ControlPlaneTarget, handle: str, timeout: float) -> None:
        self._base = f"{target.url}/k8s/clusters/{quote(handle, safe='')}"
        self._token = target.token
        self._opener = opener(target)
        self._timeout = timeout
        self.handle = handle

    def get(self, path: str, *, accept: str = "application/json", **query: str) -> JsonObject:
        """Returns an object. Unavailable: no answer within the timeout."""
        return self._parse_json(self._open(self._request(path, accept, query)))

    def table(self, path: str, **query: str) -> JsonObject:
        """Returns a list as a table. Not every aggregated API makes tables: then of names."""
        page = self.get(path, accept=_TABLE, **query)
        return page if "columnDefinitions" in page else _table_of_names(page)

    def send(self, method: str, path: str, body: JsonObject, **query: str) -> JsonObject:
        """Sends a change, and returns the answer. A PATCH is a merge patch."""
        request = self._request(path, "application/json", query)
        request.method, request.data = method, json.dumps(body).encode()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request.add_header("Content-Type", kind)
        return self._parse_json(self._open(request))

    def lines(self, path: str, **query: str) -> Iterator[str]:
        """Yields the lines of a response until it ends."""
        with self._open(self._request(path, "*/*", query)) as response:
            for line in response:
                yield line.decode(errors="replace").rstrip("\n")

    def log(self, namespace: str, pod: str, **query: str) -> Iterator[str]:
        """Yields the lines of a pod's log."""
        pod_path = f"{quote(namespace, safe='')}/pods/{quote(pod, safe='')}"
        return self.lines(f"/api/v1/namespaces/{pod_path}/log", **query)

    def kind(self, name: str) -> Kind:
        """Finds a kind by its plural, singular or short name, `plural.group` or `kind.group`."""
        lowercase_name = name.lower()
        for group in self._groups():
            if known_kind := find_kind_in(group, lowercase_name):
                return known_kind
        raise NotFound(f"cluster {self.handle} has no kind {name!r}")

    def plurals(self) -> list[str]:
        """Plural names of all kinds that can be listed."""
        return sorted(
            {
                resource["resource"]
                for group in self._groups()
                for version in group["versions"]
                for resource in version.get("resources", ())
                if "list" in resource.get("verbs", ())
            }
        )

    def _groups(self) -> Iterator[JsonObject]:
        for root in ("/api", "/apis"):
            yield from self.get(root, accept=_DISCOVERY).get("items", ())

    def _parse_json(self, response: HTTPResponse) -> JsonObject:
        with response:
            try:
                return json.loads(response.read(_MAX_BYTES))
            except (ValueError, OSError) as error:
                raise Unavailable(f"cluster {self.handle}: {error}") from None

    def _request(
        self, path: str, accept: str, parameters: dict[str, str]
    ) -> urllib.request.Request:
        query = f"?{urlencode(parameters)}" if parameters else ""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        return urllib.request.Request(f"{self._base}{path}{query}", headers=headers)

    def _open(self, request: urllib.request.Request) -> HTTPResponse:
        try:
            return self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            with error:
                answer = f"cluster {self.handle} answers {error.code} {error.reason}"
                message = _error_message(error.read(_MAX_BYTES)) or answer
            raise _ERRORS.get(error.code, Unavailable)(message) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise Unavailable(f"cluster {self.handle}: {reason}") from None


def _table_of_names(page: JsonObject) -> JsonObject:
    rows = [
        {"object": item, "cells": [item["metadata"]["name"], item["metadata"]["creationTimestamp"]]}
        for item in page["items"]
    ]
    titles = [{"name": "Name"}, {"name": "Created At"}]
    return {"metadata": page["metadata"], "columnDefinitions": titles, "rows": rows}


def find_kind_in(group: JsonObject, searched_name: str) -> Kind | None:
    """Finds a kind in a group of the aggregated discovery."""
    name = group["metadata"].get("name", "")
    for version in group["versions"]:
        api = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
        for resource in version.get("resources", ()):
            plural = resource["resource"]
            names = {plural, resource.get("singularResource"), *resource.get("shortNames", ())}
            kind = resource["responseKind"]["kind"]
            names |= {kind.lower(), f"{kind.lower()}.{name}", f"{plural}.{name}"}
            if searched_name in names and "list" in resource.get("verbs", ()):
                return Kind(api, plural, resource["scope"] == "Namespaced", kind)
    return None


def _error_message(body: bytes) -> str:
    """Message of a `Status`, else an empty text."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return ""
