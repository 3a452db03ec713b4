"""Names and tags of images and charts in OCI registries, and the images of rendered objects."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from core.errors import Invalid
from core.json_object import JsonValue
from core.remotes import is_loopback_host

_NAME = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
_IMAGE = re.compile(
    r"(?P<host>(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+)(:\d{1,5})?|localhost(:\d{1,5})?)/"
    rf"(?P<name>{_NAME})"
)
_MAX_IMAGE = 512
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_RANGE = re.compile(r"(?=.*[<>=~^*| ])[0-9v<>=~^*][0-9A-Za-z.*<>=~^|+ ,-]{0,119}", re.ASCII)
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_HOST = r"(?:[a-z0-9]+(?:[.-]+[a-z0-9]+)*)(?::\d{1,5})?"
_REFERENCE = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<name>{_NAME})(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_ALIASES = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}


@dataclass(frozen=True, slots=True)
class OciRepository:
    """A repository of a registry: its host, with the port, and its name."""

    host: str
    name: str

    @property
    def registry(self) -> str:
        """The host that serves the API."""
        return _ALIASES.get(self.host, self.host)

    @property
    def url(self) -> str:
        """The base URL of the API. Plain HTTP only on localhost."""
        local = is_loopback_host(urlsplit(f"//{self.registry}").hostname or "")
        return f"{'http' if local else 'https'}://{self.registry}/v2/{self.name}"


def parse_image(image: str, field: str = "image") -> OciRepository:
    """Parses an image. Raises Invalid if it has no registry, or has a tag."""
    match = _IMAGE.fullmatch(image) if len(image) <= _MAX_IMAGE else None
    if match is None:
        raise Invalid("must be like registry.example.org/team/shop, without a tag", field=field)
    return OciRepository(match["host"], match["name"])


def is_repository_name(text: str) -> bool:
    """Returns whether this is a valid name of a repository in a registry."""
    return re.fullmatch(_NAME, text) is not None


def is_tag(text: str) -> bool:
    """Returns whether this is a valid tag in a registry."""
    return _TAG.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Returns whether this is the digest of a manifest: `sha256:` and 64 hex digits."""
    return _DIGEST.fullmatch(text) is not None


def is_tag_range(text: str) -> bool:
    """Returns whether this is a range of versions among tags, such as `>=1.2 <2` or `1.*`.

    A range has an operator or `*`, which no tag has: `1.2` is a tag.
    """
    return _RANGE.fullmatch(text) is not None


def is_artifact_ref(text: str) -> bool:
    """Returns whether this selects an artifact of a repository: a tag, range or digest."""
    return is_tag(text) or is_digest(text) or is_tag_range(text)


@dataclass(frozen=True, slots=True)
class ImageName:
    """An image of a container, as container runtimes read it."""

    host: str
    name: str
    tag: str = ""
    digest: str = ""
    """`sha256:…` of its manifest. Empty: the registry says what the tag is."""

    @property
    def repository(self) -> str:
        """Repository with its registry, such as `docker.io/library/redis`."""
        return f"{self.host}/{self.name}"


def read_image(text: str) -> ImageName:
    """Reads an image, with the defaults of container runtimes. Raises Invalid."""
    match = _REFERENCE.fullmatch(text) if len(text) <= _MAX_IMAGE else None
    if match is None:
        raise Invalid(f"{text[:120]!r} is not the name of an image")
    host, name = match["host"] or "", match["name"]
    if host and not ("." in host or ":" in host or host == "localhost"):
        host, name = "", f"{host}/{name}"
    if host in {"", "docker.io", "index.docker.io"}:
        host, name = "docker.io", name if "/" in name else f"library/{name}"
    return ImageName(host, name, match["tag"] or "", match["digest"] or "")


def split_image(image: str) -> tuple[str, str]:
    """Splits `host:5000/team/shop:1.2@sha256:…` into name and tag; the tag may be empty."""
    plain = image.partition("@")[0]
    name, colon, tag = plain.rpartition(":")
    # A colon before the last slash separates the registry's port.
    return (name, tag) if colon and "/" not in tag else (plain, "")


def images_in(value: JsonValue) -> Iterator[str]:
    """Yields the images of all pods in an object: of containers, and of volumes."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            pending += part.values()
            for container in (entry for key in _CONTAINERS for entry in _mappings(part.get(key))):
                if isinstance(image := container.get("image"), str):
                    yield image
            for volume in _mappings(part.get("volumes")):
                source = volume.get("image")
                if isinstance(source, dict) and isinstance(text := source.get("reference"), str):
                    yield text


def _mappings(value: JsonValue) -> list[dict[str, JsonValue]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
