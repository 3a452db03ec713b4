"""Images in rendered objects, and the parts of image names."""

from collections import defaultdict
from collections.abc import Iterable

from core.json_object import JsonMapping
from core.spec.images import images_in


def tags_in(objects: Iterable[JsonMapping]) -> dict[str, set[str]]:
    """Returns the image tags used by the pods of these objects, by image name."""
    found: dict[str, set[str]] = defaultdict(set)
    for entry in objects:
        for image in images_in(entry):
            name, tag = split_image(image)
            if tag:
                found[name].add(tag)
    return dict(found)


def split_image(image: str) -> tuple[str, str]:
    """Splits `host:5000/team/shop:1.2@sha256:…` into name and tag; the tag may be empty."""
    plain = image.partition("@")[0]
    name, colon, tag = plain.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (plain, "")
