"""Parsing of inventories: names, tags and any JSON that a management cluster may answer."""

import json

from hypothesis import given
from hypothesis import strategies as st

from controlplane.cluster_sources.model.delivery import AgentDelivery
from controlplane.cluster_sources.model.inventory import (
    APIS,
    MAX_PROPERTIES,
    InventoryObject,
    check_settings,
    cluster_name,
    cluster_tags,
    inventory_objects,
    list_path,
    retagged,
    served_version,
    tag_name,
)
from controlplane.cluster_sources.model.source import ClusterSourceSettings, InventoryKind
from controlplane.clusters.operations.clusters import check_tags
from controlplane.platform.names import is_label
from core.errors import Invalid, NotFound

LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
NAMES = st.one_of(LABEL, st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,70}[a-z0-9])?", fullmatch=True))
TEMPLATES = st.one_of(
    st.sampled_from(["{name}", "{namespace}-{name}", "x-{name}-y"]), st.text(max_size=30)
)
LABEL_KEYS = st.one_of(LABEL, st.builds("{}.example.org/{}".format, LABEL, LABEL))
LABELS = st.dictionaries(LABEL_KEYS, st.one_of(st.just(""), LABEL), max_size=5)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                "items metadata name namespace uid labels status spec topology version versions "
                "kubernetes properties value conditions type initialization "
                "controlPlaneInitialized".split()
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)
KINDS = st.sampled_from(list(InventoryKind))


def found(name: str = "eu-1", namespace: str = "fleet", **columns: object) -> InventoryObject:
    given = {"uid": "1", "labels": {}, "api_version": "cluster.x-k8s.io/v1beta2"} | columns
    return InventoryObject(name=name, namespace=namespace, **given)  # ty: ignore[invalid-argument-type]


@given(TEMPLATES, NAMES, LABEL)
def test_a_name_is_a_valid_handle_or_refused(template: str, name: str, namespace: str) -> None:
    settings = ClusterSourceSettings("a", "b", name_template=template)
    try:
        check_settings(settings)
    except Invalid:
        return
    try:
        handle = cluster_name(template, found(name, namespace))
    except Invalid:
        return
    assert is_label(handle)
    assert name in handle


@given(LABEL, LABEL)
def test_an_accepted_template_names_each_short_label(name: str, namespace: str) -> None:
    handle = cluster_name("{namespace}-{name}", found(name, namespace))
    assert handle == f"{namespace}-{name}"


@given(LABELS, st.lists(LABEL_KEYS, max_size=4, unique_by=tag_name), st.dictionaries(LABEL, LABEL))
def test_tags_come_from_chosen_labels_alone(
    labels: dict[str, str], chosen: list[str], fixed: dict[str, str]
) -> None:
    settings = ClusterSourceSettings("a", "b", tag_labels=tuple(chosen), tags=fixed)
    check_settings(settings)
    tags = cluster_tags(settings, labels)
    assert fixed.items() <= tags.items()
    others = tags.keys() - fixed.keys()
    assert others <= {tag_name(label) for label in chosen if labels.get(label)}
    assert check_tags(tags) == tags


@given(st.dictionaries(LABEL, LABEL), st.dictionaries(LABEL, LABEL), st.dictionaries(LABEL, LABEL))
def test_new_tags_replace_only_those_of_the_source(
    present: dict[str, str], before: dict[str, str], after: dict[str, str]
) -> None:
    tags = retagged(present, before, after)
    assert after.items() <= tags.items()
    mine = {name: value for name, value in present.items() if before.get(name) != value}
    assert {name: tags[name] for name in mine.keys() - after.keys()} == {
        name: mine[name] for name in mine.keys() - after.keys()
    }
    assert tags.keys() == mine.keys() | after.keys()


@given(KINDS, JSON)
def test_any_answer_is_parsed_within_limits(kind: InventoryKind, answer: object) -> None:
    page = answer if isinstance(answer, dict) else {"items": answer}
    for item in inventory_objects(kind, "v1beta2", page):
        assert item.uid and item.name
        assert len(item.version) <= 64 and len(item.properties) <= MAX_PROPERTIES
    try:
        assert served_version(APIS[kind], page) in APIS[kind].versions
    except NotFound:
        pass


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_hostile_name_stays_one_segment_of_the_path(name: str, namespace: str) -> None:
    delivery = AgentDelivery("capi", found(name or "x", namespace), "v1beta2")
    for path in (delivery.secret_path, delivery.set_path, delivery.object_path):
        rest = path.partition("/namespaces/")[2]
        assert rest.count("/") == 2 and not set(rest) & set("?# \r\n")


def test_a_status_is_ready_in_both_versions_of_cluster_api() -> None:
    new = {"initialization": {"controlPlaneInitialized": True}}
    old = {"conditions": [{"type": "ControlPlaneInitialized", "status": "True"}]}
    waiting = {"conditions": [{"type": "ControlPlaneInitialized", "status": "False"}]}
    other = {"conditions": [{"type": "Ready", "status": "True"}]}
    statuses = ((new, True), (old, True), (waiting, False), (other, False), ({}, False))
    for status, ready in statuses:
        item = {"metadata": {"name": "a", "uid": "1"}, "status": status}
        (parsed,) = inventory_objects(InventoryKind.CLUSTER_API, "v1beta1", {"items": [item]})
        assert parsed.is_ready is ready


def test_objects_without_a_name_or_a_uid_are_left_out() -> None:
    names = [{"name": "a", "uid": "1"}, {"name": "b"}, {"uid": "2"}, {"name": 3, "uid": "3"}]
    page = {"items": [{"metadata": metadata} for metadata in names]}
    for kind in InventoryKind:
        parsed = inventory_objects(kind, "v1", page)
        assert [(item.name, item.uid, item.version) for item in parsed] == [("a", "1", "")]


def test_texts_of_objects_have_limits() -> None:
    metadata = dict.fromkeys(("name", "namespace", "uid"), "x" * 300)
    item = {"metadata": metadata, "spec": {"topology": {"version": "x" * 300}}}
    (parsed,) = inventory_objects(InventoryKind.CLUSTER_API, "v1beta2", {"items": [item]})
    texts = (parsed.name, parsed.namespace, parsed.uid, parsed.version)
    assert [len(text) for text in texts] == [253, 63, 64, 64]


def test_a_profile_shows_its_version_and_properties_and_no_credentials() -> None:
    status = {
        "version": {"kubernetes": "v1.33.2"},
        "properties": [{"name": "n", "value": "v" * 2000}] * 70,
        "credentialProviders": [{"name": "canary-1b2d-inventory"}],
    }
    item = {"metadata": {"name": "a", "uid": "1"}, "status": status}
    (parsed,) = inventory_objects(InventoryKind.CLUSTER_PROFILE, "v1alpha1", {"items": [item]})
    assert (parsed.version, len(parsed.properties)) == ("v1.33.2", 64)
    assert len(parsed.properties[0].value) == 1024
    assert "canary" not in json.dumps(repr(parsed))


def test_a_page_continues_where_the_last_one_ended() -> None:
    settings = ClusterSourceSettings("a", "b", namespace="fleet", selector="env=prod")
    api = APIS[InventoryKind.CLUSTER_API]
    whole = list_path(api, "v1beta2", ClusterSourceSettings("a", "b"))
    assert whole == "/apis/cluster.x-k8s.io/v1beta2/clusters?limit=100"
    path = list_path(api, "v1beta2", settings, "x&y")
    assert path == (
        "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/clusters?"
        "limit=100&labelSelector=env%3Dprod&continue=x%26y"
    )
