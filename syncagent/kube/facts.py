"""Facts about the cluster, from a few requests that most service accounts may send."""

import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import Any

from core.errors import TowlineError
from core.spec.bundle import KubeObject
from core.spec.facts import ClusterFacts, DeprecatedApi
from syncagent.kube.client import KubeClient
from syncagent.kube.discovery import ApiDiscovery

_DISTRIBUTIONS = ("eks", "gke", "aks", "k3s", "rke2", "k0s")
_PAGE = "500"
_MAX_METRICS = 8 << 20
_ASKED_FOR = re.compile(rb"^apiserver_requested_deprecated_apis\{([^}]*)\} 1$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_MILLIS = {"": 1000.0, "m": 1.0, "u": 1e-3, "n": 1e-6, "k": 1e6}
_BYTES = {
    "": 1.0,
    **{f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: 1000.0**power for power, letter in enumerate("kMGTPE", 1)},
    "m": 1e-3,
}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)([a-zA-Z]*)")


class KubeFacts:
    """Reads facts from the API server; forbidden facts count as unknown."""

    def __init__(self, client: KubeClient, token_end: Callable[[], datetime | None]) -> None:
        self._client = client
        self._token_end = token_end

    async def collect(self) -> ClusterFacts:
        """Reads the present facts. Unavailable: the API server cannot be reached."""
        answer = await self._client.request("GET", "/version")
        version = answer.get("gitVersion") or ""
        nodes = await _or_default(self._list_nodes, [])
        allocatable = [(node.get("status") or {}).get("allocatable") or {} for node in nodes]
        return ClusterFacts(
            kubernetes_version=version,
            distribution=next((name for name in _DISTRIBUTIONS if name in version), ""),
            nodes=len(nodes),
            cpu_millis=int(sum(quantity(node.get("cpu"), _MILLIS) for node in allocatable)),
            memory_bytes=int(sum(quantity(node.get("memory"), _BYTES) for node in allocatable)),
            pod_capacity=int(sum(quantity(node.get("pods"), _BYTES) for node in allocatable)),
            api_versions=tuple(await _or_default(ApiDiscovery(self._client).api_versions, [])),
            deprecated=tuple(await _or_default(self._deprecated_apis, [])),
            token_expires_at=self._token_end(),
        )

    async def _list_nodes(self) -> list[KubeObject]:
        query, found = {"limit": _PAGE}, []
        while True:
            answer = await self._client.request("GET", "/api/v1/nodes", query=query)
            found += [{"status": item.get("status")} for item in answer.get("items") or ()]
            more = (answer.get("metadata") or {}).get("continue")
            if not more:
                return found
            query["continue"] = more

    async def _deprecated_apis(self) -> list[DeprecatedApi]:
        """Reads the metrics in pieces: they are megabytes, and only a few lines matter."""
        found, rest, read = [], b"", 0
        async with self._client.stream("/metrics", {}, "text/plain") as content:
            async for data in content:
                read += len(data)
                whole, _, rest = (rest + data).rpartition(b"\n")
                found += deprecated_in(whole)
                if read > _MAX_METRICS:
                    break
        return sorted(set(found), key=lambda one: (one.group, one.version, one.resource))


def deprecated_in(metrics: bytes) -> Iterator[DeprecatedApi]:
    """Finds deprecated APIs in use, in the text format of metrics."""
    for line in _ASKED_FOR.finditer(metrics):
        labels = dict(_LABEL.findall(line[1].decode(errors="replace")))
        yield DeprecatedApi(
            labels.get("group", ""),
            labels.get("version", ""),
            labels.get("resource", ""),
            labels.get("removed_release", ""),
        )


def quantity(text: object, units: dict[str, float]) -> float:
    """Parses a Kubernetes quantity into the unit of the table; 0 if it is not one."""
    match = _QUANTITY.fullmatch(str(text or ""))
    return float(match[1]) * units.get(match[2], 0.0) if match else 0.0


async def _or_default(
    ask: Callable[[], Awaitable[list[Any]]], otherwise: list[object]
) -> list[Any]:
    try:
        return await ask()
    except TowlineError:
        return otherwise
