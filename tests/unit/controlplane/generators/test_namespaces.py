"""Managed namespaces: their limits, their objects, and a service inside."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.generators.model.namespaces import QUOTA, ManagedNamespace, NamespaceSpec
from controlplane.services.model.templates import ServiceTemplate
from core.errors import Invalid
from tests.fakes.clock import START

SPEC = NamespaceSpec("shop", {"team": "shop"}, {"note": "x"}, {"requests.cpu": "4"})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"namespace": "Not a label"}, "namespace"),
        ({"namespace": ""}, "namespace"),
        ({"namespace": "kube-system"}, "namespace"),
        ({"namespace": "default"}, "namespace"),
        ({"labels": {f"l{number}": "" for number in range(65)}}, "labels"),
        ({"quota": {f"q{number}": "1" for number in range(65)}}, "quota"),
        ({"labels": {"short": "x" * 254}}, "labels"),
        ({"quota": {"x" * 254: ""}}, "quota"),
        ({"annotations": {"note": "x" * 4097}}, "annotations"),
    ],
)
def test_a_namespace_beyond_its_limits_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as error:
        replace(SPEC, **changes).check()
    assert error.value.field == field


def test_a_namespace_at_its_limits_is_accepted() -> None:
    entries = {f"l{number}": "" for number in range(63)}
    NamespaceSpec("shop", {**entries, "a": "x" * 253}, {"note": "x" * 4096}, entries).check()
    NamespaceSpec("kube-system-x").check()


def test_a_quota_is_an_object_of_its_own() -> None:
    namespace, quota = SPEC.objects()
    metadata = {"name": "shop", "labels": {"team": "shop"}, "annotations": {"note": "x"}}
    assert namespace == {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    assert (quota["kind"], quota["apiVersion"]) == ("ResourceQuota", "v1")
    assert quota["metadata"] == {"name": QUOTA, "namespace": "shop"}
    assert quota["spec"] == {"hard": {"requests.cpu": "4"}}
    assert replace(SPEC, quota={}).objects() == [namespace]


def test_the_service_of_a_namespace_runs_in_it() -> None:
    template = ServiceTemplate("web", "elsewhere", "apps")
    definition = ManagedNamespace("n", "teams", START, START, spec=SPEC, template=template)
    assert definition.template_in_namespace() == replace(template, namespace="shop")
    assert replace(definition, template=None).template_in_namespace() is None


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("shop", "namespace-shop"), ("a" * 52 + "-b" * 5, "namespace-" + "a" * 52)],
)
def test_the_service_that_owns_a_namespace_has_a_short_name(namespace: str, name: str) -> None:
    definition = ManagedNamespace("n", "teams", START, START, spec=NamespaceSpec(namespace))
    owner = definition.namespace_template()
    assert (owner.name, owner.namespace) == (name, namespace)
