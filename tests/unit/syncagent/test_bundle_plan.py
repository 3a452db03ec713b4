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
