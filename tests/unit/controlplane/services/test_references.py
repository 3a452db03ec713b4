"""References between the manifests of a service."""

from typing import Any

import pytest

from controlplane.services.model.references import references
from core.spec.objects import ObjectRef

LABELS = {"app": "web"}


def made(api: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **rest}


def workload(labels: object = LABELS, **pod: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": labels}, "spec": {"containers": [], **pod}}
    return made("apps/v1", "Deployment", "web", spec={"template": template})


def named(*objects: dict[str, Any]) -> list[str]:
    return [
        f"{found.source.kind} {found.source.name} {found.kind.value} {found.target.kind} "
        f"{found.target.name}"
        for found in references(objects, "shop")
        if found.target.name
    ]


def test_traffic_flows_from_an_ingress_over_a_service_to_its_workloads() -> None:
    backend = {"service": {"name": "web"}}
    ingress = made(
        "networking.k8s.io/v1", "Ingress", "edge",
        spec={
            "rules": [{"http": {"paths": [{"backend": backend}]}}],
            "tls": [{"secretName": "cert"}],
        },
    )  # fmt: skip
    service = made("v1", "Service", "web", spec={"selector": LABELS})
    assert named(ingress, service, workload(labels={**LABELS, "tier": "front"})) == [
        "Ingress edge NETWORK Service web",
        "Ingress edge CONFIGURATION Secret cert",
        "Service web NETWORK Deployment web",
    ]


@pytest.mark.parametrize("selector", [None, {}, {"app": "other"}, {**LABELS, "tier": "back"}])
def test_a_service_selects_only_workloads_with_all_its_labels(selector: object) -> None:
    assert named(made("v1", "Service", "web", spec={"selector": selector}), workload()) == []


def test_a_route_of_a_gateway_names_its_backends() -> None:
    rules = [{"backendRefs": [{"name": "web"}, {"name": "api", "namespace": "other"}]}]
    route = made("gateway.networking.k8s.io/v1", "HTTPRoute", "edge", spec={"rules": rules})
    found = [(each.target.namespace, each.target.name) for each in references([route], "shop")]
    assert [target for target in found if target[1]] == [("shop", "web"), ("other", "api")]


def test_a_workload_reads_configuration() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
        "env": [{"valueFrom": {"secretKeyRef": {"name": "c"}}}, {"name": "PLAIN", "value": "1"}],
    }
    volumes = [
        {"configMap": {"name": "d"}},
        {"secret": {"secretName": "e"}},
        {"persistentVolumeClaim": {"claimName": "f"}},
        {"projected": {"sources": [{"configMap": {"name": "g"}}]}},
    ]
    pod: dict[str, Any] = {"containers": [container], "volumes": volumes, "serviceAccountName": "h"}
    cron = made(
        "batch/v1", "CronJob", "web",
        spec={"jobTemplate": {"spec": {"template": {"spec": pod}}}},
    )  # fmt: skip
    for manifest in (workload(**pod), cron, made("v1", "Pod", "web", spec=pod)):
        found = [line.split(" ", 2)[2] for line in named(manifest)]
        assert found == [
            "CONFIGURATION ConfigMap d",
            "CONFIGURATION Secret e",
            "CONFIGURATION PersistentVolumeClaim f",
            "CONFIGURATION ConfigMap g",
            "CONFIGURATION ConfigMap a",
            "CONFIGURATION Secret b",
            "CONFIGURATION Secret c",
            "PERMISSION ServiceAccount h",
        ]


def test_autoscalers_budgets_and_policies_control_workloads() -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    selector = {"matchLabels": LABELS}
    assert named(
        made("autoscaling/v2", "HorizontalPodAutoscaler", "hpa", spec={"scaleTargetRef": target}),
        made("policy/v1", "PodDisruptionBudget", "pdb", spec={"selector": selector}),
        made("networking.k8s.io/v1", "NetworkPolicy", "np", spec={"podSelector": selector}),
        workload(),
    ) == [
        "HorizontalPodAutoscaler hpa CONTROL Deployment web",
        "PodDisruptionBudget pdb CONTROL Deployment web",
        "NetworkPolicy np CONTROL Deployment web",
    ]


def test_a_binding_grants_a_role_to_service_accounts() -> None:
    binding = made(
        "rbac.authorization.k8s.io/v1", "RoleBinding", "b",
        roleRef={"kind": "Role", "name": "reader"},
        subjects=[{"kind": "ServiceAccount", "name": "web"}, {"kind": "User", "name": "ann"}],
    )  # fmt: skip
    assert named(binding) == [
        "RoleBinding b PERMISSION Role reader",
        "RoleBinding b PERMISSION ServiceAccount web",
    ]


@pytest.mark.parametrize(
    "manifest",
    [
        made("example.org/v1", "HTTPRoute", "x", spec={"rules": [{"backendRefs": [LABELS]}]}),
        made(
            "gateway.networking.k8s.io/v1", "Gateway", "x",
            spec={"rules": [{"backendRefs": [{"name": "web"}]}]},
        ),
        made("example.org/v1", "Route", "x", spec={"rules": [{"backendRefs": [{"name": "web"}]}]}),
        made("example.org/v1", "Edge", "x", spec={"tls": [{"secretName": "cert"}]}),
        made("example.org/v1", "Policy", "x", spec={"podSelector": {"matchLabels": LABELS}}),
        made("example.org/v1", "RoleBinding", "x", roleRef={"kind": "Role", "name": "reader"}),
        made(
            "rbac.authorization.k8s.io/v1", "Role", "x",
            roleRef={"kind": "Role", "name": "reader"},
        ),
        made(
            "example.org/v1", "Rollout", "x",
            spec={"template": {"spec": {"serviceAccountName": "web"}}},
        ),
        made("networking.k8s.io/v1", "Ingress", "x", spec={"rules": ["web"], "tls": [1]}),
    ],
    ids=lambda manifest: manifest["kind"],
)  # fmt: skip
def test_other_kinds_with_the_same_fields_refer_to_nothing(manifest: dict[str, Any]) -> None:
    assert named(manifest, workload()) == []


def test_references_stay_in_the_namespace_of_their_object() -> None:
    """An autoscaler without a version scales a workload of the group `apps`."""
    scaler = made("autoscaling/v2", "HorizontalPodAutoscaler", "h")
    scaler["metadata"]["namespace"] = "other"
    scaler["spec"] = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    targets = [edge.target for edge in references([scaler], "shop") if edge.target.name]
    assert targets == [ObjectRef("apps", "", "Deployment", "other", "web")]


@pytest.mark.parametrize("spec", [None, 1, "x", [], {"rules": 1, "template": [], "selector": "x"}])
@pytest.mark.parametrize("kind", ["Deployment", "Service", "Ingress", "CronJob", "Pod"])
def test_malformed_manifests_have_no_references(kind: str, spec: object) -> None:
    assert named(made("v1", kind, "web", spec=spec)) == []
