"""Images in rendered objects."""

from collections import defaultdict
from collections.abc import Iterable

from core.json_object import JsonMapping
from core.spec.images import images_in, split_image


def tags_in(objects: Iterable[JsonMapping]) -> dict[str, set[str]]:
    """Returns the image tags used by the pods of these objects, by image name."""
    tags: dict[str, set[str]] = defaultdict(set)
    for obj in objects:
        for image in images_in(obj):
            name, tag = split_image(image)
            if tag:
                tags[name].add(tag)
    return dict(tags)
