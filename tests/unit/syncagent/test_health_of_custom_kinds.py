"""Health of custom resources, compared with what Argo CD and kstatus are known to say.

Each case is the status that the project's documentation shows. Where Argo CD says Degraded for a
condition that is not met yet, kstatus and Towline say that it is progressing.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.spec.health import HealthState
from core.spec.reports.inventory import ObservedComponent
from core.spec.status import Phase
from syncagent.domain.objects import KubeObject, ref_of
from syncagent.domain.observed.health import assess
from syncagent.domain.observed.status_words import health_of_word
from syncagent.domain.observed.summary import summarize

H, P, F, S, U = (
    HealthState.HEALTHY,
    HealthState.PROGRESSING,
    HealthState.FAILED,
    HealthState.PAUSED,
    HealthState.UNKNOWN,
)


def live(group: str, kind: str, status: object = None, **spec: object) -> KubeObject:
    found = {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": "x", "generation": 2},
        "spec": spec,
    }
    return found if status is None else found | {"status": status}


def conditions(**states: str) -> dict:
    """Conditions by type; `True:Reason` has a reason as well."""
    listed = []
    for name, text in states.items():
        status, _, reason = text.partition(":")
        listed.append({"type": name, "status": status, "reason": reason or "AsItIs"})
    return {"conditions": listed}


ROLLOUT = ("argoproj.io", "Rollout")
SPARK = ("sparkoperator.k8s.io", "SparkApplication")
ROUTE = ("gateway.networking.k8s.io", "HTTPRoute")


def spark(state: str) -> dict:
    return {"applicationState": {"state": state}}


def route(**states: str) -> dict:
    return {"parents": [conditions(Accepted="True"), conditions(**states)]}


ARGO_CASES = [
    (live(*ROLLOUT), P),
    (live(*ROLLOUT, {"phase": "Healthy", "observedGeneration": "2"}), H),
    (live(*ROLLOUT, {"phase": "Healthy", "observedGeneration": "1"}), P),
    (live(*ROLLOUT, {"phase": "Progressing", "observedGeneration": "2"}), P),
    (live(*ROLLOUT, {"phase": "Degraded", "observedGeneration": "2", "message": "late"}), F),
    (live(*ROLLOUT, {"abort": True, "observedGeneration": "2"}), F),
    (live(*ROLLOUT, conditions(InvalidSpec="True") | {"observedGeneration": "2"}), F),
    (live(*ROLLOUT, {"phase": "Healthy", "observedGeneration": "2"}, paused=True), S),
    (live("flagger.app", "Canary"), P),
    (live("flagger.app", "Canary", {"phase": "Initialized"}), H),
    (live("flagger.app", "Canary", {"phase": "WaitingPromotion"}), P),
    (live("flagger.app", "Canary", {"phase": "Finalising"}), P),
    (live("flagger.app", "Canary", {"phase": "Succeeded"}), H),
    (live("flagger.app", "Canary", {"phase": "Failed"}), F),
    (live("argoproj.io", "Workflow"), P),
    (live("argoproj.io", "Workflow", {"phase": "Running"}), P),
    (live("argoproj.io", "Workflow", {"phase": "Succeeded"}), H),
    (live("argoproj.io", "Workflow", {"phase": "Failed", "message": "step 3"}), F),
    (live("argoproj.io", "Workflow", {"phase": "Error"}), F),
    (live("argoproj.io", "AnalysisRun", {"phase": "Failed"}), F),
    (live("argoproj.io", "AnalysisRun", {"phase": "Successful"}), H),
    (live("argoproj.io", "Application", {"health": {"status": "Degraded"}}), F),
    (live("argoproj.io", "Application", {"health": {"status": "Suspended"}}), S),
    (live("argoproj.io", "Application", {"health": {"status": "Healthy"}}), H),
    (live(*SPARK, spark("SUBMITTED")), P),
    (live(*SPARK, spark("PENDING_RERUN")), P),
    (live(*SPARK, spark("RUNNING")), H),
    (live(*SPARK, spark("COMPLETED")), H),
    (live(*SPARK, spark("FAILED")), F),
    (live(*SPARK, spark("SUBMISSION_FAILED")), F),
    (live(*SPARK, spark("FAILING")), F),
    (live("cert-manager.io", "Certificate"), P),
    (live("cert-manager.io", "Certificate", conditions(Ready="True")), H),
    (live("cert-manager.io", "Certificate", conditions(Ready="False:Pending")), P),
    (live("tekton.dev", "PipelineRun", conditions(Succeeded="Unknown:Running")), P),
    (live("tekton.dev", "PipelineRun", conditions(Succeeded="True")), H),
    (live("tekton.dev", "PipelineRun", conditions(Succeeded="False:Failed")), F),
    (live("velero.io", "Backup", {"phase": "Completed"}), H),
    (live("velero.io", "Backup", {"phase": "PartiallyFailed"}), F),
    (live("elasticsearch.k8s.elastic.co", "Elasticsearch",
          {"phase": "Ready", "health": "green"}), H),
    (live("elasticsearch.k8s.elastic.co", "Elasticsearch",
          {"phase": "ApplyingChanges", "health": "yellow"}), P),
    (live("elasticsearch.k8s.elastic.co", "Elasticsearch",
          {"phase": "Ready", "health": "red"}), F),
    (live("acid.zalan.do", "postgresql", {"PostgresClusterStatus": "CreateFailed"}), U),
    (live("keda.sh", "ScaledObject", conditions(Ready="True", Active="False")), H),
    (live("pkg.crossplane.io", "Provider", conditions(Installed="True", Healthy="True")), H),
    (live("pkg.crossplane.io", "Provider", conditions(Installed="False", Healthy="True")), P),
    (live(*ROUTE), P),
    (live(*ROUTE, route(Accepted="True", ResolvedRefs="True")), H),
    (live(*ROUTE, route(Accepted="True", ResolvedRefs="False:BackendNotFound")), P),
    (live("gateway.networking.k8s.io", "Gateway", conditions(Accepted="True", Programmed="True")
          | {"listeners": [conditions(Accepted="True", ResolvedRefs="False")]}), P),
    (live("k8s.mariadb.com", "SqlJob", conditions(Complete="True:JobFailed")), F),
    (live("core.spinkube.dev", "SpinApp",
          conditions(Available="True", Progressing="False:ProgressDeadlineExceeded")), F),
    (live("snapshot.storage.k8s.io", "VolumeSnapshot", {"readyToUse": False}), P),
    (live("snapshot.storage.k8s.io", "VolumeSnapshot", {"readyToUse": True}), H),
]  # fmt: skip

KSTATUS_CASES = [
    (live("example.org", "Thing"), H),
    (live("example.org", "Thing", {}), H),
    (live("example.org", "Thing", {"observedGeneration": 2}), H),
    (live("example.org", "Thing", {"observedGeneration": 1} | conditions(Ready="True")), P),
    (live("example.org", "Thing", {"observedGeneration": -1}), P),
    (live("example.org", "Thing", conditions(Ready="True")), H),
    (live("example.org", "Thing", conditions(Ready="False")), P),
    (live("example.org", "Thing", conditions(Ready="Unknown")), P),
    (live("example.org", "Thing", conditions(Stalled="True", Ready="True")), F),
    (live("example.org", "Thing", conditions(Stalled="False", Ready="True")), H),
    (live("example.org", "Thing", conditions(Reconciling="True", Ready="True")), P),
    (live("example.org", "Thing", conditions(Available="False")), P),
    (live("source.toolkit.fluxcd.io", "GitRepository"), P),
    (live("rbac.authorization.k8s.io", "Role"), H),
    (live("", "ResourceQuota", {"hard": {"pods": "4"}, "used": {"pods": "4"}}), H),
]

UNREADABLE = [
    live("example.org", "Thing", {"shards": 3}),
    live("example.org", "Thing", {"phase": "Moonlight"}),
    live("example.org", "Thing", conditions(Scheduled="True")),
    live("example.org", "Thing", "odd"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "health"), ARGO_CASES + KSTATUS_CASES)
def test_known_results(one: KubeObject, health: HealthState) -> None:
    """Agrees with the rules of Argo CD and kstatus on documented statuses."""
    assert assess(one).health == health


@pytest.mark.parametrize("one", UNREADABLE)
def test_a_status_that_expresses_no_health_is_unknown(one: KubeObject) -> None:
    """Neither healthy nor failed, with the way out in the message."""
    verdict = assess(one)
    assert verdict.health == U and verdict.message
    phase, problems = summarize([component(one)], ())
    assert (phase, problems) == (Phase.APPLIED, ())


def test_a_rollout_that_waits_for_its_promotion_is_not_done() -> None:
    """Argo CD says Suspended, which is not Healthy there; here a pause opens gates."""
    status = {"phase": "Paused", "observedGeneration": "2", "message": "CanaryPauseStep"}
    verdict = assess(live(*ROLLOUT, status))
    assert verdict.health == P and "CanaryPauseStep" in verdict.message


def component(one: KubeObject) -> ObservedComponent:
    verdict = assess(one)
    return ObservedComponent(ref_of(one), "u", "", verdict.health, verdict.message, verdict.reason)


FAILURES = ["Failed", "FAILED", "Error", "SubmissionFailed", "CreateFailed", "Degraded", "dead"]
OTHERS = st.sampled_from(
    [{}, {"replicas": 3}, {"ready": True}, {"phase": "Running"}, {"observedGeneration": 2}]
)


@given(
    st.sampled_from(["phase", "state", "health", "status", "currentState", "applicationState"]),
    st.sampled_from(FAILURES),
    st.booleans(),
    OTHERS,
    st.booleans(),
)
def test_a_word_of_failure_is_never_healthy(
    field: str, word: str, nested: bool, others: dict, ready: bool
) -> None:
    """Wherever it stands, whatever else the status says."""
    status = others | (conditions(Ready="True") if ready else {})
    status |= {field: {"state": word} if nested else word}
    assert assess(live("example.org", "Thing", status)).health == F


@pytest.mark.parametrize(
    ("word", "health"),
    [("NotReady", P), ("Unavailable", P), ("Provisioning", P), ("In Progress", P), ("READY", H),
     ("up-to-date", H), ("TimedOut", F), ("Suspended", S), ("Moonlight", U), ("", U)],
)  # fmt: skip
def test_words(word: str, health: HealthState) -> None:
    """A word of success stands alone."""
    assert health_of_word(word) == health
