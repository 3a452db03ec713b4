"""Metrics of a Prometheus in the cluster, read through the API server's proxy of services."""

import re
from collections.abc import Collection
from typing import Final

import orjson

from core.errors import Invalid
from core.json_object import JsonValue
from core.spec.verification import MetricCheck
from syncagent.kube.client import KubeClient

_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?:)?(?P<namespace>[a-z0-9-]{1,63})/(?P<service>[a-z0-9-]{1,63})"
    r":(?P<port>[a-z0-9-]{1,15})"
)
_MAX_ANSWER = 64 << 10


class KubeMetrics:
    """Implements `ports.Metrics`. `allowed`: the addresses that may be queried; None: all."""

    def __init__(self, client: KubeClient, allowed: Collection[str] | None = None) -> None:
        self._client, self._allowed = client, allowed

    async def value(self, check: MetricCheck) -> float | None:
        """Returns the single value of an instant query (Prometheus' HTTP API); see the port."""
        place = _ADDRESS.fullmatch(check.address)
        if place is None:
            raise Invalid(
                f"{check.address[:80]!r} is not a valid address; expected namespace/service:port"
            )
        if self._allowed is not None and check.address not in self._allowed:
            raise Invalid(
                f"this agent's own settings (autonomy.metrics) do not list {check.address}: only "
                "the cluster's operator can allow it"
            )
        scheme = place["scheme"] or ""
        path = (
            f"/api/v1/namespaces/{place['namespace']}/services/"
            f"{scheme}{place['service']}:{place['port']}/proxy/api/v1/query"
        )
        text = await self._client.text(path, {"query": check.query}, _MAX_ANSWER)
        return value_of(text)


def value_of(text: str) -> float | None:
    """Parses the value of a scalar or of a single series; None for no or several series.
    Invalid.
    """
    try:
        data: JsonValue = orjson.loads(text)["data"]
        if data["resultType"] == "scalar":
            return float(data["result"][1])
        if data["resultType"] == "vector" and len(data["result"]) == 1:
            return float(data["result"][0]["value"][1])
    except (ValueError, LookupError, TypeError):
        raise Invalid(
            "the metrics server's response is not in the format of Prometheus' HTTP API"
        ) from None
    return None
