"""Names and tags of images and charts in OCI registries."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from core.errors import Invalid
from core.remotes import is_loopback_host

_NAME = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
_IMAGE = re.compile(
    r"(?P<host>(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+)(:\d{1,5})?|localhost(:\d{1,5})?)/"
    rf"(?P<name>{_NAME})"
)
_MAX_IMAGE = 512
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
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
