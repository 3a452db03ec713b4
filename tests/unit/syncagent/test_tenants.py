"""The file of tenants, and the fences that it narrows."""

import pytest

from core.errors import Invalid
from core.spec.fences import ObjectRules, ServiceFence
from syncagent.autonomy.tenants import parse_tenants
from syncagent.domain.tenants import TenantPolicy

FILE = b"""
shop:
  namespaces: [shop-*]
  serviceAccount: shop-deployer
  clusterScoped: [Namespace]
  denied: [ResourceQuota]
infra: {namespaces: ["*"], serviceAccount: "infra:deployer"}
"""


def test_a_tenant_replaces_the_account_and_adds_its_rules() -> None:
    own = ObjectRules(("shop-1", "bank"))
    policy = parse_tenants(FILE)
    claimed = ServiceFence("shop", "kube-system:admin", (own,), 5)
    rules = ObjectRules(("shop-*",), ("Namespace",), ("ResourceQuota",))
    expected = ServiceFence("shop", "shop-1:shop-deployer", (own, rules), 5)
    assert policy.narrowed(claimed, "shop-1") == expected
    infra = policy.narrowed(ServiceFence("infra"), "x")
    assert infra is not None and infra.service_account == "infra:deployer"


@pytest.mark.parametrize("fence", [None, ServiceFence("bank"), ServiceFence("")])
def test_other_projects_are_refused(fence: ServiceFence | None) -> None:
    with pytest.raises(Invalid, match="is not a tenant of this cluster"):
        parse_tenants(FILE).narrowed(fence, "shop-1")


@pytest.mark.parametrize("fence", [None, ServiceFence("bank", "a:b")])
def test_without_tenants_the_control_plane_s_fence_holds(fence: ServiceFence | None) -> None:
    assert TenantPolicy().narrowed(fence, "shop") is fence


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "must map the name"),
        (b"[]", "must map the name"),
        (b"{", "not valid YAML"),
        (b"shop: 1", "expected a map"),
        (b"shop: {namespaces: [a]}", "serviceAccount is missing"),
        (b"shop: {serviceAccount: a, namespace: [b]}", "unknown fields namespace"),
        (b"shop: {serviceAccount: a, namespaces: b}", "must be a list of texts"),
        (b"shop: {serviceAccount: a, namespaces: ['[a]']}", "is not a pattern"),
        (b"shop: {serviceAccount: a, images: [{url: x}]}", "needs the field match"),
        (b"shop: {serviceAccount: a, images: [{match: x, by: y}]}", "unknown fields by in images"),
        (b"shop: {serviceAccount: a, images: [{match: x, signedBy: [y]}]}", "no set of signers y"),
        (b"shop: {serviceAccount: a, sources: [{match: x}]}", "needs the field url"),
        (b"shop: {serviceAccount: 'A'}", "is not the name of a service account"),
        (b"#" * (1 << 20) + b"##", "larger than 1 MiB"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(text: bytes, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        parse_tenants(text)
