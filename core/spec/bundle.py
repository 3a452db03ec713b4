"""The bundle: the rendered objects of one service in canonical form, named by their digest.

A bundle has one line of JSON per Kubernetes object, in the order of the renderer. Keys are
sorted, without spaces; numbers and strings follow RFC 8785 section 3.2, as orjson writes them.
The digest of a bundle is the sha256 of these bytes, so equal objects have equal digests.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from core.errors import Invalid
from core.json_object import JsonObject

MAX_BUNDLE_BYTES = 64 << 20
MAX_OBJECT_BYTES = 1_500_000
MAX_OBJECTS = 10_000

KubeObject = JsonObject


@dataclass(frozen=True, slots=True)
class Bundle:
    """Canonical bytes and their digest (`sha256:<hex>`)."""

    digest: str
    data: bytes
    count: int

    def objects(self) -> Iterator[KubeObject]:
        """Parses the objects in order, again at each call."""
        for line in self.data.splitlines():
            yield orjson.loads(line)


@dataclass(frozen=True, slots=True)
class Attestation:
    """A statement's canonical bytes and the signature under the key `key_id` (`sha256:<hex>`).

    `evidence` has signatures of the sources, which prove themselves; see
    `core.spec.source_signatures`. The signature does not cover it.
    """

    key_id: str
    statement: bytes
    signature: bytes
    evidence: bytes = b""


def make_bundle(objects: Iterable[KubeObject]) -> Bundle:
    """Makes the bundle of these objects.

    Raises Invalid beyond the limits or for values that JSON cannot represent.
    """
    lines = []
    for obj in objects:
        line = _line_of(obj)
        if len(line) > MAX_OBJECT_BYTES:
            raise Invalid(
                f"{describe_object(obj)} has {len(line):,} bytes; "
                f"the API server accepts at most {MAX_OBJECT_BYTES:,}"
            )
        lines.append(line)
    if len(lines) > MAX_OBJECTS:
        raise Invalid(f"{len(lines):,} objects in one service; the limit is {MAX_OBJECTS:,}")
    data = b"\n".join(lines)
    if len(data) > MAX_BUNDLE_BYTES:
        raise Invalid(f"{len(data):,} bytes of manifests; the limit is {MAX_BUNDLE_BYTES:,}")
    return Bundle(digest_of(data), data, len(lines))


def _line_of(kube_object: KubeObject) -> bytes:
    try:
        return orjson.dumps(kube_object, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise Invalid(
            f"{describe_object(kube_object)} cannot be written as JSON: {error}"
        ) from None


def open_bundle(digest: str, data: bytes) -> Bundle:
    """Verifies the digest of a bundle. Raises Invalid if it does not match."""
    actual = digest_of(data)
    if actual != digest:
        raise Invalid(f"bundle has digest {actual}, not {digest}: refused")
    return Bundle(digest, data, data.count(b"\n") + 1 if data else 0)


def parse_bundle(data: bytes) -> Bundle:
    """Parses untrusted bytes. Raises Invalid unless they are a canonical bundle."""
    if len(data) > MAX_BUNDLE_BYTES:
        raise Invalid(f"{len(data):,} bytes of manifests; the limit is {MAX_BUNDLE_BYTES:,}")
    bundle = make_bundle(_objects(data))
    return open_bundle(bundle.digest, data)


def _objects(data: bytes) -> Iterator[KubeObject]:
    for line in data.splitlines():
        try:
            kube_object = orjson.loads(line)
        except orjson.JSONDecodeError:
            kube_object = None
        if not isinstance(kube_object, dict):
            raise Invalid("not a bundle: a line is not a JSON object")
        yield kube_object


def digest_of(data: bytes) -> str:
    """Hashes bytes as `sha256:<hex>`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def describe_object(kube_object: KubeObject) -> str:
    """Names an object for people: `Deployment shop/web`, `Namespace shop`."""
    metadata = kube_object.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    namespace = metadata.get("namespace")
    return f"{kube_object.get('kind', 'object')} {f'{namespace}/' if namespace else ''}{name}"
