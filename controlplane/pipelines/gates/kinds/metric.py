"""Gates that a Prometheus query decides (HTTP API v1, `/api/v1/query`)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlencode

import orjson

from controlplane.authorization import Verb
from controlplane.pipelines.model.gate_checks import CheckAnswer, CheckContext, CheckFinding
from controlplane.pipelines.model.gate_rules import CheckRule, ClusterAccess
from controlplane.platform.plugin_settings import MAX_LINE, MAX_NAME, Form, Setting
from core.errors import Invalid, Unavailable
from core.identity import ClusterId
from core.json_object import JsonMapping
from core.spec.thresholds import Comparison

MAX_SERIES = 1_000
MAX_SHOWN = 10
"""Maximum number of series that are kept for display."""
_QUERY = 'sum(rate(http_requests_total{code=~"5.."}[5m]))'


class SeriesPolicy(StrEnum):
    """Handling of several series."""

    ALL = "ALL"
    """Every series must pass."""
    ANY = "ANY"
    """One series that passes is enough."""
    ERROR = "ERROR"
    """More than one series is an error."""


@dataclass(frozen=True, slots=True)
class MetricRule(CheckRule):
    """A PromQL query meets its threshold.

    Give either `url`, or `clusterId` and `service`. NaN always fails.
    """

    kind = "METRIC"
    title = "Metric"
    key = "metric"

    query: Annotated[str, Setting("Query", example=_QUERY)]
    """PromQL query."""
    threshold: Annotated[float, Setting("Threshold", example=1)]
    """Threshold for the value."""
    comparison: Annotated[Comparison, Setting("Comparison", example=Comparison.AT_MOST)] = (
        Comparison.AT_MOST
    )
    """Comparison of the value with the threshold."""
    url: Annotated[
        str,
        Setting(
            "Prometheus URL",
            max_length=MAX_LINE,
            form=Form.URL,
            example="https://prometheus.example.org",
        ),
    ] = ""
    """URL of a Prometheus server that the control plane queries."""
    cluster_id: Annotated[ClusterId | None, Setting("Cluster", form=Form.CLUSTER)] = None
    """ID of the cluster whose agent queries Prometheus."""
    service: Annotated[str, Setting("Prometheus Service", max_length=MAX_NAME)] = ""
    """Prometheus in that cluster, as `namespace/name:port`."""
    baseline: Annotated[str, Setting("Baseline query")] = ""
    """PromQL query for a baseline. The value is divided by it before the comparison."""
    several: Annotated[SeriesPolicy, Setting("Several series")] = SeriesPolicy.ALL
    """Meaning of several series."""
    empty_passes: Annotated[bool, Setting("Pass without data")] = False
    """True if a query without series passes."""

    def check_together(self, field: str) -> None:
        if bool(self.url) == bool(self.service):
            raise Invalid("needs either url, or cluster and service", field=f"{field}.url")
        if self.service:
            _service_address(self.service, f"{field}.service")
        if self.service and not self.cluster_id:
            raise Invalid("is required with service", field=f"{field}.clusterId")

    def cluster_access(self) -> ClusterAccess | None:
        return ClusterAccess(Verb.CONNECT, self.cluster_id) if self.cluster_id else None

    async def run(self, context: CheckContext) -> CheckFinding:
        values = parse_samples(await self._query_prometheus(context, self.query))
        if not self.baseline:
            return evaluate_metric(self, values)
        baseline = parse_samples(await self._query_prometheus(context, self.baseline))
        return evaluate_metric(self, values, baseline)

    async def _query_prometheus(self, context: CheckContext, query: str) -> Mapping[str, object]:
        path = f"/api/v1/query?{urlencode({'query': query})}"
        if self.url:
            reply = await context.request("GET", self.url.rstrip("/") + path, {})
            return _parse_reply(reply.body, reply.status)
        namespace, name, port = _service_address(self.service, "service")
        proxied = f"/api/v1/namespaces/{namespace}/services/{name}:{port}/proxy{path}"
        return await context.read_in_cluster(self.cluster_id, proxied)


def parse_samples(response: JsonMapping) -> list[float]:
    """Returns the value of each series. Raises Invalid for an error and for ranges."""
    if response.get("status") == "error":
        raise Invalid(f"the query fails: {str(response.get('error'))[:500]}")
    data = response.get("data")
    kind = data.get("resultType") if isinstance(data, Mapping) else None
    result = data.get("result") if isinstance(data, Mapping) else None
    if kind == "matrix":
        raise Invalid("the query returns ranges: use a query that returns one value per series")
    if kind not in ("vector", "scalar") or not isinstance(result, list):
        raise Invalid("the answer is not from the Prometheus API")
    if kind == "vector" and len(result) > MAX_SERIES:
        raise Invalid(f"the query gives {len(result):,} series, maximum {MAX_SERIES:,}")
    try:
        pairs = [result] if kind == "scalar" else [series["value"] for series in result]
        return [float(value) for _, value in pairs]
    except (KeyError, TypeError, ValueError):
        raise Invalid("the answer is not from the Prometheus API") from None


def evaluate_metric(
    rule: MetricRule, values: Sequence[float], baseline: Sequence[float] | None = None
) -> CheckFinding:
    """Returns whether the values pass; `baseline` are the values of the rule's second query."""
    if not values:
        reason = "the query gives no series"
        return CheckFinding(CheckAnswer.PASSED if rule.empty_passes else CheckAnswer.FAILED, reason)
    if len(values) > 1 and rule.several is SeriesPolicy.ERROR:
        reason = f"the query gives {len(values)} series, expected one"
        return CheckFinding(CheckAnswer.FAILED, reason)
    divisor = 1.0
    if baseline is not None:
        if len(baseline) != 1 or not math.isfinite(baseline[0]) or baseline[0] == 0:
            reason = f"the baseline gives {_format_values(baseline)}: expected one number"
            return CheckFinding(CheckAnswer.FAILED, reason)
        divisor = baseline[0]
    ratios = [value / divisor for value in values]
    if any(math.isnan(ratio) for ratio in ratios):
        return CheckFinding(CheckAnswer.FAILED, "the query gives NaN")
    passing = [ratio for ratio in ratios if rule.comparison.holds(ratio, rule.threshold)]
    passed = bool(passing) if rule.several is SeriesPolicy.ANY else len(passing) == len(ratios)
    result = f"{_format_values(ratios)}{' of the baseline' if baseline is not None else ''}"
    condition = f"{rule.comparison.lower().replace('_', ' ')} {rule.threshold:g}"
    measured = tuple(ratio for ratio in ratios[:MAX_SHOWN] if math.isfinite(ratio))
    answer = CheckAnswer.PASSED if passed else CheckAnswer.FAILED
    return CheckFinding(answer, f"{result}, wanted {condition}", measured)


def _format_values(values: Sequence[float]) -> str:
    formatted = ", ".join(f"{value:g}" for value in values[:5])
    return f"{formatted}, …" if len(values) > 5 else formatted or "nothing"


def _service_address(text: str, field: str) -> tuple[str, str, str]:
    """Splits `namespace/name:port`. Raises Invalid for anything else."""
    namespace, _, rest = text.partition("/")
    name, _, port = rest.partition(":")
    parts = (namespace, name, port)
    if not all(part and part.replace("-", "").isalnum() and len(part) <= 63 for part in parts):
        raise Invalid("must be like monitoring/prometheus:9090", field=field)
    return parts


def _parse_reply(body: bytes, status: int) -> Mapping[str, object]:
    try:
        reply = orjson.loads(body)
    except orjson.JSONDecodeError:
        reply = None
    if isinstance(reply, dict):
        return reply
    if status >= 500:
        raise Unavailable(f"the Prometheus server returned {status}")
    raise Invalid(f"not a Prometheus response: status {status}")
