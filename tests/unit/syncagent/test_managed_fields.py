"""Field ownership: whose fields an apply may set, take over and give up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.spec.desired import BundleSpec
from core.spec.sync import IgnoredDifference, SyncOptions
from syncagent.domain.adoption import former_tools, with_adopted_fields, without_own_fields
from syncagent.domain.ignored_differences import ignored_fields, owned_part
from syncagent.domain.managed_fields import (
    contains_field,
    leaves,
    path_of,
    union,
    without_field,
    without_fields,
)
from syncagent.domain.ownership import ObjectManifest, manifest_of

Fields = dict[str, Any]
KEYS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', "v:1"])
SETS: st.SearchStrategy[Fields] = st.recursive(
    st.just({}), lambda below: st.dictionaries(KEYS, below, max_size=3), max_leaves=8
)
WEB = 'k:{"name":"web"}'


def entry(manager: str, fields: Fields, operation: str = "Apply", subresource: str = "") -> Fields:
    return {
        "manager": manager,
        "operation": operation,
        "fieldsV1": fields,
        **({"subresource": subresource} if subresource else {}),
    }


def live(*entries: Fields) -> Fields:
    return {"metadata": {"name": "web", "managedFields": list(entries)}}


def manifest(*ignored: IgnoredDifference) -> ObjectManifest:
    """A Deployment of two containers with ignored differences."""
    containers = [{"name": "web", "image": "web:1"}, {"name": "log", "image": "log:1"}]
    raw = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": containers}}},
    }
    spec = BundleSpec("shop", "prod", "sha256:0", 1, SyncOptions(ignored=ignored))
    return manifest_of(raw, "s1", spec, namespaced=True)


@given(SETS, SETS)
def test_a_union_has_the_fields_of_both_and_no_others(one: Fields, other: Fields) -> None:
    merged = union((one, other))
    for path in (*leaves(one), *leaves(other)):
        assert contains_field(merged, path)
    for path in leaves(merged):
        assert contains_field(one, path) or contains_field(other, path)


@given(SETS)
def test_a_set_without_a_field_has_all_others(fields: Fields) -> None:
    for path in leaves(fields):
        rest = without_field(fields, path)
        assert not contains_field(rest, path)
        assert set(leaves(fields)) - {path} <= set(leaves(rest))
    assert without_field(fields, ()) == without_field(fields, ("f:other",)) == fields


def test_the_mark_of_an_item_itself_is_no_leaf() -> None:
    fields = {"f:spec": {"f:containers": {WEB: {".": {}, "f:image": {}}}}, "f:data": {".": {}}}
    assert set(leaves(fields)) == {("f:spec", "f:containers", WEB, "f:image"), ("f:data",)}


@pytest.mark.parametrize(
    ("steps", "keys"),
    [
        (("spec", "replicas"), ["f:spec", "f:replicas"]),
        (("items", "web", "image"), ["f:items", WEB, "f:image"]),
        (("items", "0", "image"), ["f:items", WEB, "f:image"]),
        (("items", "other", "image"), ["f:items"]),
        (("plain", "0"), ["f:plain"]),
        (("none", "below"), ["f:none", "f:below"]),
    ],
)
def test_a_pointer_becomes_the_keys_of_a_set(steps: tuple[str, ...], keys: list[str]) -> None:
    """A list item without a name is not told apart from its list."""
    assert path_of({"items": [{"name": "web"}], "plain": [1], "spec": {}}, steps) == keys


def test_fields_of_others_leave_a_manifest_with_the_branches_that_they_empty() -> None:
    body = {
        "replicas": 3,
        "scale": {"min": 1},
        "selector": {"app": "web"},
        "items": [{"name": "web", "image": "a", "port": 80}, {"name": "log", "image": "b"}],
        "empty": {},
    }
    theirs = {
        "f:replicas": {},
        "f:scale": {"f:min": {}},
        "f:selector": {},
        "f:items": {WEB: {"f:image": {}, "f:name": {}}, "k:no JSON": {"f:image": {}}},
    }
    assert without_fields(body, theirs) == {
        "items": [{"name": "web", "port": 80}, {"name": "log", "image": "b"}],
        "empty": {},
    }


def test_ignored_fields_are_sent_only_until_the_object_exists() -> None:
    """A pointer names the field, a manager all fields that it owns."""
    pointer = IgnoredDifference(pointers=("/spec/replicas", "/spec/none"))
    scaler = IgnoredDifference(kind="Deployment", managers=("scaler",))
    made = manifest(pointer, scaler)
    images = {"f:spec": {"f:template": {"f:spec": {"f:containers": {WEB: {"f:image": {}}}}}}}
    seen = live(entry("scaler", images), entry("other", {"f:spec": {"f:replicas": {}}}))
    assert owned_part(made, None)["spec"].keys() == {"template"}
    sent = owned_part(made, seen)["spec"]["template"]["spec"]["containers"]
    assert sent == [{"name": "web"}, {"name": "log", "image": "log:1"}]
    assert ignored_fields(made, seen) == [
        ["f:spec", "f:replicas"],
        ["f:spec", "f:none"],
        ["f:spec", "f:template", "f:spec", "f:containers", WEB, "f:image"],
    ]
    assert made.body["spec"]["replicas"] == 3
    assert owned_part(manifest(), seen) == manifest().body


def test_the_fields_of_a_former_tool_become_ours() -> None:
    """Those of its status, and of programs that apply no manifests, stay theirs."""
    helm = entry("helm", {"f:spec": {"f:replicas": {}}}, "Update")
    status = entry("helm", {"f:status": {}}, "Update", "status")
    user = entry("somebody", {"f:data": {}}, "Update")
    ours = entry("towline", {"f:spec": {"f:paused": {}}})
    seen = live(helm, status, ours, user)
    assert former_tools(seen) == ("Helm",)
    both = {"f:spec": {"f:replicas": {}, "f:paused": {}}}
    assert with_adopted_fields(seen) == [status, ours | {"fieldsV1": both}, user]


def test_without_a_former_tool_nothing_is_taken_over() -> None:
    ours, user = entry("towline", {"f:a": {}}), entry("somebody", {"f:b": {}})
    updated = entry("towline", {"f:a": {}}, "Update")
    scaled = entry("towline", {"f:a": {}}, "Apply", "scale")
    helm = entry("helm", {"f:b": {}})
    for entries in ((ours,), (ours, user), (updated, helm), (scaled, helm), ()):
        assert with_adopted_fields(live(*entries)) is None
    assert former_tools(live(ours, user)) == ()
    assert former_tools(live(entry("flux", {}), entry("kubectl", {}), entry("gotk", {}))) == (
        "Flux",
        "kubectl",
    )


def test_own_fields_are_given_up_in_the_own_entry_only() -> None:
    others, ours = entry("somebody", {"f:a": {}}), entry("towline", {"f:a": {}, "f:b": {}})
    updated = entry("towline", {"f:a": {}}, "Update")
    found = without_own_fields(live(others, updated, ours), [["f:a"], ["f:none"]])
    assert found == [others, updated, ours | {"fieldsV1": {"f:b": {}}}]
    assert without_own_fields(live(others, ours), [["f:none"]]) is None
    assert without_own_fields(live(others), [["f:a"]]) is None
