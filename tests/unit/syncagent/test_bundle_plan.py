"""Scopes of kinds that a bundle defines itself."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.spec.bundle import make_bundle
from core.spec.desired import BundleSpec, Desired
from core.spec.objects import GroupVersionKind
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
