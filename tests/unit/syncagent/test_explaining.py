"""Why something is not well: kinds, rules of users, logs of crashes, events, notices."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.spec.bundle import KubeObject
from core.spec.health import FieldCondition, HealthRule, HealthState
from core.spec.status import Phase
from syncagent.domain.observed.health import assess
from syncagent.domain.observed.user_rules import health_of
from syncagent.ports import RequestRefused
from tests.fakes.engine import Stand, config

READY = HealthRule(
    "shop.io",
    "Shop",
    HealthState.HEALTHY,
    (FieldCondition("/status/conditions/Open/status", ("True",)),),
)
BROKEN = HealthRule(
    "shop.io",
    "Shop",
    HealthState.FAILED,
    (FieldCondition("/status/state", ("Broken", "Lost")),),
    "/status/why",
)


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A running engine."""
    made = Stand(tmp_path)
    await made.start()
    yield made
    await made.stop()


def live(api_version: str, kind: str, status: dict, **spec: object) -> KubeObject:
    meta = {"name": "x", "namespace": "prod"}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": meta,
        "spec": spec,
        "status": status,
    }


def conditions(**states: tuple[str, str]) -> dict:
    """`Type=("False", "Reason")`."""
    return {
        "conditions": [
            {"type": name, "status": status, "reason": reason, "message": f"{reason} it is"}
            for name, (status, reason) in states.items()
        ]
    }


@pytest.mark.parametrize(
    ("one", "health", "word"),
    [
        (live("v1", "PersistentVolume", {"phase": "Failed", "message": "no disk"}), 5, "no disk"),
        (live("v1", "PersistentVolume", {"phase": "Available"}), 1, ""),
        (live("v1", "PersistentVolumeClaim", {"phase": "Lost"}), 5, "no longer exists"),
        (live("v1", "Node", conditions(Ready=("False", "KubeletDown"))), 5, "KubeletDown"),
        (live("batch/v1", "CronJob", {}, suspend=True), 2, "suspended"),
        (
            live(
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                conditions(ScalingActive=("False", "FailedGetResourceMetric")),
            ),
            5,
            "FailedGetResourceMetric",
        ),
        (
            live("policy/v1", "PodDisruptionBudget", conditions(DisruptionAllowed=("False", "x"))),
            1,
            "",
        ),
        (
            live(
                "apiregistration.k8s.io/v1",
                "APIService",
                conditions(Available=("False", "MissingEndpoints")),
            ),
            3,
            "MissingEndpoints",
        ),
        (
            live(
                "certificates.k8s.io/v1",
                "CertificateSigningRequest",
                conditions(Denied=("True", "No")),
            ),
            5,
            "No it is",
        ),
        (
            live(
                "apps/v1",
                "Deployment",
                conditions(ReplicaFailure=("True", "FailedCreate")),
                replicas=1,
            ),
            5,
            "FailedCreate",
        ),
    ],
)
def test_health_of_kinds(one: KubeObject, health: int, word: str) -> None:
    """The state of each kind, with the word that a person needs."""
    verdict = assess(one)
    assert verdict.health == health and word in verdict.message


def test_rules_of_users_replace_what_is_known() -> None:
    """The first rule that holds; a kind with rules of which none holds is progressing."""
    rules = (READY, BROKEN)
    shop = live("shop.io/v1", "Shop", conditions(Ready=("True", "Fine")))
    assert assess(shop).health == HealthState.HEALTHY
    assert health_of(shop, rules).health == HealthState.PROGRESSING
    shop["status"] = {"state": "Broken", "why": "the door is shut"}
    assert health_of(shop, rules).message == "the door is shut"
    shop["status"] = conditions(Open=("True", "Morning"))
    assert health_of(shop, rules).health == HealthState.HEALTHY
    other = live("other.io/v1", "Shop", {})
    assert health_of(other, rules).health == HealthState.HEALTHY


def workload() -> list[KubeObject]:
    spec = {"replicas": 1, "template": {"spec": {"containers": [{"name": "main"}]}}}
    return [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec}
    ]


def pod(stand: Stand, status: dict) -> None:
    """The StatefulSet's pod is in this state."""
    owner = stand.cluster.objects["apps", "StatefulSet", "prod", "db"]["metadata"]["uid"]
    reference = {"kind": "StatefulSet", "name": "db", "uid": owner, "controller": True}
    meta = {"name": "db-0", "namespace": "prod", "uid": "p0", "ownerReferences": [reference]}
    stand.cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status})


def crashed(times: int) -> dict:
    return {
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": times,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ]
    }


async def test_a_crash_loop_is_reported_with_exit_code_and_log(stand: Stand) -> None:
    """The log is read once a crash, however often the pod is seen."""
    stand.cluster.logs["db-0"] = "starting\nno such table: carts\n"
    stand.bring(workload())
    await stand.until(lambda: stand.cluster.count("apply"))
    await stand.clock.advance(1)
    for _ in range(5):
        pod(stand, crashed(1))
    status = await stand.phase(Phase.DEGRADED)
    await stand.until(lambda: "no such table" in stand.hub.statuses[-1].problems[0].message)
    status = stand.hub.statuses[-1]
    assert "last exit code 137, OOMKilled" in status.problems[0].message
    assert stand.cluster.count("log") == 1
    pod(stand, crashed(2))
    await stand.until(lambda: stand.cluster.count("log") == 2)


async def test_the_reason_of_an_unschedulable_pod_is_reported(stand: Stand) -> None:
    """The scheduler's sentence is what the service waits for."""
    stand.bring(workload())
    await stand.until(lambda: stand.cluster.count("apply"))
    await stand.clock.advance(1)
    text = "0/3 nodes are available: insufficient cpu"
    reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    pod(stand, {"conditions": [reason]})
    await stand.until(lambda: text in stand.hub.statuses[-1].message)


CLAIM: KubeObject = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "db"},
    "spec": {},
}


LOAD_BALANCER: KubeObject = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "db"},
    "spec": {"type": "LoadBalancer"},
}


@pytest.mark.parametrize(
    ("said", "objects"),
    [
        ("FailedCreate: exceeded quota: pods=10", workload()),
        ("FailedCreate: admission webhook policy.shop.io denied the request", workload()),
        ('ProvisioningFailed: storageclass "fast" not found', [CLAIM]),
        ("SyncLoadBalancerFailed: no address is left", [LOAD_BALANCER]),
    ],
    ids=["quota", "webhook", "claim", "load balancer"],
)
async def test_events_explain_a_controller_that_says_nothing(
    stand: Stand, said: str, objects: list[KubeObject]
) -> None:
    """Only events show a quota, a webhook that refuses pods or a missing storage class."""
    stand.cluster.warned["db"] = [said]
    stand.bring(objects)
    await stand.phase(Phase.APPLIED)
    await stand.until(lambda: said in stand.hub.statuses[-1].message)
    asked = stand.cluster.count("warnings")
    for _ in range(100):
        await stand.clock.advance(10)
    assert stand.cluster.count("warnings") <= asked + 4


async def test_events_explain_also_after_a_restart(stand: Stand) -> None:
    """The watch shows the object in the version that was known before."""
    stand.bring([LOAD_BALANCER])
    await stand.phase(Phase.APPLIED)
    await stand.restart()
    stand.cluster.warned["db"] = ["SyncLoadBalancerFailed: no address is left"]
    await stand.until(lambda: stand.hub.statuses and "no address" in stand.hub.statuses[-1].message)


async def test_foreign_objects_send_no_reports_and_bursts_send_few(stand: Stand) -> None:
    """A thousand changes of others' objects and pods, then fifty of one of ours."""
    stand.bring(workload())
    await stand.until(lambda: stand.cluster.count("apply"))
    pod(stand, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    live = stand.cluster.objects["apps", "StatefulSet", "prod", "db"]
    ready = {"updatedReplicas": 1, "readyReplicas": 1}
    stand.cluster.put(live | {"status": ready})
    await stand.phase(Phase.HEALTHY)
    await stand.clock.advance(30)
    report_count = len(stand.hub.statuses) + len(stand.hub.changes)
    for number in range(500):
        stand.cluster.put(config(f"other-{number}"))
        theirs = {"kind": "ReplicaSet", "name": "x", "uid": "not-ours", "controller": True}
        meta = {"name": f"p{number}", "namespace": "prod", "ownerReferences": [theirs]}
        stand.cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta})
    await stand.clock.advance(30)
    assert len(stand.hub.statuses) + len(stand.hub.changes) == report_count
    for number in range(50):
        labels = {**live["metadata"]["labels"], "turn": str(number)}
        stand.cluster.put(
            live | {"metadata": live["metadata"] | {"labels": labels}, "status": ready}
        )
    await stand.until(lambda: stand.hub.changes[-1].present[0].labels.get("turn") == "49")
    assert len(stand.hub.statuses) + len(stand.hub.changes) <= report_count + 2


async def test_a_change_right_after_a_report_waits_only_a_moment(stand: Stand) -> None:
    """Twice the time in which changes are collected."""
    stand.bring(workload())
    await stand.until(lambda: stand.hub.statuses)
    await stand.clock.advance(10)
    live = stand.cluster.objects["apps", "StatefulSet", "prod", "db"]
    ready = {"updatedReplicas": 1, "readyReplicas": 1}
    for status, phase in ((ready, Phase.HEALTHY), ({}, Phase.APPLIED), (ready, Phase.HEALTHY)):
        stand.cluster.put(live | {"status": status})
        await stand.clock.advance(0.25)
        assert stand.last("s")[0] is phase


async def test_a_service_that_changes_all_the_time_is_reported_five_times_a_second(
    stand: Stand,
) -> None:
    """A change every 50 ms for 4 s; the last one is reported, too."""
    stand.bring([config("a")])
    await stand.phase(Phase.HEALTHY)
    await stand.clock.advance(10)
    key, known = ("", "ConfigMap", "prod", "a"), len(stand.hub.changes)
    for turn in range(80):
        live = stand.cluster.objects[key]
        labels = live["metadata"]["labels"] | {"turn": str(turn)}
        stand.cluster.put(live | {"metadata": live["metadata"] | {"labels": labels}})
        await stand.clock.advance(0.05)
    await stand.until(lambda: stand.hub.changes[-1].present[0].labels.get("turn") == "79")
    assert 10 <= len(stand.hub.changes) - known <= 21


async def test_a_failure_becomes_one_event_that_is_counted_up(stand: Stand) -> None:
    """However often it is tried again; at most one write in five minutes."""
    stand.cluster.fail["a"] = RequestRefused("denied by the policy", status=403, reason="Forbidden")
    stand.bring([config("a")])
    await stand.phase(Phase.FAILED)
    await stand.until(lambda: stand.cluster.events_written)
    for _ in range(250):
        await stand.clock.advance(1)
    assert len(stand.cluster.events_written) == 1
    for _ in range(200):
        await stand.clock.advance(1)
    first, second = stand.cluster.events_written
    assert second.count > first.count
    assert stand.cluster.events_written[0].message == "service s: denied by the policy"


async def test_a_repair_becomes_an_event_that_names_who_changed_the_object(stand: Stand) -> None:
    """A deletion has no name: nobody is recorded with it."""
    stand.bring([config("a")])
    await stand.phase(Phase.HEALTHY)
    key = ("", "ConfigMap", "prod", "a")
    live = stand.cluster.objects[key]
    entry = {"manager": "kubectl-edit", "fieldsV1": {"f:data": {"f:key": {}}}}
    metadata = live["metadata"] | {"managedFields": [entry]}
    stand.cluster.put(live | {"metadata": metadata, "data": {"key": "2"}})
    await stand.until(lambda: len(stand.cluster.events_written) == 1)
    stand.cluster.drop(key)
    await stand.until(lambda: len(stand.cluster.events_written) == 2)
    assert [
        (event.reason, event.warns, event.message) for event in stand.cluster.events_written
    ] == [
        ("DriftHealed", False, "changed by kubectl-edit; restored by service s"),
        ("DriftHealed", False, "deleted by somebody; restored by service s"),
    ]
    changed, deleted = stand.hub.drifts
    assert (changed.manager, changed.deleted, changed.healed) == ("kubectl-edit", False, True)
    assert (deleted.manager, deleted.deleted, deleted.healed) == ("", True, True)


def web(name: str) -> KubeObject:
    spec = {"replicas": 1, "template": {"spec": {"containers": [{"name": "main"}]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


async def test_the_object_that_waits_is_named_with_the_event_of_its_pod(stand: Stand) -> None:
    """One of many, of a kind whose own status has no reason."""
    event = "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503"
    stand.cluster.warned["web-1"] = [event]
    stand.bring([*(config(f"c{number}") for number in range(130)), web("web")])
    await stand.phase(Phase.APPLIED)
    assert stand.hub.statuses[-1].message.startswith("waiting for Deployment prod/web: 0 of 1")
    owner = stand.cluster.objects["apps", "Deployment", "prod", "web"]["metadata"]["uid"]
    reference = {"kind": "Deployment", "name": "web", "uid": owner, "controller": True}
    meta = {"name": "web-1", "namespace": "prod", "uid": "p1", "ownerReferences": [reference]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    stand.cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status})
    await stand.until(lambda: event in stand.hub.statuses[-1].message)
    assert "web-1" in stand.hub.statuses[-1].message
    asked = stand.cluster.count("warnings")
    for _ in range(100):
        await stand.clock.advance(10)
    assert stand.cluster.count("warnings") <= asked + 8
