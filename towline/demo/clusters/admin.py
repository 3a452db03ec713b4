"""Minimal API server client for starting a cluster, without a client library."""

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

    def create(self, path: str, body: dict[str, object]) -> None:
        """Creates an object. HTTPError: the API server rejected it."""
        request = urllib.request.Request(
            self._server + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=self._tls, timeout=10):
            pass

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
