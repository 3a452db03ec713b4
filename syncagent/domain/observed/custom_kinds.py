"""Health of custom resources that conventions alone would misjudge."""

from collections.abc import Callable
from dataclasses import replace

from core.spec.health import HealthState
from syncagent.domain.directives import annotations_of
from syncagent.domain.objects import KubeObject, api_of
from syncagent.domain.observed.conventions import by_convention, by_word
from syncagent.domain.observed.object_status import (
    HEALTHY,
    UNOBSERVED,
    HealthStatus,
    condition_of,
    failed,
    not_observed,
    parts_of,
)

_WORKLOAD_GENERATION = "rollout.argoproj.io/workload-generation"
_UNREPORTED = HealthStatus(
    HealthState.PROGRESSING, "its controller has not reported a status yet", "Unreported"
)
# Kinds whose controllers report a status on each object: without one, none has observed it.
_REPORTED = {
    "acme.cert-manager.io": {"Challenge", "Order"},
    "argoproj.io": {"AnalysisRun", "Application", "Rollout", "Workflow"},
    "cert-manager.io": {"Certificate", "CertificateRequest", "ClusterIssuer", "Issuer"},
    "cluster.x-k8s.io": {"Cluster", "Machine", "MachineDeployment"},
    "external-secrets.io": {"ClusterSecretStore", "ExternalSecret", "SecretStore"},
    "flagger.app": {"Canary"},
    "gateway.networking.k8s.io": {"Gateway", "GatewayClass", "GRPCRoute", "HTTPRoute"},
    "helm.toolkit.fluxcd.io": {"HelmRelease"},
    "kafka.strimzi.io": {"Kafka"},
    "keda.sh": {"ScaledJob", "ScaledObject"},
    "kustomize.toolkit.fluxcd.io": {"Kustomization"},
    "postgresql.cnpg.io": {"Cluster"},
    "serving.knative.dev": {"Configuration", "Revision", "Route", "Service"},
    "source.toolkit.fluxcd.io": {"Bucket", "GitRepository", "OCIRepository"},
    "sparkoperator.k8s.io": {"SparkApplication"},
    "tekton.dev": {"PipelineRun", "TaskRun"},
}


def assess_custom(live: KubeObject) -> HealthStatus:
    """Assesses a custom resource by the rule of its kind, or by the conventions."""
    api = api_of(live)
    if not live.get("status") and api.kind in _REPORTED.get(api.group, ()):
        return _UNREPORTED
    return _RULES.get((api.group, api.kind), by_convention)(live)


def _rollout(live: KubeObject) -> HealthStatus:
    spec, status = parts_of(live)
    if spec.get("paused"):
        return HealthStatus(HealthState.PAUSED, "roll-out is paused", "Paused")
    if stale := _rollout_stale(live):
        return stale
    invalid = condition_of(live, "InvalidSpec")
    if invalid.get("status") == "True":
        return failed(invalid)
    if status.get("abort"):
        return HealthStatus(HealthState.FAILED, "roll-out was aborted", "RolloutAborted")
    verdict = by_word(status) or _UNREPORTED
    # A pause of a step ends with its promotion: the new version does not serve everybody yet.
    paused = verdict.health == HealthState.PAUSED
    return replace(verdict, health=HealthState.PROGRESSING) if paused else verdict


def _rollout_stale(live: KubeObject) -> HealthStatus | None:
    """Returns a verdict if the new generation of the roll-out or of its workload is unobserved."""
    status = parts_of(live)[1]
    workload = annotations_of(live).get(_WORKLOAD_GENERATION)
    if workload and workload != str(status.get("workloadObservedGeneration")):
        return UNOBSERVED
    return not_observed(live)


def _run(live: KubeObject) -> HealthStatus:
    """Assesses a kind that runs to its end: unlike a server, it is not done while it runs."""
    if parts_of(live)[1].get("phase") == "Running":
        return HealthStatus(HealthState.PROGRESSING, "is running", "Running")
    return by_convention(live)


def _gateway(live: KubeObject) -> HealthStatus:
    return _worst([by_convention(live), *_parts_of_status(live, "listeners")])


def _route(live: KubeObject) -> HealthStatus:
    """Assesses a route by the conditions that each of its gateways reports."""
    return _worst(_parts_of_status(live, "parents") or [_UNREPORTED])


def _parts_of_status(live: KubeObject, name: str) -> list[HealthStatus]:
    """Assesses each item of a list in the status by its own conditions."""
    items = parts_of(live)[1].get(name)
    return [
        by_convention({**live, "status": item})
        for item in (items if isinstance(items, list) else ())
        if isinstance(item, dict)
    ]


def _worst(verdicts: list[HealthStatus]) -> HealthStatus:
    return next((verdict for verdict in verdicts if verdict != HEALTHY), HEALTHY)


_RULES: dict[tuple[str, str], Callable[[KubeObject], HealthStatus]] = {
    ("argoproj.io", "AnalysisRun"): _run,
    ("argoproj.io", "Rollout"): _rollout,
    ("argoproj.io", "Workflow"): _run,
    ("gateway.networking.k8s.io", "Gateway"): _gateway,
    ("gateway.networking.k8s.io", "GRPCRoute"): _route,
    ("gateway.networking.k8s.io", "HTTPRoute"): _route,
}
