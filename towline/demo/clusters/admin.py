"""Minimal client of an API server, at a tenth of the cost of kubectl or of a client library."""

import http.client
import json
import ssl
import urllib.error
import urllib.request

from core.spec.bundle import KubeObject
from towline.demo.clusters.certificates import ClusterCertificates


class AdminClient:
    """Client of one cluster as administrator; a failed connection counts as not ready."""

    def __init__(self, server: str, certificates: ClusterCertificates) -> None:
        self._server = server
        self._tls = ssl.create_default_context(cafile=certificates.authority)
        self._tls.load_cert_chain(certificates.admin.certificate, certificates.admin.key)

    def is_ready(self) -> bool:
        """Returns true if the API server is ready."""
        return self._get("/readyz") is not None

    def ready_nodes(self) -> int:
        """Number of nodes that are Ready."""
        answer = json.loads(self._get("/api/v1/nodes") or "{}")
        return sum(map(_is_ready, answer.get("items", [])))

    def has_default_service_account(self) -> bool:
        """Returns true if the default service account exists, which admission of pods requires."""
        return self._get("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def read(self, path: str) -> KubeObject | None:
        """Returns an object, or None if there is none. HTTPError: the API server refused."""
        try:
            return json.loads(self._request("GET", path))
        except urllib.error.HTTPError as refused:
            if refused.code != http.HTTPStatus.NOT_FOUND:
                raise
            refused.close()
            return None

    def create(self, path: str, body: dict[str, object]) -> None:
        """Creates an object. HTTPError: the API server rejected it."""
        self._request("POST", path, json.dumps(body).encode())

    def delete(self, path: str) -> None:
        """Starts the deletion of an object. HTTPError: the API server refused, or has none."""
        self._request("DELETE", path)

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._server + path, body, headers, method=method)
        with urllib.request.urlopen(request, context=self._tls, timeout=10) as answer:
            return answer.read()

    def _get(self, path: str) -> bytes | None:
        try:
            url = self._server + path
            with urllib.request.urlopen(url, context=self._tls, timeout=5) as answer:
                return answer.read()
        except urllib.error.HTTPError as refused:
            refused.close()
        except (OSError, http.client.HTTPException):
            pass
        return None


def _is_ready(node: KubeObject) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
