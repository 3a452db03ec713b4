"""Health of a live object, with a reason for people.
Built-in kinds have rules of their own. Custom resources follow conventions.
"""

from collections.abc import Callable
from dataclasses import replace

from core.spec.health import HealthState
from syncagent.domain.objects import KubeFields, KubeObject, api_of, metadata_of
from syncagent.domain.observed.conventions import by_convention
from syncagent.domain.observed.custom_kinds import assess_custom
from syncagent.domain.observed.object_status import (
    HEALTHY,
    HealthStatus,
    condition_of,
    failed,
    not_observed,
    parts_of,
    progressing,
)
from syncagent.domain.observed.pods import pod_health_facts

# Groups of the API server itself. Their kinds have a rule below, or nothing that can fail.
_BUILT_IN = {
    *("", "apps", "autoscaling", "batch", "policy"),
    *(
        f"{name}.k8s.io"
        for name in (
            *("admissionregistration", "apiextensions", "apiregistration", "certificates"),
            *("coordination", "discovery", "events", "flowcontrol.apiserver"),
            *("internal.apiserver", "networking", "node", "rbac.authorization", "resource"),
            *("scheduling", "storage", "storagemigration"),
        )
    ),
}


def assess(live: KubeObject) -> HealthStatus:
    """Assesses the health of a live object from the object alone."""
    if metadata_of(live).get("deletionTimestamp"):
        held_by = ", ".join(metadata_of(live).get("finalizers") or ())
        suffix = f", held by {held_by}" if held_by else ""
        return HealthStatus(HealthState.PROGRESSING, f"is being deleted{suffix}", "Terminating")
    api = api_of(live)
    if api.group not in _BUILT_IN:
        return assess_custom(live)
    return _RULES.get((api.group, api.kind), _built_in)(live)


def _deployment(live: KubeObject) -> HealthStatus:
    spec, status = parts_of(live)
    if spec.get("paused"):
        return HealthStatus(HealthState.PAUSED, "roll-out is paused", "Paused")
    if stale := not_observed(live):
        return stale
    for name, bad in (("ReplicaFailure", "True"), ("Progressing", "False")):
        found = condition_of(live, name)
        if found.get("status") == bad:
            return failed(found)
    return _rolling(
        wanted=_replicas(spec),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("availableReplicas", 0),
        total=status.get("replicas", 0),
    )


def _stateful_set(live: KubeObject) -> HealthStatus:
    spec, status = parts_of(live)
    if stale := not_observed(live):
        return stale
    strategy = spec.get("updateStrategy") or {}
    wanted, updated = _replicas(spec), status.get("updatedReplicas", 0)
    if strategy.get("type") == "OnDelete":
        updated = wanted
    elif partition := (strategy.get("rollingUpdate") or {}).get("partition"):
        updated += min(partition, wanted)
    return _rolling(wanted, min(updated, wanted), status.get("readyReplicas", 0), wanted)


def _daemon_set(live: KubeObject) -> HealthStatus:
    spec, status = parts_of(live)
    if stale := not_observed(live):
        return stale
    wanted = status.get("desiredNumberScheduled", 0)
    on_delete = (spec.get("updateStrategy") or {}).get("type") == "OnDelete"
    updated = wanted if on_delete else status.get("updatedNumberScheduled", 0)
    return _rolling(wanted, updated, status.get("numberAvailable", 0), wanted)


def _replica_set(live: KubeObject) -> HealthStatus:
    spec, status = parts_of(live)
    if stale := not_observed(live):
        return stale
    failure = condition_of(live, "ReplicaFailure")
    if failure.get("status") == "True":
        return failed(failure)
    wanted = _replicas(spec)
    return _rolling(wanted, wanted, status.get("availableReplicas", 0), wanted)


def _job(live: KubeObject) -> HealthStatus:
    spec, status = parts_of(live)
    failure = condition_of(live, "Failed")
    if failure.get("status") == "True":
        return failed(failure)
    if condition_of(live, "Complete").get("status") == "True":
        return HealthStatus(HealthState.HEALTHY, "completed", "Complete")
    if spec.get("suspend"):
        return HealthStatus(HealthState.PAUSED, "is suspended", "Suspended")
    done, wanted = status.get("succeeded", 0), spec.get("completions") or 1
    return HealthStatus(HealthState.PROGRESSING, f"{done} of {wanted} completions")


def _pod(live: KubeObject) -> HealthStatus:
    facts = pod_health_facts(live)
    if facts.failure:
        return HealthStatus(HealthState.FAILED, facts.failure, facts.reason)
    if facts.done:
        return HealthStatus(HealthState.HEALTHY, "completed", "Succeeded")
    return (
        HEALTHY
        if facts.ready
        else HealthStatus(HealthState.PROGRESSING, facts.waiting, facts.reason)
    )


def _claim(live: KubeObject) -> HealthStatus:
    phase = parts_of(live)[1].get("phase", "Pending")
    if phase == "Lost":
        return HealthStatus(HealthState.FAILED, "its volume no longer exists", "Lost")
    if resizing := condition_of(live, "FileSystemResizePending") or condition_of(live, "Resizing"):
        return replace(progressing(resizing), reason=resizing.get("type", ""))
    if phase == "Bound":
        return HEALTHY
    return HealthStatus(HealthState.PROGRESSING, "waiting for a volume", "Pending")


def _service(live: KubeObject) -> HealthStatus:
    spec, status = parts_of(live)
    pending = not (status.get("loadBalancer") or {}).get("ingress")
    if spec.get("type") == "LoadBalancer" and pending:
        return HealthStatus(
            HealthState.PROGRESSING, "waiting for a load balancer address", "Pending"
        )
    return HEALTHY


def _definition(live: KubeObject) -> HealthStatus:
    names = condition_of(live, "NamesAccepted")
    if names.get("status") == "False":
        return failed(names)
    if condition_of(live, "Established").get("status") == "True":
        return HEALTHY
    return HealthStatus(HealthState.PROGRESSING, "is not established yet", "Establishing")


def _volume(live: KubeObject) -> HealthStatus:
    status = parts_of(live)[1]
    if status.get("phase") == "Failed":
        return HealthStatus(HealthState.FAILED, status.get("message") or "failed", "Failed")
    return HEALTHY


def _api_service(live: KubeObject) -> HealthStatus:
    available = condition_of(live, "Available")
    if available.get("status") == "False":
        return progressing(available)
    return HEALTHY


def _autoscaler(live: KubeObject) -> HealthStatus:
    for name in ("AbleToScale", "ScalingActive"):
        found = condition_of(live, name)
        reason = str(found.get("reason", ""))
        if found.get("status") == "False" and reason.startswith(("Failed", "Invalid")):
            return failed(found)
    return HEALTHY


def _disruption_budget(live: KubeObject) -> HealthStatus:
    failure = condition_of(live, "DisruptionAllowed")
    if failure.get("reason") == "SyncFailed":
        return failed(failure)
    return HEALTHY


def _cron_job(live: KubeObject) -> HealthStatus:
    if parts_of(live)[0].get("suspend"):
        return HealthStatus(HealthState.PAUSED, "is suspended", "Suspended")
    return HEALTHY


def _signing_request(live: KubeObject) -> HealthStatus:
    for name in ("Denied", "Failed"):
        if condition_of(live, name):
            return failed(condition_of(live, name))
    if parts_of(live)[1].get("certificate"):
        return HEALTHY
    return HealthStatus(HealthState.PROGRESSING, "waiting for its certificate", "Pending")


def _node(live: KubeObject) -> HealthStatus:
    ready = condition_of(live, "Ready")
    return HEALTHY if ready.get("status") == "True" else failed(ready)


def _always(live: KubeObject) -> HealthStatus:
    return HEALTHY


def _built_in(live: KubeObject) -> HealthStatus:
    verdict = by_convention(live)
    return HEALTHY if verdict.health == HealthState.UNKNOWN else verdict


_RULES: dict[tuple[str, str], Callable[[KubeObject], HealthStatus]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ReplicaSet"): _replica_set,
    ("batch", "Job"): _job,
    ("", "Pod"): _pod,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Service"): _service,
    ("", "PersistentVolume"): _volume,
    ("", "ReplicationController"): _replica_set,
    ("", "Node"): _node,
    ("", "Namespace"): _always,
    ("networking.k8s.io", "NetworkPolicy"): _always,
    ("networking.k8s.io", "Ingress"): _always,
    ("batch", "CronJob"): _cron_job,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("certificates.k8s.io", "CertificateSigningRequest"): _signing_request,
    ("apiregistration.k8s.io", "APIService"): _api_service,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}


def _rolling(wanted: int, updated: int, ready: int, total: int) -> HealthStatus:
    """Assesses a roll-out; `total` includes replicas of the old generation."""
    if updated < wanted:
        return HealthStatus(HealthState.PROGRESSING, f"{updated} of {wanted} replicas updated")
    if total > max(wanted, updated):
        return HealthStatus(HealthState.PROGRESSING, f"{total - wanted} old replicas are ending")
    if ready < wanted:
        return HealthStatus(HealthState.PROGRESSING, f"{ready} of {wanted} replicas available")
    return HEALTHY


def _replicas(spec: KubeFields) -> int:
    wanted = spec.get("replicas")
    return 1 if wanted is None else wanted
