"""Images in rendered objects, and the parts of image names."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from core.json_object import JsonMapping, JsonValue

_LISTS = ("containers", "initContainers", "ephemeralContainers")


def tags_in(objects: Iterable[JsonMapping]) -> dict[str, set[str]]:
    """Returns the image tags used by the pods of these objects, by image name."""
    found: dict[str, set[str]] = defaultdict(set)
    for entry in objects:
        for image in _images(entry):
            name, tag = split_image(image)
            if tag:
                found[name].add(tag)
    return dict(found)


def split_image(image: str) -> tuple[str, str]:
    """Splits `host:5000/team/shop:1.2@sha256:…` into name and tag; the tag may be empty."""
    plain = image.partition("@")[0]
    name, colon, tag = plain.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (plain, "")


def _images(value: JsonValue) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _images(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _LISTS and isinstance(item, list):
                images = (c.get("image") for c in item if isinstance(c, dict))
                yield from (image for image in images if isinstance(image, str))
            else:
                yield from _images(item)
