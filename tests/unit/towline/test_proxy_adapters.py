"""Requests of the proxy reach the control plane and its audit log."""

import pytest

from controlplane.authorization.roles import KubernetesRequest, KubernetesRights, KubernetesRule
from controlplane.platform.audit_entry import AuditVerdict
from proxy.domain.attributes import read_attributes
from proxy.domain.audit import EndReason, RequestRecord
from tests.fakes.clock import FakeClock
from tests.fakes.kube_proxy import ANN, CLUSTER
from towline.serve.proxy_adapters import _audit_entry, _rbac_request

POD = "/api/v1/namespaces/a/pods/b"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", POD, KubernetesRequest("get", "", "pods", "a", "b")),
        ("GET", f"{POD}/exec", KubernetesRequest("create", "", "pods/exec", "a", "b")),
        ("POST", f"{POD}/exec", KubernetesRequest("create", "", "pods/exec", "a", "b")),
        ("GET", f"{POD}/log", KubernetesRequest("get", "", "pods/log", "a", "b")),
        ("GET", f"{POD}/proxy/x", KubernetesRequest("create", "", "pods/proxy", "a", "b")),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments",
         KubernetesRequest("deletecollection", "apps", "deployments", "a", "")),
        ("GET", "/metrics", KubernetesRequest("get")),
        ("GET", "/version", KubernetesRequest("get", describes=True)),
    ],
)  # fmt: skip
def test_requests_are_asked_about_as_kubernetes_names_them(
    method: str, path: str, expected: KubernetesRequest
) -> None:
    """A terminal is created, also where a WebSocket opens it with a GET."""
    assert _rbac_request(read_attributes(method, path)) == expected


def test_whoever_may_only_read_opens_no_terminal() -> None:
    """By neither transport."""
    rule = KubernetesRule(verbs=("get", "list", "watch"))
    assert rule.matches(_rbac_request(read_attributes("GET", POD)))
    for method in ("GET", "POST"):
        assert not rule.matches(_rbac_request(read_attributes(method, f"{POD}/attach")))


SELF = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.mark.parametrize(
    ("method", "path", "passes"),
    [
        ("GET", "/api", True),
        ("GET", "/apis/apps/v1", True),
        ("GET", "/openapi/v3/apis/apps/v1", True),
        ("POST", SELF, True),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", True),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", False),
        ("POST", f"{SELF}/mine/status", False),
        ("POST", f"/apis/x.example.org/v1/{SELF.rpartition('/')[2]}", False),
        ("POST", "/api", False),
        ("GET", "/api/v1/nodes", False),
        ("GET", "/logs/kubelet.log", False),
    ],
)
def test_a_narrow_role_leaves_clients_what_none_can_do_without(
    method: str, path: str, passes: bool
) -> None:
    """kubectl asks first which APIs there are."""
    narrow = KubernetesRights(rules=(KubernetesRule(namespaces=("shop",)),))
    assert narrow.allows(_rbac_request(read_attributes(method, path))) is passes


def record(**known: object) -> RequestRecord:
    made = RequestRecord("0" * 32, FakeClock().now(), "1.2.3.4:5", "curl", "dev", "GET", False)
    made.identity, made.attributes = ANN, read_attributes("GET", POD)
    for name, value in known.items():
        setattr(made, name, value)
    return made


def test_rows_say_what_became_of_a_request() -> None:
    """Each row has the refusing side, the impersonated user and whether it was recorded."""
    now = FakeClock().now()
    ours = _audit_entry(record(status=403, refused=True, reason=EndReason.REFUSED), now)
    theirs = _audit_entry(record(status=403, cluster_id=CLUSTER, reason=EndReason.DONE), now)
    assert (ours.verdict, theirs.verdict) == (AuditVerdict.REFUSED, AuditVerdict.ALLOWED)
    acted = _audit_entry(
        record(acting_as="bob", acting_groups=("qa",), recorded=True, grant_ids=("g1",)), now
    )
    assert acted.detail == {
        "user_agent": "curl",
        "acting_as": "bob",
        "acting_groups": ("qa",),
        "grants": ("g1",),
        "recorded": True,
        "phase": "started",
    }
