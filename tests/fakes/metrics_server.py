"""The aggregated API `metrics.k8s.io/v1beta1` as metrics-server serves it, with usages of a test.

It has the discovery, the kinds and the units of metrics-server, and no tables.
"""

import http.server
import json
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from core.json_object import JsonObject
from tests.fakes.tls import TestAuthority


class Kubectl(Protocol):
    """A cluster."""

    def kubectl(self, *args: str, stdin: str | None = None) -> str: ...


_API = "/apis/metrics.k8s.io/v1beta1"
_VERSION = "metrics.k8s.io/v1beta1"
_TIMES: JsonObject = {"timestamp": "2026-01-31T12:00:00Z", "window": "15.011s"}
_RESOURCES = [
    {
        "name": name,
        "singularName": "",
        "namespaced": namespaced,
        "kind": kind,
        "verbs": ["get", "list"],
    }
    for name, namespaced, kind in (("nodes", False, "NodeMetrics"), ("pods", True, "PodMetrics"))
]
_ROLES = ("view", "edit", "admin")
CONTAINERS = [
    {"name": "box", "usage": {"cpu": "12345678n", "memory": "25164Ki"}},
    {"name": "side", "usage": {"cpu": "0", "memory": "712Ki"}},
]
"""Containers of each pod: 13m and 25Mi, as kubectl shows them."""
NODE = {"cpu": "1512345678n", "memory": "1534816Ki"}
"""Usage of each node: 1513m and 1498Mi."""


def _registration(port: int) -> JsonObject:
    """The API server resolves the name of the Service, so it needs no endpoints."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "metrics-server", "namespace": "kube-system"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    api = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "service": {"name": "metrics-server", "namespace": "kube-system", "port": port},
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    readers = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "labels": {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in _ROLES},
        },
        "rules": [
            {
                "apiGroups": ["metrics.k8s.io"],
                "resources": ["pods", "nodes"],
                "verbs": ["get", "list", "watch"],
            }
        ],
    }
    return {"apiVersion": "v1", "kind": "List", "items": [service, api, readers]}


def _answer(cluster: Kubectl, path: str) -> JsonObject | None:
    """Answer for a path of the API. None: it has no such path."""
    if path == _API:
        resources = {"groupVersion": _VERSION, "resources": _RESOURCES}
        return {"kind": "APIResourceList", "apiVersion": "v1", **resources}
    if path == f"{_API}/nodes":
        nodes = _read(cluster, "nodes", "--all-namespaces")
        return _page("NodeMetricsList", [{**each, "usage": NODE} for each in nodes])
    if path.startswith(_API) and path.endswith("/pods"):
        words = path.removeprefix(f"{_API}/").split("/")
        place = ("-n", words[1]) if words[0] == "namespaces" else ("--all-namespaces",)
        pods = _read(cluster, "pods", *place)
        return _page("PodMetricsList", [{**each, "containers": CONTAINERS} for each in pods])
    return None


def _page(kind: str, items: list[JsonObject]) -> JsonObject:
    return {"kind": kind, "apiVersion": _VERSION, "metadata": {}, "items": items}


def _read(cluster: Kubectl, kind: str, *words: str) -> list[JsonObject]:
    """Names and times of objects as those of their metrics."""
    found = json.loads(cluster.kubectl("get", kind, *words, "-o", "json"))["items"]
    kept = ("name", "namespace", "labels", "creationTimestamp")
    return [
        {"metadata": {key: value for key, value in each["metadata"].items() if key in kept}}
        | _TIMES
        for each in found
    ]


@contextmanager
def metrics_server(cluster: Kubectl, folder: Path) -> Generator[None]:
    """Serves the metrics API, registered with the API server of a cluster."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = _answer(cluster, self.path.partition("?")[0])
            body = json.dumps(found or {"kind": "Status", "code": 404}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    authority = TestAuthority(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate, authority.key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        registration = json.dumps(_registration(server.server_port))
        cluster.kubectl("apply", "-f", "-", stdin=registration)
        cluster.kubectl("wait", "apiservice/v1beta1.metrics.k8s.io", "--for=condition=Available")
        yield
        cluster.kubectl("delete", "-f", "-", stdin=registration)
        server.shutdown()
