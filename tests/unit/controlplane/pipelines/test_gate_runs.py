"""Automated checks of gates: what they ask, and how they judge each answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.authorization import Verb
from controlplane.pipelines.gates.kinds import HttpRule, JobRule, MetricRule, VersionRule
from controlplane.pipelines.gates.kinds.metric import (
    MAX_SERIES,
    MAX_SHOWN,
    SeriesPolicy,
    evaluate_metric,
    parse_samples,
)
from controlplane.pipelines.gates.templating import fill_manifest, parse_outputs
from controlplane.pipelines.model.gate_checks import CheckAnswer, StartedJob
from controlplane.pipelines.model.gate_rules import ClusterAccess
from controlplane.services.model.service import Service
from core.errors import Invalid, TowlineError, Unavailable
from core.identity import ClusterId
from core.json_object import JsonMapping
from core.outbound.reply import HttpReply
from core.spec.status import Phase
from core.spec.thresholds import Comparison
from tests.fakes.operations import make_cluster, make_service

PASSED, FAILED, UNDECIDED = CheckAnswer.PASSED, CheckAnswer.FAILED, CheckAnswer.UNDECIDED
METRIC = MetricRule("up", 1.0, url="https://prometheus.example.org/")
EU = ClusterId("eu")


@dataclass
class FakeContext:
    """The `CheckContext` of a release: answers of other systems, and what was asked of them."""

    status: int = 200
    body: bytes = b""
    cluster_answer: JsonMapping = field(default_factory=dict)
    services: Mapping[ClusterId, Sequence[Service]] = field(default_factory=dict)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    promotion: JsonMapping = field(default_factory=lambda: {"release": "r1"})
    placeholders: Mapping[str, str] = field(default_factory=lambda: {"release": "r1"})

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpReply:
        self.asked.append((method, url, dict(headers), body))
        return HttpReply(self.status, {}, self.body)

    def sign(self, sealed: str, body: bytes) -> Mapping[str, str]:
        return {"webhook-signature": f"{sealed} {len(body)}"} if sealed else {}

    async def read_in_cluster(self, cluster_id: ClusterId | None, path: str) -> JsonMapping:
        self.asked.append((cluster_id, path))
        return self.cluster_answer

    async def run_job(
        self, namespace: str, manifest: JsonMapping, timeout_s: int, cluster: ClusterId | None
    ) -> StartedJob:
        self.asked.append((namespace, manifest, timeout_s, cluster))
        return StartedJob("job")

    async def services_named(self, name: str) -> Mapping[ClusterId, Sequence[Service]]:
        return self.services


def vector(*values: object) -> JsonMapping:
    result = [{"metric": {}, "value": [1, str(value)]} for value in values]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


async def test_a_metric_is_asked_of_its_server() -> None:
    context = FakeContext(body=orjson.dumps(vector(0.5)))
    rule = replace(METRIC, query='sum(up{job="a b"})')
    found = await rule.run(context)
    assert (found.answer, found.reason) == (PASSED, "0.5, wanted at most 1")
    url = "https://prometheus.example.org/api/v1/query?query=sum%28up%7Bjob%3D%22a+b%22%7D%29"
    assert context.asked == [("GET", url, {}, b"")]


async def test_a_metric_of_a_cluster_is_asked_through_its_agent() -> None:
    rule = MetricRule("up", 1.0, cluster_id=EU, service="monitoring/prometheus:9090")
    context = FakeContext(cluster_answer=vector(2))
    assert (await rule.run(context)).answer is FAILED
    path = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy/api/v1/query?query=up"
    assert context.asked == [(EU, path)]
    assert rule.cluster_access() == ClusterAccess(Verb.CONNECT, EU)
    assert METRIC.cluster_access() is None


async def test_a_baseline_is_a_second_query() -> None:
    rule = replace(METRIC, url="", cluster_id=EU, service="a/b:1", baseline="up offset 1d")
    context = FakeContext(cluster_answer=vector(10))
    assert (await rule.run(context)).reason == "1 of the baseline, wanted at most 1"
    assert [path.rpartition("=")[2] for _, path in context.asked] == ["up", "up+offset+1d"]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"<html>", 500, Unavailable),
        (b"<html>", 499, Invalid),
        (b"[]", 200, Invalid),
    ],
)
async def test_an_answer_of_no_prometheus_is_an_error(
    body: bytes, status: int, error: type[TowlineError]
) -> None:
    """A server that is away is asked again; one that is no Prometheus fails the check."""
    with pytest.raises(error):
        await METRIC.run(FakeContext(status, body))


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ({"status": "error", "error": "parse error"}, "the query fails: parse error"),
        ({"data": {"resultType": "matrix", "result": []}}, "the query returns ranges"),
        ({"data": {"resultType": "string", "result": [1, "x"]}}, "not from the Prometheus API"),
        ({"data": {"resultType": "vector", "result": {}}}, "not from the Prometheus API"),
        ({"data": {"resultType": "vector", "result": ["x"]}}, "not from the Prometheus API"),
        ({"data": {"resultType": "vector", "result": [{}]}}, "not from the Prometheus API"),
        ({"data": {"resultType": "vector", "result": [{"value": [1]}]}}, "not from the"),
        ({"data": {"resultType": "scalar", "result": [1, "many"]}}, "not from the Prometheus API"),
        ({"data": []}, "not from the Prometheus API"),
        ({}, "not from the Prometheus API"),
        (vector(*range(MAX_SERIES + 1)), "the query gives 1,001 series, maximum 1,000"),
    ],
)
def test_an_answer_that_is_no_number_a_series_is_refused(
    response: JsonMapping, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        parse_samples(response)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(result=_JSON, kind=st.sampled_from(("vector", "scalar", "matrix", "string")))
def test_no_answer_of_a_server_ends_the_worker(result: Any, kind: str) -> None:
    """Whatever JSON a server sends, it is numbers or Invalid."""
    try:
        values = parse_samples({"data": {"resultType": kind, "result": result}})
    except Invalid:
        return
    assert all(isinstance(value, float) for value in values)


def test_a_scalar_and_every_series_are_read() -> None:
    scalar = {"data": {"resultType": "scalar", "result": [1, "2.5"]}}
    assert parse_samples(scalar) == [2.5]
    assert parse_samples(vector(1, "+Inf")) == [1.0, float("inf")]
    assert len(parse_samples(vector(*range(MAX_SERIES)))) == MAX_SERIES


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("rule", "values", "answer", "reason"),
    [
        ({}, [1], PASSED, "1, wanted at most 1"),
        ({}, [1.01], FAILED, "1.01, wanted at most 1"),
        ({"comparison": Comparison.BELOW}, [1], FAILED, "1, wanted below 1"),
        ({"comparison": Comparison.AT_LEAST}, [1], PASSED, "1, wanted at least 1"),
        ({}, [], FAILED, "the query gives no series"),
        ({"empty_passes": True}, [], PASSED, "the query gives no series"),
        ({}, [0, 2], FAILED, "0, 2, wanted at most 1"),
        ({"several": SeriesPolicy.ANY}, [0, 2], PASSED, "0, 2, wanted at most 1"),
        ({"several": SeriesPolicy.ANY}, [3, 2], FAILED, "3, 2, wanted at most 1"),
        ({"several": SeriesPolicy.ERROR}, [0, 0], FAILED, "gives 2 series, expected one"),
        ({"several": SeriesPolicy.ERROR}, [0], PASSED, "0, wanted at most 1"),
        ({"several": SeriesPolicy.ANY}, [0, NAN], FAILED, "the query gives NaN"),
        ({}, [INF], FAILED, "inf, wanted at most 1"),
        ({}, [0] * 5, PASSED, "0, 0, 0, 0, 0, wanted at most 1"),
        ({}, [0] * 6, PASSED, "0, 0, 0, 0, 0, …, wanted at most 1"),
    ],
)
def test_values_pass_as_the_rule_says(
    rule: dict[str, Any], values: list[float], answer: CheckAnswer, reason: str
) -> None:
    found = evaluate_metric(replace(METRIC, **rule), values)
    assert found.answer is answer and found.reason.endswith(reason)


@pytest.mark.parametrize("baseline", [[], [1.0, 2.0], [0.0], [NAN], [INF]])
def test_a_baseline_is_one_number_that_divides(baseline: list[float]) -> None:
    found = evaluate_metric(METRIC, [1.0], baseline)
    shown = ", ".join(f"{value:g}" for value in baseline) or "nothing"
    assert found.answer is FAILED
    assert found.reason == f"the baseline gives {shown}: expected one number"


def test_shown_values_are_finite_divided_and_few() -> None:
    found = evaluate_metric(METRIC, [4.0, INF, *range(20)], [2.0])
    assert found.measured[:3] == (2.0, 0.0, 0.5)
    assert len(found.measured) == MAX_SHOWN - 1, "of the first ten one is infinite"


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (MetricRule("up", 1), "url"),
        (replace(METRIC, service="a/b:1", cluster_id=EU), "url"),
        (MetricRule("up", 1, service="a/b:1"), "clusterId"),
        (MetricRule("up", 1, service="a/b", cluster_id=EU), "service"),
        (MetricRule("up", 1, service="a/../b:1", cluster_id=EU), "service"),
        (MetricRule("up", 1, service="a/:1", cluster_id=EU), "service"),
        (MetricRule("up", 1, service=f"a/{'b' * 64}:1", cluster_id=EU), "service"),
        (VersionRule("db", "newest"), "range"),
        (HttpRule("https://shop.example.org", 199), "status"),
        (HttpRule("https://shop.example.org", 600), "status"),
        (JobRule("default", {"kind": "Deployment"}), "manifest"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_by_its_field(rule: Any, field: str) -> None:
    with pytest.raises(Invalid) as error:
        rule.check_together("gate")
    assert error.value.field == f"gate.{field}"


@pytest.mark.parametrize(
    "rule",
    [
        METRIC,
        MetricRule("up", 1, service=f"a/{'b' * 63}:http-1", cluster_id=EU),
        VersionRule("db", ">=2 <3"),
        HttpRule("https://shop.example.org", 200),
        HttpRule("https://shop.example.org", 599),
        HttpRule("https://shop.example.org"),
        JobRule("default", {"apiVersion": "batch/v1", "kind": "Job"}),
    ],
)
def test_a_rule_within_its_limits_is_taken(rule: Any) -> None:
    rule.check_together("gate")


async def test_an_endpoint_gets_the_signed_promotion() -> None:
    rule = HttpRule("https://shop.example.org/gate", sealed="sealed")
    context = FakeContext()
    assert (await rule.run(context)).answer is PASSED
    ((method, url, headers, body),) = context.asked
    assert (method, url, orjson.loads(body)) == ("POST", rule.url, {"release": "r1"})
    assert headers == {
        "content-type": "application/json",
        "webhook-signature": f"sealed {len(body)}",
    }


@pytest.mark.parametrize(
    ("rule", "status", "answer"),
    [
        ({}, 200, PASSED),
        ({}, 299, PASSED),
        ({}, 300, FAILED),
        ({}, 199, FAILED),
        ({}, 500, FAILED),
        ({}, 202, UNDECIDED),
        ({}, 409, UNDECIDED),
        ({}, 429, UNDECIDED),
        ({}, 503, UNDECIDED),
        ({"status": 202}, 202, PASSED),
        ({"status": 404}, 404, PASSED),
        ({"status": 404}, 200, FAILED),
        ({"status": 404}, 503, UNDECIDED),
        ({"contains": "green"}, 200, PASSED),
        ({"contains": "red"}, 200, FAILED),
        ({"contains": "red", "status": 409}, 409, FAILED),
    ],
)
async def test_an_endpoint_decides_by_status_and_body(
    rule: dict[str, Any], status: int, answer: CheckAnswer
) -> None:
    """Some statuses mean "not yet", unless the rule wants them."""
    found = await HttpRule("https://shop.example.org", **rule).run(FakeContext(status, b"green"))
    assert found.answer is answer and str(status) in found.reason


async def test_a_body_of_any_bytes_is_searched() -> None:
    rule = HttpRule("https://shop.example.org", contains="green")
    assert (await rule.run(FakeContext(body=b"\xff\xfe green"))).answer is PASSED
    found = await rule.run(FakeContext(body=b"\xff"))
    assert (found.answer, found.reason) == (
        FAILED,
        "got 200, but the body does not contain 'green'",
    )


async def test_a_job_runs_with_its_placeholders_filled_in() -> None:
    manifest = {"kind": "Job", "args": ["${release}", "$HOME", "${HOME}"], "n": 1}
    rule = JobRule("ci", manifest, cluster_id=EU, timeout_seconds=60)
    context = FakeContext()
    assert await rule.run(context) == StartedJob("job")
    filled = {"kind": "Job", "args": ["r1", "$HOME", "${HOME}"], "n": 1}
    assert context.asked == [("ci", filled, 60, EU)]
    assert rule.cluster_access() == ClusterAccess(Verb.WRITE, EU)
    assert rule.default_timeout_s == 360, "the check outlives the job"


def test_an_unknown_output_and_a_text_that_grows_too_long_are_refused() -> None:
    with pytest.raises(Invalid, match=r"no value for \${steps.build.image}"):
        fill_manifest({"a": ["${steps.build.image}"]}, {"release": "r1"})
    values = {"steps.a.b": "x" * (1 << 19)}
    assert len(str(fill_manifest("${steps.a.b}${steps.a.b}", values))) == 1 << 20
    with pytest.raises(Invalid, match="too long"):
        fill_manifest("${steps.a.b}${steps.a.b}x", values)


def test_keys_of_a_manifest_are_not_templates() -> None:
    assert fill_manifest({"${release}": None}, {"release": "r1"}) == {"${release}": None}


def test_outputs_are_messages_of_containers_and_their_lines() -> None:
    found = parse_outputs({"main": "image=a=b\nno line\n1x=2\n_y.z-1=\n", "side": "done"})
    assert found == {
        "main": "image=a=b\nno line\n1x=2\n_y.z-1=\n",
        "side": "done",
        "image": "a=b",
        "_y.z-1": "",
    }


DB = VersionRule("db", "^1.2")


def running(version: str, cluster: str = "eu", phase: Phase = Phase.HEALTHY) -> Service:
    columns = {"digest": "d", "generation": 1, "observed_generation": 1, "phase": phase}
    return make_service("db", make_cluster(cluster), version=version).changed(**columns)


@pytest.mark.parametrize(
    ("services", "answer", "reason"),
    [
        ({"eu": ["1.2.3"]}, PASSED, "db is healthy at 1.2.3"),
        ({"eu": ["v1.9.0"]}, PASSED, "db is healthy at v1.9.0"),
        ({"eu": ["1.1.0"]}, UNDECIDED, "db has version 1.1.0, expected ^1.2"),
        ({"eu": ["2.0.0"]}, UNDECIDED, "db has version 2.0.0, expected ^1.2"),
        ({"eu": ["latest"]}, UNDECIDED, "db has version latest, expected ^1.2"),
        ({"eu": ["1.2.3"], "us": []}, UNDECIDED, "1 clusters have no service db"),
        ({"eu": ["1.2.3"], "us": ["1.0.0"]}, UNDECIDED, "db has version 1.0.0, expected ^1.2"),
        ({}, UNDECIDED, "the stage has no service"),
    ],
)
async def test_a_version_is_awaited_in_every_cluster(
    services: dict[str, list[str]], answer: CheckAnswer, reason: str
) -> None:
    found = {
        ClusterId(cluster): [running(version, cluster) for version in versions]
        for cluster, versions in services.items()
    }
    result = await DB.run(FakeContext(services=found))
    assert (result.answer, result.reason) == (answer, reason)


async def test_a_version_that_is_not_healthy_is_awaited() -> None:
    services = {EU: [running("1.2.3", phase=Phase.DEGRADED)]}
    result = await DB.run(FakeContext(services=services))
    assert result.answer is UNDECIDED and result.reason.startswith("db is ")
