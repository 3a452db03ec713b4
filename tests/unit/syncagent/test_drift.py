"""Projection, paths and managers."""

from hypothesis import example, given
from hypothesis import strategies as st

from core.spec.projection import project
from syncagent.domain.drift import changed_paths, foreign_manager, format_path, live_digest

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
