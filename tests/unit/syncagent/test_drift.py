"""Projection, paths and managers."""

from hypothesis import example, given
from hypothesis import strategies as st

from core.spec.objects import FieldChange
from core.spec.projection import project
from syncagent.domain.drift import (
    changed_paths,
    field_changes,
    foreign_manager,
    format_path,
    live_digest,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(JSON)
def test_an_object_projected_on_itself_is_itself(value) -> None:
    """Nothing is lost where nothing was added."""
    assert project(value, value) == value
    assert changed_paths(value, value) == []


@given(st.dictionaries(st.text(max_size=4), JSON), st.dictionaries(st.text(max_size=4), JSON))
def test_fields_of_others_do_not_count(manifest, added) -> None:
    """Fields added by the server or others change no digest."""
    live = added | manifest
    assert live_digest(manifest, live) == live_digest(manifest, manifest)


@given(JSON, JSON)
@example([False, False], [False, 0])
def test_different_values_have_a_path(before, after) -> None:
    """There is a path exactly if something differs."""
    nothing_is_nothing = _without_null(before) == _without_null(after)
    assert bool(changed_paths(before, after)) == (not nothing_is_nothing)


def _without_null(value):
    if isinstance(value, dict):
        return {k: _without_null(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_null(v) for v in value]
    return (type(value), value) if isinstance(value, bool) else value


def test_list_items_are_matched_by_name() -> None:
    """An injected container is not drift; a changed image is, and its path names the container."""
    manifest = {"containers": [{"name": "web", "image": "a"}]}
    right = {"containers": [{"name": "sidecar"}, {"name": "web", "image": "a", "tty": False}]}
    wrong = {"containers": [{"name": "web", "image": "b"}, {"name": "sidecar"}]}
    assert live_digest(manifest, right) == live_digest(manifest, manifest)
    paths = changed_paths(project(manifest, wrong), project(manifest, right))
    assert [format_path(path) for path in paths] == ["containers[name=web].image"]


def test_the_manager_of_the_field_is_named() -> None:
    """The owner of the changed field wins over a later one of another field."""
    entries = [
        {
            "manager": "kubectl-edit",
            "time": "2026-01-01T00:00:00Z",
            "fieldsV1": {"f:data": {"f:key": {}}},
        },
        {"manager": "other", "time": "2026-02-01T00:00:00Z", "fieldsV1": {"f:metadata": {}}},
        {"manager": "towline", "time": "2026-03-01T00:00:00Z", "fieldsV1": {"f:data": {}}},
        {"manager": "kubelet", "subresource": "status", "fieldsV1": {"f:data": {"f:key": {}}}},
    ]
    live = {"metadata": {"managedFields": entries}}
    assert foreign_manager(live, [("data", "key")]) == "kubectl-edit"
    assert foreign_manager(live, []) == "other"
    assert foreign_manager({"metadata": {}}, [("data",)]) == ""
    scaled = {"f:spec": {"f:replicas": {}}}
    entries.append({"manager": "kubectl", "subresource": "scale", "fieldsV1": scaled})
    assert foreign_manager(live, [("spec", "replicas")]) == "kubectl"


def deployment(image: str, **more: object) -> dict:
    containers = [{"name": "web", "image": image}]
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "spec": {"containers": containers},
        **more,
    }


def test_changes_name_fields_by_pointers_and_leave_out_bookkeeping() -> None:
    """Counters of the server, the status and our own marks change with every write."""
    ours = {"towline.dev/service": "s1", "a/b": "1"}
    before = deployment("web:1", metadata={"generation": 1, "labels": ours, "name": "x"})
    metadata = {"generation": 2, "resourceVersion": "7", "managedFields": [{}], "name": "x"}
    labels = {"towline.dev/service": "s2", "a/b": "2"}
    after = deployment("web:2", metadata=metadata | {"labels": labels}, status={"ready": 1})
    assert field_changes(before, after) == (
        FieldChange("/metadata/labels/a~1b", '"1"', '"2"'),
        FieldChange("/spec/containers/web/image", '"web:1"', '"web:2"'),
    )


def test_a_missing_side_of_a_change_is_empty() -> None:
    before, after = {"data": {"old": 1}, "list": [1, 2]}, {"data": {"new": None}, "list": [1, 3]}
    assert field_changes(before, after) == (
        FieldChange("/data/old", "1", ""),
        FieldChange("/list/1", "2", "3"),
    )


def test_lists_of_other_lengths_change_as_a_whole() -> None:
    assert changed_paths({"a": [1]}, {"a": [1, 2]}) == [("a",)]
    named, unnamed = [{"name": "x"}], [{"name": "x"}, {"name": "y", "p": 1}]
    assert [format_path(path) for path in changed_paths(named, unnamed)] == ["[name=y]"]


def test_values_of_secrets_are_masked_and_long_values_are_cut() -> None:
    secret = {"kind": "Secret", "apiVersion": "v1"}
    old, new = {**secret, "data": {"k": "canary-0001-old"}}, {**secret, "data": {"k": "x"}}
    assert field_changes(old, new) == (FieldChange("/data/k", '"(secret)"', '"(secret)"'),)
    longer = {"kind": "Secret", "apiVersion": "example.org/v1", "data": {"k": "y" * 2000}}
    (change,) = field_changes({**longer, "data": {"k": "x"}}, longer)
    assert (change.old, len(change.new), change.new[-1]) == ('"x"', 1024, "…")


def test_at_most_32_changes_are_listed() -> None:
    changes = field_changes({}, {"data": {f"k{number:02}": 1 for number in range(40)}})
    assert changes == (FieldChange("/data", "", changes[0].new),)
    changes = field_changes({"data": {}}, {"data": {f"k{number:02}": 1 for number in range(40)}})
    assert [change.pointer for change in changes] == [f"/data/k{number:02}" for number in range(32)]


def test_without_an_owner_the_last_writer_is_named() -> None:
    """Also for an item of a list, which is owned by its name."""
    entries = [
        {"manager": "first", "time": "2026-01-01T00:00:00Z"},
        {"manager": "last", "time": "2026-02-01T00:00:00Z", "fieldsV1": {"f:x": {}}},
        {
            "manager": "owner",
            "fieldsV1": {"f:items": {'k:{"name":"web"}': {"f:image": {}}}},
        },
    ]
    live = {"metadata": {"managedFields": entries}}
    assert foreign_manager(live, ()) == foreign_manager(live, [("none",)]) == "last"
    assert foreign_manager(live, [("none",), ("items", "[name=web]", "image")]) == "owner"
    assert foreign_manager({"metadata": {}}, [("items",)]) == ""


def test_the_owner_of_a_field_of_a_container_is_named() -> None:
    """Not the one who wrote another container later, nor the kubelet that wrote the status."""

    def entry(manager: str, container: str, time: str) -> dict:
        fields = {"f:spec": {"f:containers": {f'k:{{"name":"{container}"}}': {"f:image": {}}}}}
        return {"manager": manager, "time": time, "fieldsV1": fields}

    owner, later = entry("scaler", "web", "2026-01-01"), entry("injector", "sidecar", "2026-02-01")
    status = {**entry("kubelet", "web", "2026-03-01"), "subresource": "status"}
    live = {"metadata": {"managedFields": [later, owner, status]}}
    path = ("spec", "containers", "[name=web]", "image")
    assert foreign_manager(live, [path]) == "scaler"
    assert foreign_manager({"metadata": {"managedFields": [status]}}, [path]) == ""


def test_annotations_of_a_pod_template_are_changes() -> None:
    """Only the agent's own notes on the object itself are bookkeeping."""
    bare = {"metadata": {"annotations": {}}}
    note = {"metadata": {"annotations": {"towline.dev/x": "1"}}}
    (change,) = field_changes({**bare, "spec": bare}, {**note, "spec": note})
    assert change == FieldChange("/spec/metadata/annotations/towline.dev~1x", "", '"1"')
