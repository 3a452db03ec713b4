"""Waves and ownership of manifests."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from core.spec.desired import BundleSpec
from core.spec.objects import ObjectRef
from syncagent.domain.directives import DeletionPolicy, directives_of
from syncagent.domain.objects import api_of, ref_of
from syncagent.domain.ownership import (
    OBJECT_ANNOTATION,
    SERVICE_LABEL,
    manifest_of,
    owner_of,
    release_patch,
)
from syncagent.domain.waves import in_waves, wave_of

SPEC = BundleSpec("shop", "prod", "sha256:0", 1)
KINDS = st.sampled_from(
    [
        ("", "Namespace"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("", "ConfigMap"),
        ("apps", "Deployment"),
        ("example.org", "Namespace"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ]
)


def manifest(kind: str = "ConfigMap", *, namespaced: bool = True, **fields):
    raw = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "web"}} | fields
    return manifest_of(raw, "s1", SPEC, namespaced)


@given(st.lists(st.tuples(KINDS, st.integers(0, 99)), max_size=30))
def test_waves_keep_all_items_in_order(items) -> None:
    """Nothing is lost; waves grow; within a wave the given order stays."""
    manifests = [
        manifest_of(
            {"apiVersion": f"{g}/v1" if g else "v1", "kind": k, "metadata": {"name": f"n{i}-{n}"}},
            "s1",
            SPEC,
            True,
        )
        for i, ((g, k), n) in enumerate(items)
    ]
    waves = in_waves(manifests)
    numbers = [wave[0].wave for wave in waves]
    assert numbers == sorted(set(numbers))
    assert sorted(m.ref.name for w in waves for m in w) == sorted(m.ref.name for m in manifests)
    for wave in waves:
        assert [manifests.index(m) for m in wave] == sorted(manifests.index(m) for m in wave)


def test_definitions_come_first_and_interceptors_last() -> None:
    """Dependencies of others go first, admission of others goes last."""
    kinds = [
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("apps", "Deployment"),
        ("", "Secret"),
        ("", "Namespace"),
    ]
    assert [wave_of(ObjectRef(g, "v1", k, "", "x")) for g, k in kinds] == [3, 2, 1, 0]
    for group, kind in (("example.org", "Namespace"), ("", "Pod"), ("node.k8s.io", "Other")):
        assert wave_of(ObjectRef(group, "v1", kind, "", "x")) == 2


def test_a_manifest_is_marked_placed_and_cleaned() -> None:
    """Labels and annotations say whose it is; what the server sets is taken out."""
    raw = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web", "creationTimestamp": None, "resourceVersion": "7"},
        "status": {"x": 1},
    }
    made = manifest_of(raw, "s1", SPEC, namespaced=True)
    meta = made.body["metadata"]
    assert made.ref == ObjectRef("", "v1", "ConfigMap", "prod", "web")
    assert meta["labels"] == {SERVICE_LABEL: "s1"}
    assert "status" not in made.body and "resourceVersion" not in meta
    assert "creationTimestamp" not in meta
    assert raw["metadata"] == {"name": "web", "creationTimestamp": None, "resourceVersion": "7"}
    assert owner_of(made.body) == "s1"


def test_cluster_wide_objects_lose_their_namespace() -> None:
    """A namespace on a cluster-wide kind would make another object of it."""
    made = manifest(
        "Namespace", namespaced=False, metadata={"name": "web", "namespace": "elsewhere"}
    )
    assert "namespace" not in made.body["metadata"]


def test_string_data_becomes_data() -> None:
    """So that drift of it can be seen in the live object."""
    made = manifest("Secret", stringData={"a": "b"}, data={"c": "ZA=="})
    assert made.body["data"] == {"a": base64.b64encode(b"b").decode(), "c": "ZA=="}
    assert "stringData" not in made.body


def test_a_copy_under_another_name_has_no_owner() -> None:
    """The annotation names the object; labels alone are not enough."""
    copy = manifest().body
    copy["metadata"]["name"] = "copy"
    assert owner_of(copy) is None


def test_release_takes_exactly_our_marks() -> None:
    """The patch deletes label and annotations, nothing else."""
    patch = release_patch()["metadata"]
    assert patch["labels"] == {SERVICE_LABEL: None}
    assert OBJECT_ANNOTATION in patch["annotations"]
    assert all(value is None for value in patch["annotations"].values())


def test_prune_can_be_forbidden_on_the_object() -> None:
    """towline.dev/prune: "false"."""
    kept = {"metadata": {"annotations": {"towline.dev/prune": "false"}}}
    assert directives_of(kept).prune == DeletionPolicy.NEVER
    assert directives_of({"metadata": {}}).prune == DeletionPolicy.FREE


def test_names_of_objects() -> None:
    """Group and version from apiVersion, both for the core group and others."""
    assert api_of({"apiVersion": "apps/v1", "kind": "Deployment"}).group == "apps"
    ref = ref_of({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}})
    assert (ref.group, str(ref), ref.key) == ("", "Pod n/p", ("", "Pod", "n", "p"))
