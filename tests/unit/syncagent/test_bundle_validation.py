"""Objects of a bundle that the agent refuses before it applies anything."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import Invalid
from core.spec.bundle import MAX_OBJECT_BYTES
from core.spec.objects import ObjectKey
from syncagent.domain.bundle_validation import check_object, check_owners

Object = dict[str, Any]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("v1"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner, max_size=2)
    ),
    max_leaves=4,
)
NAMES = st.text(st.sampled_from("aZ0-.:/%é \n"), max_size=6) | JSON
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": st.sampled_from(["v1", "apps/v1", "rbac.authorization.k8s.io/v1"]) | NAMES,
        "kind": st.sampled_from(["Secret", "Role"]) | JSON,
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "name": NAMES,
                "namespace": NAMES,
                "generateName": NAMES,
                "labels": JSON,
                "annotations": JSON,
            },
        )
        | JSON,
        "data": JSON,
        "stringData": JSON,
    },
)


def object_of(name: Any = "web", api: str = "v1", kind: str = "ConfigMap", **meta: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **meta}}


def secret(**parts: Any) -> Object:
    return object_of(kind="Secret") | parts


@pytest.mark.parametrize(
    "accepted",
    [
        object_of("a.b-c.0", namespace="prod-1", labels={"a": "b"}, annotations=None),
        object_of("n" * 253),
        object_of("system:node", api="rbac.authorization.k8s.io/v1", kind="ClusterRole"),
        object_of("Grant_1", api="user.openshift.io/v1"),
        secret(data={"a": "eA=="}, stringData={"b": 1}),
        object_of(kind="Secret", api="example.org/v1") | {"data": {"a": 1}},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"generateName": "job-", "annotations": {"towline.dev/hook": "pre-sync"}},
        },
    ],
)
def test_valid_objects_are_accepted(accepted: Object) -> None:
    """Roles may have colons and capitals, hooks a generated name, other Secrets any data."""
    check_object(accepted, MAX_OBJECT_BYTES)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        ({"kind": "ConfigMap", "metadata": []}, "ConfigMap without metadata"),
        (object_of(kind=""), "has no apiVersion or kind"),
        (object_of(api=""), "has no apiVersion or kind"),
        (object_of() | {"kind": 1}, "has no apiVersion or kind"),
        (object_of() | {"apiVersion": None}, "has no apiVersion or kind"),
        (object_of(api="v1/../x"), "must be VERSION or GROUP/VERSION"),
        (object_of(api="a/b/v1"), "must be VERSION or GROUP/VERSION"),
        (object_of(api="v1\n"), "must be VERSION or GROUP/VERSION"),
        (object_of(labels={"a": 1}), "its labels must be a map of strings"),
        (object_of(annotations=["a"]), "its annotations must be a map of strings"),
        (secret(data={"a": 1}), "its data must be a map of base64 strings"),
        (secret(stringData="a"), "its stringData must be a map of strings"),
        (object_of(""), "has no name; objects with generateName"),
        (object_of(7), "has no name; objects with generateName"),
        (object_of(None, generateName="web-"), "has no name; objects with generateName"),
        (object_of(namespace=7), "its namespace must be text"),
        (object_of(namespace="a.b"), r"its namespace must be a DNS label"),
        (object_of(namespace="../kube-system"), r"its namespace must be a DNS label"),
        (object_of("n" * 254), "its name must be a DNS name"),
        (object_of("Web"), "its name must be a DNS name"),
        (object_of("web\n"), "its name must be a DNS name"),
        (object_of("../x"), "'../x' is not a name"),
        (object_of("a%2fb", api="rbac.authorization.k8s.io/v1"), "'a%2fb' is not a name"),
        (object_of("..", api="rbac.authorization.k8s.io/v1"), "'..' is not a name"),
        (object_of("a" * 254, api="rbac.authorization.k8s.io/v1"), "its name must be a DNS name"),
    ],
)
def test_an_object_that_could_lead_elsewhere_is_named_and_refused(
    refused: Object, reason: str
) -> None:
    with pytest.raises(Invalid, match=reason):
        check_object(refused, 1)


def test_an_object_beyond_the_limit_of_the_api_server_is_refused() -> None:
    with pytest.raises(Invalid, match="ConfigMap web has 1,500,001 bytes"):
        check_object(object_of(), MAX_OBJECT_BYTES + 1)


@given(OBJECTS)
@example(object_of("x", kind="Secret") | {"data": {"k": 1}})
def test_any_object_is_refused_or_its_path_stays_where_it_belongs(found: Object) -> None:
    try:
        check_object(found, 1)
    except Invalid:
        return
    meta = found["metadata"]
    segments = [meta.get("name") or meta.get("generateName"), meta.get("namespace") or "x"]
    for segment in (*segments, *found["apiVersion"].split("/")):
        assert segment not in ("", ".", "..") and not {"/", "%", "\n"} & set(segment)


def key(name: str, namespace: str = "prod") -> ObjectKey:
    return ("", "ConfigMap", namespace, name)


def owned(*owners: str) -> Object:
    references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner} for owner in owners]
    return {"metadata": {"ownerReferences": references}}


def test_owners_in_a_cycle_are_named() -> None:
    """Kubernetes would delete them all. The cycle may be anywhere, and of one object."""
    cycle = {key("x"): owned("a"), key("a"): owned("z", "b"), key("b"): owned("a")}
    with pytest.raises(Invalid, match="cycle: .*ConfigMap a → ConfigMap b"):
        check_owners(cycle)
    with pytest.raises(Invalid, match="cycle: ConfigMap a"):
        check_owners({key("a"): owned("a")})
    with pytest.raises(Invalid, match="cycle: "):
        check_owners({key("a"): owned("b"), key("b", ""): owned("c"), key("c", ""): owned("b")})


def test_owners_without_a_cycle_are_accepted() -> None:
    """Two ways to one owner, a chain of thousands, and owners outside of the bundle."""
    last = {"metadata": {"ownerReferences": 7}}
    check_owners(
        {key("a"): owned("b", "c"), key("b"): owned("d"), key("c"): owned("d"), key("d"): last}
    )
    check_owners({key(f"o{number}"): owned(f"o{number + 1}") for number in range(5000)})
    check_owners({key("a"): owned("b"), key("b", "other"): owned("a")})
    check_owners({key("a"): {"metadata": {"ownerReferences": ["b", None]}}})
