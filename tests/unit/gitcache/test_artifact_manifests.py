"""Manifests of artifacts: known layers, and the text of the commit."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.spec.images import is_artifact_ref, is_tag_range
from gitcache.domain import refs
from gitcache.domain.artifacts import (
    LayerForm,
    commit_text,
    digest_of_commit,
    digest_of_subject,
    parse_manifest,
)
from gitcache.domain.commits import parse_commit
from gitcache.render.unpack.commit import build_commit

DIGEST = "sha256:" + "a" * 64
FLUX = "application/vnd.cncf.flux.content.v1.tar+gzip"
CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
OCI_TAR = "application/vnd.oci.image.layer.v1.tar"
TITLE = "org.opencontainers.image.title"
UNPACK = "io.deis.oras.content.unpack"


def layer(kind: str, **fields: Any) -> dict[str, Any]:
    return {"mediaType": kind, "digest": DIGEST, "size": 3, **fields}


def manifest(*layers: object, **fields: Any) -> bytes:
    return orjson.dumps({"schemaVersion": 2, "layers": list(layers), **fields})


@pytest.mark.parametrize(
    ("given", "form", "path"),
    [
        (layer(FLUX), LayerForm.TAR_GZIP, ""),
        (layer(CHART), LayerForm.TAR_GZIP, ""),
        (layer(f"{OCI_TAR}+gzip"), LayerForm.TAR_GZIP, ""),
        (layer(f"{OCI_TAR}+gzip", annotations={TITLE: "x.tgz"}), LayerForm.TAR_GZIP, ""),
        (layer(OCI_TAR), LayerForm.TAR, ""),
        (layer(OCI_TAR, annotations={TITLE: "x.tar"}), LayerForm.TAR, ""),
        (layer(OCI_TAR, annotations={TITLE: "app.yaml"}), LayerForm.FILE, "app.yaml"),
        (layer(OCI_TAR, annotations={TITLE: "app", UNPACK: "true"}), LayerForm.TAR, ""),
        (layer("application/yaml", annotations={TITLE: "a/b.yaml"}), LayerForm.FILE, "a/b.yaml"),
        (layer("x/y", annotations={TITLE: "app", UNPACK: "true"}), LayerForm.TAR_GZIP, ""),
    ],
)
def test_known_layers_are_read(given: dict[str, Any], form: LayerForm, path: str) -> None:
    (found,) = parse_manifest(manifest(given)).layers
    assert (found.form, found.path, found.digest, found.size) == (form, path, DIGEST, 3)


def test_the_provenance_of_a_chart_is_skipped() -> None:
    provenance = layer("application/vnd.cncf.helm.chart.provenance.v1.prov")
    assert len(parse_manifest(manifest(layer(CHART), provenance)).layers) == 1
    with pytest.raises(Invalid, match="no layers with files"):
        parse_manifest(manifest(provenance))


def test_empty_files_and_as_many_layers_as_the_limit_are_read() -> None:
    empty = layer("application/yaml", size=0, annotations={TITLE: "empty.yaml"})
    layers = parse_manifest(manifest(*[empty] * 100)).layers
    assert {(each.path, each.size) for each in layers} == {("empty.yaml", 0)}
    assert len(layers) == 100


IMAGE = {"mediaType": "application/vnd.oci.image.config.v1+json"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "not a JSON object"),
        (orjson.dumps({"manifests": []}), "index of several platforms"),
        (manifest(), "no layers"),
        (orjson.dumps({"layers": {}}), "no layers"),
        (manifest(1), "malformed layer"),
        (manifest(*[layer(FLUX)] * 101), "more than 100 layers"),
        (manifest(layer(FLUX, digest="sha512:1")), "without a SHA-256 digest"),
        (manifest(layer(FLUX, size=-1)), "without a SHA-256 digest or a size"),
        (manifest(layer(FLUX, size="1")), "without a SHA-256 digest or a size"),
        (manifest(layer("application/vnd.docker.image.rootfs.diff.tar.gzip")), "container image"),
        (manifest(*[layer(f"{OCI_TAR}+gzip")] * 2, config=IMAGE), "container image"),
        (manifest(layer(f"{OCI_TAR}+zstd")), "no packed folder, and no title"),
        (manifest({"digest": DIGEST, "size": 1}), "no packed folder"),
    ],
)
def test_other_manifests_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        parse_manifest(data)


def test_an_image_of_one_layer_without_a_system_is_an_artifact() -> None:
    assert parse_manifest(manifest(layer(f"{OCI_TAR}+gzip"), config=IMAGE)).layers


@pytest.mark.parametrize(
    ("annotations", "subject", "seconds"),
    [
        ({}, f"team/shop@{DIGEST}", 0),
        (
            {"org.opencontainers.image.revision": "main@sha1:ab12"},
            f"main@sha1:ab12@{DIGEST}",
            0,
        ),
        (
            {
                "org.opencontainers.image.version": "1.2\nManifest: x",
                "org.opencontainers.image.created": "2026-02-03T04:05:06Z",
            },
            f"1.2 Manifest: x@{DIGEST}",
            1770091506,
        ),
        ({"org.opencontainers.image.created": "1901-01-01T00:00:00"}, f"team/shop@{DIGEST}", 0),
        (
            {"org.opencontainers.image.created": "2026-02-03T06:05:06+02:00"},
            f"team/shop@{DIGEST}",
            1770091506,
        ),
        (
            {"org.opencontainers.image.created": "2026-02-03T04:05:06"},
            f"team/shop@{DIGEST}",
            1770091506,
        ),
        ({"org.opencontainers.image.created": "later"}, f"team/shop@{DIGEST}", 0),
        ({"org.opencontainers.image.revision": 1}, f"team/shop@{DIGEST}", 0),
    ],
)
def test_annotations_give_the_commit_its_text(
    annotations: dict[str, Any], subject: str, seconds: int
) -> None:
    parsed = parse_manifest(manifest(layer(FLUX), annotations=annotations))
    text = commit_text("reg.example.org", "team/shop", DIGEST, parsed)
    assert (text.author, text.subject, text.seconds) == ("reg.example.org", subject, seconds)


@given(st.dictionaries(st.sampled_from(["revision", "version", "created"]), st.text()))
def test_no_annotation_changes_the_digest_that_a_commit_names(values: dict[str, str]) -> None:
    annotations = {f"org.opencontainers.image.{name}": value for name, value in values.items()}
    parsed = parse_manifest(manifest(layer(FLUX), annotations=annotations))
    built = build_commit({}, commit_text("reg.example.org", "shop", DIGEST, parsed))
    assert digest_of_commit(built.data) == DIGEST
    commit = parse_commit(built.sha, built.data).commit
    assert digest_of_subject(commit.subject) == DIGEST
    assert commit.author == "reg.example.org <reg.example.org>"


def test_other_commits_name_no_digest() -> None:
    assert digest_of_subject("fix a bug") == digest_of_commit(b"tree x\n\nsubject\n") == ""
    assert digest_of_commit(b"") == ""


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("latest", "refs/tags/latest"),
        ("v1.2.3", "refs/tags/v1.2.3"),
        ("1.2", "refs/tags/1.2"),
        (">=1.0", "refs/tags/>=1.0"),
        ("^1.2", "refs/artifacts/%5E1.2"),
        ("~1.2", "refs/artifacts/%7E1.2"),
        (">=1 <2", "refs/artifacts/%3E%3D1%20%3C2"),
        ("1.*", "refs/artifacts/1.%2A"),
        (DIGEST, f"refs/artifacts/{DIGEST.replace(':', '%3A')}"),
    ],
)
def test_names_of_artifacts_survive_as_refs(name: str, ref: str) -> None:
    assert is_artifact_ref(name)
    assert ref in refs.candidates(name)
    assert refs.artifact_of(ref) == name
    assert all(refs.is_name(candidate) for candidate in refs.candidates(name))
    assert refs.resolve([name], {ref: "f" * 64}).commits == {name: "f" * 64}


@pytest.mark.parametrize("name", ["main branch", "a b", "x^", "sha256:1", "a:b", "", "-1"])
def test_other_names_are_no_artifacts(name: str) -> None:
    assert not is_artifact_ref(name)
    assert refs.candidates(name) == ()


@pytest.mark.parametrize("ref", ["refs/heads/1.0", "HEAD", "refs/tags/v*", "refs/tags/a/b"])
def test_other_refs_stand_for_no_artifact(ref: str) -> None:
    assert refs.artifact_of(ref) is None


def test_a_range_has_an_operator() -> None:
    assert not any(map(is_tag_range, ("1.x", "1.2", "latest", "v1")))
