"""Names and tags of container images."""

import re

from core.errors import Invalid

_IMAGE = re.compile(
    r"(?P<host>(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+)(:\d{1,5})?|localhost(:\d{1,5})?)/"
    r"(?P<name>[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*)"
)


_MAX_IMAGE = 512
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)


def split_repository(image: str, field: str = "image") -> tuple[str, str]:
    """Splits an image into registry and name. Raises Invalid if it
    has no registry, or has a tag.
    """
    match = _IMAGE.fullmatch(image) if len(image) <= _MAX_IMAGE else None
    if match is None:
        raise Invalid("must be like registry.example.org/team/shop, without a tag", field=field)
    return match["host"], match["name"]


def is_tag(text: str) -> bool:
    """Returns whether this is a valid tag in a registry."""
    return _TAG.fullmatch(text) is not None
