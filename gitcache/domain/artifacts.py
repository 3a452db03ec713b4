"""Manifests of OCI artifacts with manifests or charts, and the Git commits that they become.

A commit depends only on the registry, the repository and the manifest: every replica and every tag
gets the same one. Its subject ends with the digest of the manifest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import orjson

from core.errors import Invalid
from core.json_object import JsonMapping
from core.spec.images import is_digest

_LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
_LAYER_TAR = "application/vnd.oci.image.layer.v1.tar"
_GZIPPED = frozenset(
    (
        "application/vnd.cncf.flux.content.v1.tar+gzip",
        "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
        _LAYER_GZIP,
    )
)
_IGNORED = frozenset(("application/vnd.cncf.helm.chart.provenance.v1.prov",))
_IMAGE_CONFIGS = frozenset(
    (
        "application/vnd.oci.image.config.v1+json",
        "application/vnd.docker.container.image.v1+json",
    )
)
_TITLE = "org.opencontainers.image.title"
_UNPACK = "io.deis.oras.content.unpack"
_LABELS = ("org.opencontainers.image.revision", "org.opencontainers.image.version")
_CREATED = "org.opencontainers.image.created"
_MAX_LAYERS = 100
_MAX_LABEL = 160
_MAX_TIME = 2**33


class LayerForm(StrEnum):
    """Form of a layer: a packed folder, or one file."""

    TAR_GZIP = "TAR_GZIP"
    TAR = "TAR"
    FILE = "FILE"


@dataclass(frozen=True, slots=True)
class ArtifactLayer:
    """A layer: its digest, its size in bytes, and its form. `path` is that of a file."""

    digest: str
    size: int
    form: LayerForm
    path: str = ""


ArtifactContent = tuple[ArtifactLayer, bytes]
"""A layer and its content."""


@dataclass(frozen=True, slots=True)
class ArtifactManifest:
    """The layers of an artifact, and its annotations."""

    layers: tuple[ArtifactLayer, ...]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CommitText:
    """Everything about a commit except its files. `author` is the registry, `seconds` the time
    since the epoch."""

    author: str
    subject: str
    seconds: int


@dataclass(frozen=True, slots=True)
class BuiltCommit:
    """A commit without parents: its id, its bytes, and a pack with all of its objects."""

    sha: str
    data: bytes
    pack: bytes


def parse_manifest(data: bytes) -> ArtifactManifest:
    """Parses a manifest. Raises Invalid for an index, a container image and unknown layers."""
    try:
        manifest = orjson.loads(data)
    except orjson.JSONDecodeError:
        manifest = None
    if not isinstance(manifest, dict):
        raise Invalid("the manifest is not a JSON object")
    if isinstance(manifest.get("manifests"), list):
        raise Invalid(
            "it is an index of several platforms, not an artifact of files: push the folder with "
            "`flux push artifact` or `oras push`"
        )
    listed = manifest.get("layers")
    if not isinstance(listed, list):
        raise Invalid("the manifest has no layers")
    if len(listed) > _MAX_LAYERS:
        raise Invalid(f"the manifest has more than {_MAX_LAYERS} layers")
    if len(listed) > 1 and _media_type(manifest.get("config")) in _IMAGE_CONFIGS:
        raise _container_image_error()
    layers = tuple(_parse_layers(listed))
    if not layers:
        raise Invalid("the manifest has no layers with files")
    return ArtifactManifest(layers, _text_fields(manifest.get("annotations")))


def commit_text(host: str, name: str, digest: str, manifest: ArtifactManifest) -> CommitText:
    """Returns author, subject and time of an artifact's commit.

    The subject is the annotated revision or version, else the repository, and the digest.
    """
    labels = (_printable(manifest.annotations.get(label, "")) for label in _LABELS)
    label = next((text for text in labels if text), name)
    seconds = _parse_time(manifest.annotations.get(_CREATED, ""))
    return CommitText(host, f"{label[:_MAX_LABEL]}@{digest}", seconds)


def digest_of_subject(subject: str) -> str:
    """Returns the digest of the manifest from the subject of a commit; empty without one."""
    digest = subject.rpartition("@")[2]
    return digest if is_digest(digest) else ""


def digest_of_commit(data: bytes) -> str:
    """Returns the digest of the manifest from the object of a commit; empty without one."""
    message = data.partition(b"\n\n")[2].decode("utf-8", "replace")
    return digest_of_subject(message.partition("\n")[0])


def _parse_layers(layers: list[object]) -> Iterator[ArtifactLayer]:
    for layer in layers:
        if not isinstance(layer, dict):
            raise Invalid("the manifest has a malformed layer")
        kind = _media_type(layer)
        if kind in _IGNORED:
            continue
        digest, size = str(layer.get("digest")), layer.get("size")
        if not is_digest(digest) or not isinstance(size, int) or size < 0:
            raise Invalid("the manifest has a layer without a SHA-256 digest or a size")
        annotations = _text_fields(layer.get("annotations"))
        form = _layer_form(kind, annotations)
        path = annotations[_TITLE] if form is LayerForm.FILE else ""
        yield ArtifactLayer(digest, size, form, path)


def _layer_form(kind: str, annotations: Mapping[str, str]) -> LayerForm:
    """Returns the form of a layer. ORAS pushes single files with the media type of archives too."""
    title, unpack = annotations.get(_TITLE, ""), annotations.get(_UNPACK) == "true"
    if kind in _GZIPPED:
        return LayerForm.TAR_GZIP
    if kind == _LAYER_TAR and (unpack or not title or title.endswith(".tar")):
        return LayerForm.TAR
    if kind.startswith("application/vnd.docker."):
        raise _container_image_error()
    if not title:
        raise Invalid(
            f"a layer has the media type {kind[:120]!r}, which is no packed folder, and no title "
            "that names its file"
        )
    if unpack:
        return LayerForm.TAR_GZIP
    return LayerForm.FILE


def _container_image_error() -> Invalid:
    return Invalid(
        "it is a container image, not an artifact of files: push the folder with "
        "`flux push artifact` or `oras push`"
    )


def _media_type(value: object) -> str:
    media_type = value.get("mediaType") if isinstance(value, Mapping) else None
    return media_type if isinstance(media_type, str) else ""


def _text_fields(value: object) -> dict[str, str]:
    fields: JsonMapping = value if isinstance(value, dict) else {}
    return {key: text for key, text in fields.items() if isinstance(text, str)}


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:1000]).strip()


def _parse_time(text: str) -> int:
    """Returns the seconds since the epoch of a time of RFC 3339; 0 for any other text."""
    try:
        time = datetime.fromisoformat(text[:40])
    except ValueError:
        return 0
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return min(max(int(time.timestamp()), 0), _MAX_TIME)
