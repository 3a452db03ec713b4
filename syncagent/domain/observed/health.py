"""Health of a live object, with a reason for people.
Built-in kinds have rules of their own. All others follow the kstatus conventions
(observedGeneration; conditions Stalled, Reconciling, Ready).
"""

from collections.abc import Callable
from dataclasses import dataclass

from core.spec.health import HealthState
from syncagent.domain.objects import KubeFields, KubeObject, api_of, metadata_of
from syncagent.domain.observed.pods import pod_health_facts


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """Health with the reason (Kubernetes' term) and a message for people."""

    health: HealthState
    message: str = ""
    reason: str = ""


HEALTHY = HealthStatus(HealthState.HEALTHY)


def assess(live: KubeObject) -> HealthStatus:
    """Assesses the health of a live object from the object alone."""
    if metadata_of(live).get("deletionTimestamp"):
        held_by = ", ".join(metadata_of(live).get("finalizers") or ())
        suffix = f", held by {held_by}" if held_by else ""
        return HealthStatus(HealthState.PROGRESSING, f"is being deleted{suffix}", "Terminating")
    api = api_of(live)
    return _RULES.get((api.group, api.kind), _by_convention)(live)


def _deployment(live: KubeObject) -> HealthStatus:
    spec, status = _parts(live)
    if spec.get("paused"):
        return HealthStatus(HealthState.PAUSED, "roll-out is paused", "Paused")
    if stale := _not_observed(live):
        return stale
    for name, bad in (("ReplicaFailure", "True"), ("Progressing", "False")):
        found = _condition(live, name)
        if found.get("status") == bad:
            return _failed(found)
    return _rolling(
        wanted=_replicas(spec),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("availableReplicas", 0),
        total=status.get("replicas", 0),
    )


def _stateful_set(live: KubeObject) -> HealthStatus:
    spec, status = _parts(live)
    if stale := _not_observed(live):
        return stale
    strategy = spec.get("updateStrategy") or {}
    wanted, updated = _replicas(spec), status.get("updatedReplicas", 0)
    if strategy.get("type") == "OnDelete":
        updated = wanted
    elif partition := (strategy.get("rollingUpdate") or {}).get("partition"):
        updated += min(partition, wanted)
    return _rolling(wanted, min(updated, wanted), status.get("readyReplicas", 0), wanted)


def _daemon_set(live: KubeObject) -> HealthStatus:
    spec, status = _parts(live)
    if stale := _not_observed(live):
        return stale
    wanted = status.get("desiredNumberScheduled", 0)
    on_delete = (spec.get("updateStrategy") or {}).get("type") == "OnDelete"
    updated = wanted if on_delete else status.get("updatedNumberScheduled", 0)
    return _rolling(wanted, updated, status.get("numberAvailable", 0), wanted)


def _replica_set(live: KubeObject) -> HealthStatus:
    spec, status = _parts(live)
    if stale := _not_observed(live):
        return stale
    failure = _condition(live, "ReplicaFailure")
    if failure.get("status") == "True":
        return _failed(failure)
    wanted = _replicas(spec)
    return _rolling(wanted, wanted, status.get("availableReplicas", 0), wanted)


def _job(live: KubeObject) -> HealthStatus:
    spec, status = _parts(live)
    failed = _condition(live, "Failed")
    if failed.get("status") == "True":
        return _failed(failed)
    if _condition(live, "Complete").get("status") == "True":
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
    phase = _parts(live)[1].get("phase", "Pending")
    if phase == "Lost":
        return HealthStatus(HealthState.FAILED, "its volume no longer exists", "Lost")
    if resizing := _condition(live, "FileSystemResizePending") or _condition(live, "Resizing"):
        return HealthStatus(HealthState.PROGRESSING, _text(resizing), resizing.get("type", ""))
    if phase == "Bound":
        return HEALTHY
    return HealthStatus(HealthState.PROGRESSING, "waiting for a volume", "Pending")


def _service(live: KubeObject) -> HealthStatus:
    spec, status = _parts(live)
    pending = not (status.get("loadBalancer") or {}).get("ingress")
    if spec.get("type") == "LoadBalancer" and pending:
        return HealthStatus(
            HealthState.PROGRESSING, "waiting for a load balancer address", "Pending"
        )
    return HEALTHY


def _definition(live: KubeObject) -> HealthStatus:
    names = _condition(live, "NamesAccepted")
    if names.get("status") == "False":
        return _failed(names)
    if _condition(live, "Established").get("status") == "True":
        return HEALTHY
    return HealthStatus(HealthState.PROGRESSING, "is not established yet", "Establishing")


def _volume(live: KubeObject) -> HealthStatus:
    status = _parts(live)[1]
    if status.get("phase") == "Failed":
        return HealthStatus(HealthState.FAILED, status.get("message") or "failed", "Failed")
    return HEALTHY


def _api_service(live: KubeObject) -> HealthStatus:
    available = _condition(live, "Available")
    if available.get("status") == "False":
        return HealthStatus(HealthState.PROGRESSING, _text(available), _reason(available))
    return HEALTHY


def _autoscaler(live: KubeObject) -> HealthStatus:
    for name in ("AbleToScale", "ScalingActive"):
        found = _condition(live, name)
        reason = str(found.get("reason", ""))
        if found.get("status") == "False" and reason.startswith(("Failed", "Invalid")):
            return _failed(found)
    return HEALTHY


def _disruption_budget(live: KubeObject) -> HealthStatus:
    failure = _condition(live, "DisruptionAllowed")
    if failure.get("reason") == "SyncFailed":
        return _failed(failure)
    return HEALTHY


def _cron_job(live: KubeObject) -> HealthStatus:
    if _parts(live)[0].get("suspend"):
        return HealthStatus(HealthState.PAUSED, "is suspended", "Suspended")
    return HEALTHY


def _signing_request(live: KubeObject) -> HealthStatus:
    for name in ("Denied", "Failed"):
        if _condition(live, name):
            return _failed(_condition(live, name))
    if _parts(live)[1].get("certificate"):
        return HEALTHY
    return HealthStatus(HealthState.PROGRESSING, "waiting for its certificate", "Pending")


def _node(live: KubeObject) -> HealthStatus:
    ready = _condition(live, "Ready")
    return HEALTHY if ready.get("status") == "True" else _failed(ready)


def _always(live: KubeObject) -> HealthStatus:
    return HEALTHY


def _by_convention(live: KubeObject) -> HealthStatus:
    """Assesses an object by the kstatus conventions; without a schema, any field may have
    any type.
    """
    if "status" not in live:
        return HEALTHY
    if (stale := _not_observed(live)) and "observedGeneration" in _parts(live)[1]:
        return stale
    stalled = _condition(live, "Stalled")
    if stalled.get("status") == "True":
        return _failed(stalled)
    busy, ready = _condition(live, "Reconciling"), _condition(live, "Ready")
    if busy.get("status") == "True":
        return HealthStatus(HealthState.PROGRESSING, _text(busy), _reason(busy))
    if ready.get("status") in ("False", "Unknown"):
        return HealthStatus(HealthState.PROGRESSING, _text(ready), _reason(ready))
    return HEALTHY


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


def _not_observed(live: KubeObject) -> HealthStatus | None:
    observed = _parts(live)[1].get("observedGeneration", 0)
    if isinstance(observed, int) and observed < metadata_of(live).get("generation", 0):
        return HealthStatus(
            HealthState.PROGRESSING, "its controller has not observed the change yet"
        )
    return None


def _parts(live: KubeObject) -> tuple[KubeFields, KubeFields]:
    spec, status = live.get("spec"), live.get("status")
    return spec if isinstance(spec, dict) else {}, status if isinstance(status, dict) else {}


def _condition(live: KubeObject, name: str) -> KubeFields:
    conditions = _parts(live)[1].get("conditions")
    for found in conditions if isinstance(conditions, list) else ():
        if isinstance(found, dict) and found.get("type") == name:
            return found
    return {}


def _failed(condition: KubeFields) -> HealthStatus:
    return HealthStatus(HealthState.FAILED, _text(condition), _reason(condition))


def _text(condition: KubeFields) -> str:
    return str(condition.get("message") or "") or _reason(condition)


def _reason(condition: dict[str, object]) -> str:
    return str(condition.get("reason") or "")
