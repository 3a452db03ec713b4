"""Health rules, kind by kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.spec.health import HealthState
from core.spec.reports.inventory import InventoryChange
from core.spec.status import StageTimes, SyncStatus
from core.wire.report_codec import report_to_message
from syncagent.domain.objects import ref_of
from syncagent.domain.observed.health import assess
from syncagent.domain.observed.inventory import DescendantTree, OwnedObject, components_of
from syncagent.domain.observed.pods import images_of
from syncagent.domain.observed.summary import summarize

H, P, F, S = HealthState.HEALTHY, HealthState.PROGRESSING, HealthState.FAILED, HealthState.PAUSED
U = HealthState.UNKNOWN


def live(api: str, kind: str, spec=None, status=None, **meta):
    meta = {"name": "x", "generation": 2} | meta
    status = {"observedGeneration": 2} | (status or {})
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": meta,
        "spec": spec or {},
        "status": status,
    }


def condition(name: str, value: str = "True", **more):
    return {"conditions": [{"type": name, "status": value} | more]}


def waiting(reason: str):
    state = {"waiting": {"reason": reason, "message": f"because {reason}"}}
    last = {"terminated": {"exitCode": 3}}
    return {"containerStatuses": [{"name": "main", "state": state, "lastState": last}]}


READY = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}
DAEMON = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}
CASES = [
    (live("apps/v1", "Deployment", status=READY), H),
    (live("apps/v1", "Deployment", status=READY, generation=3), P),
    (live("apps/v1", "Deployment", {"replicas": 0}, {"replicas": 0}), H),
    (live("apps/v1", "Deployment", {"paused": True}), S),
    (live("apps/v1", "Deployment", {"replicas": 2}, READY), P),
    (live("apps/v1", "Deployment", status=READY | {"replicas": 2}), P),
    (live("apps/v1", "Deployment", status=condition("Progressing", "False")), F),
    (live("apps/v1", "Deployment", status=condition("ReplicaFailure", message="quota")), F),
    (live("apps/v1", "StatefulSet", status=READY), H),
    (live("apps/v1", "StatefulSet", {"replicas": 3}, READY), P),
    (
        live("apps/v1", "StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, READY),
        H,
    ),
    (live("apps/v1", "DaemonSet", status=DAEMON), P),
    (live("apps/v1", "DaemonSet", status=DAEMON | {"numberAvailable": 2}), H),
    (live("apps/v1", "ReplicaSet", {"replicas": 0}), H),
    (live("apps/v1", "ReplicaSet", {"replicas": 1}), P),
    (live("batch/v1", "Job"), P),
    (live("batch/v1", "Job", {"suspend": True}), S),
    (live("batch/v1", "Job", status=condition("Complete")), H),
    (live("batch/v1", "Job", status=condition("Failed", message="no luck")), F),
    (live("v1", "Pod", status={"phase": "Succeeded"}), H),
    (live("v1", "Pod", status={"phase": "Failed", "reason": "Evicted"}), F),
    (live("v1", "Pod", status=condition("Ready")), H),
    (live("v1", "Pod", status=condition("PodScheduled", "False", message="no node")), P),
    (live("v1", "Pod", status=waiting("CrashLoopBackOff")), F),
    (live("v1", "Pod", status=waiting("ContainerCreating")), P),
    (live("v1", "PersistentVolumeClaim", status={"phase": "Bound"}), H),
    (live("v1", "PersistentVolumeClaim"), P),
    (live("v1", "PersistentVolumeClaim", status={"phase": "Lost"}), F),
    (live("v1", "Service", {"type": "LoadBalancer"}), P),
    (
        live(
            "v1",
            "Service",
            {"type": "LoadBalancer"},
            {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        ),
        H,
    ),
    (live("v1", "Service", {"type": "ClusterIP"}), H),
    (
        live(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", status=condition("Established")
        ),
        H,
    ),
    (live("apiextensions.k8s.io/v1", "CustomResourceDefinition"), P),
    (live("example.org/v1", "Thing", status=condition("Ready")), H),
    (live("example.org/v1", "Thing", status=condition("Ready", "False")), P),
    (live("example.org/v1", "Thing", status=condition("Stalled")), F),
    (live("example.org/v1", "Thing", status={"observedGeneration": 1}), P),
    ({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"generation": 4}}, H),
    ({"apiVersion": "example.org/v1", "kind": "Thing", "status": "odd", "spec": 3}, U),
    (live("v1", "ConfigMap", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"]), P),
]


@pytest.mark.parametrize(("one", "health"), CASES)
def test_rules(one, health) -> None:
    """Each kind's rule, healthy and not."""
    assert assess(one).health == health


def test_a_crashing_container_says_why() -> None:
    """Container, reason and last exit code are in the sentence."""
    verdict = assess(live("v1", "Pod", status=waiting("CrashLoopBackOff")))
    assert verdict.reason == "CrashLoopBackOff"
    assert verdict.message == "container main: because CrashLoopBackOff (last exit code 3)"


def test_deletion_names_who_holds_it() -> None:
    """Finalizers are in the sentence."""
    gone = live("v1", "ConfigMap", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])
    assert "a/b" in assess(gone).message


def test_images_of_every_workload() -> None:
    """From a pod, a template, a template of a template; each once, init containers first."""
    pod = {"initContainers": [{"image": "i"}], "containers": [{"image": "m"}, {"image": "m"}]}
    assert images_of({"spec": pod}) == ("i", "m")
    template = {"template": {"spec": pod}}
    assert images_of({"spec": template}) == ("i", "m")
    assert images_of({"spec": {"jobTemplate": {"spec": template}}}) == ("i", "m")
    assert images_of({"data": {}}) == ()


ANY = st.none() | st.booleans() | st.integers() | st.just("x") | st.just([]) | st.just({"a": 1})
CONDITION = st.fixed_dictionaries(
    {"type": st.sampled_from(["Ready", "Stalled", "Reconciling"])},
    optional={"status": ANY | st.sampled_from(["True", "False"]), "message": ANY, "reason": ANY},
)
STATUS = st.fixed_dictionaries(
    {}, optional={"observedGeneration": ANY, "conditions": ANY | st.lists(ANY | CONDITION)}
)
PODS = st.fixed_dictionaries({}, optional={"containers": ANY, "initContainers": ANY})


@given(spec=ANY | PODS | PODS.map(lambda pod: {"template": {"spec": pod}}), status=ANY | STATUS)
def test_any_custom_resource_can_be_reported(spec, status) -> None:
    """Definitions without a schema let people write anything; reports are made of text."""
    meta = {"name": "x", "generation": 2, "resourceVersion": "7", "uid": "u"}
    one = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": meta}
    owned = OwnedObject("s", ref_of(one))
    owned.observe(one | {"spec": spec, "status": status})
    (component,) = components_of({owned.key: owned}, DescendantTree()).values()
    report = report_to_message(InventoryChange("s", True, (component,), ()))
    problems = report_to_message(SyncStatus("s", 1, "", *summarize([component], ()), StageTimes()))
    assert report.inventory.present[0].object.name == "x" and problems.status.sequence == 1
