"""Scopes of kinds that a bundle defines itself, and images that need signatures."""

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.errors import Invalid
from core.signatures.artifact import ArtifactSignature
from core.spec.bundle import Attestation, make_bundle
from core.spec.desired import BundleSpec, Desired
from core.spec.fences import ServiceFence
from core.spec.input_checks import CheckResult, InputKind
from core.spec.objects import GroupVersionKind, ObjectRef
from core.spec.source_signatures import Evidence
from syncagent.autonomy.tenants import parse_tenants
from syncagent.kube.client import KubeClient
from syncagent.kube.cluster import KubeCluster
from syncagent.kube.fenced import KubeJobFences
from syncagent.kube.impersonation import ImpersonationProof
from syncagent.ports import KubeApi, UnknownApi
from syncagent.reconcile.bundle_plan import plan_bundle


async def _namespaced(api: GroupVersionKind) -> bool:
    """Knows the API server's own kinds only."""
    if api.group == "shop.io":
        raise UnknownApi(api)
    return False


@pytest.mark.parametrize(("scope", "namespace"), [("Cluster", ""), ("Namespaced", "prod")])
async def test_a_bundle_decides_the_scope_of_the_kinds_it_defines(
    scope: str, namespace: str
) -> None:
    """A custom resource next to its definition, before the API server serves the kind."""
    definition: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.io"},
        "spec": {"group": "shop.io", "names": {"kind": "Widget"}, "scope": scope},
    }
    widget = {"apiVersion": "shop.io/v1", "kind": "Widget", "metadata": {"name": "w"}}
    bundle = make_bundle([definition, widget])
    cluster = cast(KubeApi, SimpleNamespace(namespaced=_namespaced))
    spec = BundleSpec("web", "prod", bundle.digest, len(bundle.data))
    plan = await plan_bundle(cluster, Desired("s", 1, spec), bundle.data)
    assert plan.problems == []
    assert ("shop.io", "Widget", namespace, "w") in plan.manifests


@pytest.mark.parametrize(
    ("api", "namespace", "reason"),
    [
        ("../api/v1/namespaces/bank/secrets?a=/v1", "prod", "apiVersion must be"),
        ("shop.io/v1/../../api/v1", "prod", "apiVersion must be"),
        ("Shop.io/v1", "prod", "apiVersion must be"),
        ("v1", 7, "namespace must be text"),
        ("v1", ["prod"], "namespace must be text"),
    ],
)
async def test_an_object_cannot_lead_the_agent_to_another_path_of_the_api(
    api: str, namespace: Any, reason: str
) -> None:
    """Discovery would read that path as the agent itself; a number would end the agent."""
    meta = {"name": "w", "namespace": namespace}
    bundle = make_bundle([{"apiVersion": api, "kind": "Widget", "metadata": meta}])
    cluster = cast(KubeApi, SimpleNamespace(namespaced=_namespaced))
    spec = BundleSpec("web", "prod", bundle.digest, len(bundle.data))
    plan = await plan_bundle(cluster, Desired("s", 1, spec), bundle.data)
    (problem,) = plan.problems
    assert reason in problem.message and not plan.manifests
    assert problem.ref is not None and isinstance(problem.ref.namespace, str)


_MADE = json.loads((Path(__file__).parents[1] / "core/cosign_signature.json").read_text())
_PAYLOAD = _MADE["payload"].encode()
SIGNED = ArtifactSignature(b"", _PAYLOAD, base64.b64decode(_MADE["signature"]))
IMAGE = "registry.example.org/shop/web"
PINNED = f"{IMAGE}@{json.loads(_PAYLOAD)['critical']['image']['docker-manifest-digest']}"
TENANTS = b"""
shop:
  namespaces: [shop]
  serviceAccount: shop-deployer
  signers:
    shop-cosign: |
      KEY
  images: [{match: registry.example.org/shop/*, signedBy: [shop-cosign]}]
"""


@pytest.mark.parametrize("hook", [False, True])
@pytest.mark.parametrize(
    ("image", "evidence", "reason"),
    [
        (PINNED, Evidence(artifacts=(SIGNED,)).encode(), ""),
        (PINNED, b"", "it is not signed"),
        (PINNED, b"[]", "it is not signed"),
        (f"{IMAGE}:1", Evidence(artifacts=(SIGNED,)).encode(), "pin it by digest"),
        ("redis", Evidence(artifacts=(SIGNED,)).encode(), "no image rule allows docker.io"),
    ],
)
async def test_a_tenant_s_images_need_the_evidence_of_the_bundle(
    image: str, evidence: bytes, reason: str, *, hook: bool
) -> None:
    """The control plane's word does not count: it sent the bundle."""
    key = _MADE["key"].strip().replace("\n", "\n      ").encode()
    tenants = parse_tenants(TENANTS.replace(b"KEY", key))
    fence = tenants.narrowed(ServiceFence("shop"), "shop")
    meta: dict[str, Any] = {"name": "w", "namespace": "shop"}
    if hook:
        meta["annotations"] = {"towline.dev/hook": "PreSync"}
    pod = {"containers": [{"name": "web", "image": image}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}
    bundle = make_bundle([job | {"spec": {"template": {"spec": pod}}}])

    async def namespaced(api: GroupVersionKind) -> bool:
        return True

    cluster = cast(KubeApi, SimpleNamespace(namespaced=namespaced))
    attestation = Attestation("k", b"", b"", evidence)
    spec = BundleSpec("web", "shop", bundle.digest, 1, attestation=attestation)
    plan = await plan_bundle(cluster, Desired("s", 1, spec), bundle.data, fence)
    assert len(plan.problems) == (reason != "")
    assert all(reason in problem.message for problem in plan.problems)
    (check,) = plan.images.values()
    expected = CheckResult.REFUSED if reason else CheckResult.VERIFIED
    assert (check.kind, check.subject, check.result) == (InputKind.IMAGE, image, expected)
    assert (reason or "signed by a key without a name (cosign key") in check.reason


async def test_images_that_no_rule_covers_are_told_as_unverified() -> None:
    """At most 100 of them."""
    pods = [{"containers": [{"name": "c", "image": f"redis:{tag}"}]} for tag in range(101)]
    api = {"apiVersion": "v1", "kind": "Pod"}
    bundle = make_bundle(
        [api | {"metadata": {"name": f"p{n}"}, "spec": pod} for n, pod in enumerate(pods)]
    )
    cluster = cast(KubeApi, SimpleNamespace(namespaced=_namespaced))
    spec = BundleSpec("web", "shop", bundle.digest, 1)
    plan = await plan_bundle(cluster, Desired("s", 1, spec), bundle.data)
    assert {check.result for check in plan.images.values()} == {CheckResult.UNVERIFIED}
    assert (len(plan.images), plan.problems) == (100, [])


@pytest.mark.parametrize(("image", "reason"), [(PINNED, "it is not signed"), ("redis", "no image")])
async def test_a_job_brings_no_evidence(image: str, reason: str) -> None:
    key = _MADE["key"].strip().replace("\n", "\n      ").encode()
    tenants = parse_tenants(TENANTS.replace(b"KEY", key))
    cluster = cast(KubeCluster, SimpleNamespace(acting_as=lambda sender, allowed: None))
    fences = KubeJobFences(cast(KubeClient, None), cast(ImpersonationProof, None), cluster, tenants)
    pod = {"containers": [{"name": "check", "image": image}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "check"}, "spec": pod}
    with pytest.raises(Invalid, match=reason):
        await fences.within(ServiceFence("shop"), "shop").create(
            ObjectRef("batch", "v1", "Job", "shop", "check"), job
        )
