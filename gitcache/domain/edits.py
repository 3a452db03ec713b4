"""Edits of files in a commit: single fields and image tags in YAML and JSON."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

import yaml

from core.errors import Invalid
from core.spec.edits import Scalar
from gitcache.domain.paths import folder_path

MAX_EDITS = 500
MAX_FILE = 4 << 20
_MAX_TEXT = 1 << 20
_MAX_NAME = 1000

_DIGEST = r"(@sha256:[0-9a-f]{64})?"
_PLAIN = re.compile(rf"[A-Za-z_/][\w./-]*(:[\w./-]+)?{_DIGEST}|\d+\.\d+\.\d+[\w.-]*")
_RESERVED_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_IMAGE = re.compile(rf"(?P<name>[^@]+?)(:[\w][\w.-]{{0,127}})?{_DIGEST}")
_IMAGE_FIELDS = ((("name", "newName"), "newTag"), (("repository",), "tag"))
_TAG = re.compile(r"[\w][\w.-]{0,127}")


def file_path(text: str) -> str:
    """Normalizes a file path. Raises Invalid outside the repository and inside `.git`."""
    path = folder_path(text)
    if not path or any(part.lower() == ".git" for part in path.split("/")):
        raise Invalid(f"{text[:200]!r} is not a file path in the repository", field="path")
    return path


def set_field(text: str, field: Sequence[str | int], value: Scalar, document: int = 0) -> str:
    """Changes one scalar and keeps everything else. Raises Invalid for an unknown field."""
    documents = _compose_documents(text)
    if document >= len(documents):
        raise Invalid(f"out of range: the file has {len(documents)} documents", field="document")
    node = documents[document]
    for key in field:
        node = _child(node, key)
        if node is None:
            raise Invalid(f"the file has no field {_dotted_path(field)}", field="field")
    return _replace_scalars(text, [(node, value)])


def set_image(text: str, image: str, tag: str) -> str:
    """Changes the tag of an image. Raises Invalid if the file does not name the image."""
    if not _TAG.fullmatch(tag):
        raise Invalid(f"{tag[:80]!r} is not an image tag", field="tag")
    visited: set[int] = set()
    roots = _compose_documents(text)
    changes = [change for root in roots for change in _image_changes(root, image, tag, visited)]
    if not changes:
        raise Invalid(f"the file does not name the image {image[:200]!r}", field="image")
    return _replace_scalars(text, changes)


def _image_changes(
    node: yaml.Node, image: str, tag: str, visited: set[int]
) -> Iterator[tuple[yaml.Node, Scalar]]:
    """Yields the scalars below a node that name the image; visits shared nodes once."""
    if id(node) in visited or isinstance(node, yaml.ScalarNode):
        return
    visited.add(id(node))
    children = node.value
    if isinstance(node, yaml.MappingNode):
        fields = {key.value: inner for key, inner in node.value if isinstance(key, yaml.ScalarNode)}
        yield from _image_fields(fields, image, tag)
        children = [inner for _, inner in node.value]
    for inner in children:
        yield from _image_changes(inner, image, tag, visited)


def _image_fields(
    fields: Mapping[str, yaml.Node], image: str, tag: str
) -> Iterator[tuple[yaml.Node, Scalar]]:
    """Yields the fields of `SetImage`. Raises Invalid for a digest, which wins over the tag."""
    image_field = fields.get("image")
    if isinstance(image_field, yaml.ScalarNode) and _image_name(image_field.value) == image:
        yield image_field, f"{image}:{tag}"
    for names, tag_name in _IMAGE_FIELDS:
        tag_field = fields.get(tag_name)
        if not isinstance(tag_field, yaml.ScalarNode) or not _names_image(fields, names, image):
            continue
        if "digest" in fields and fields["digest"].value:
            raise Invalid(f"{image[:200]!r} is pinned by digest, which wins over a tag; remove it")
        yield tag_field, tag


def _names_image(fields: Mapping[str, yaml.Node], names: Sequence[str], image: str) -> bool:
    values = (fields[name].value for name in names if name in fields)
    return image in values or image == _with_registry(fields)


def _with_registry(fields: Mapping[str, yaml.Node]) -> str | None:
    """Joins `registry` and `repository`, which some charts separate."""
    parts = [fields.get("registry"), fields.get("repository")]
    texts = [part.value for part in parts if isinstance(part, yaml.ScalarNode)]
    return "/".join(texts) if len(texts) == len(parts) else None


def _image_name(text: str) -> str | None:
    match = _IMAGE.fullmatch(text) if len(text) < _MAX_NAME else None
    return match["name"] if match else None


def _compose_documents(text: str) -> list[yaml.Node]:
    if len(text) > _MAX_TEXT:
        raise Invalid(f"the file has more than {_MAX_TEXT:,} characters")
    try:
        return list(yaml.compose_all(text, yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Invalid(f"the file is not YAML: {str(error)[:200]}") from None


def _child(node: yaml.Node | None, key: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((inner for name, inner in node.value if name.value == str(key)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key]
    return None


def _replace_scalars(text: str, changes: Sequence[tuple[yaml.Node, Scalar]]) -> str:
    """Replaces the spans of some scalars, from the last to the first."""
    spans = {}
    for node, value in changes:
        if not isinstance(node, yaml.ScalarNode) or node.style in {"|", ">"}:
            raise Invalid("only scalar values can be set, not lists, maps or block scalars")
        if text[node.start_mark.index] in "&!":
            raise Invalid(
                "a value with an anchor or a tag cannot be set: other fields may share it"
            )
        spans[node.start_mark.index] = (node.end_mark.index, _yaml_scalar(value, node.style))
    for start in sorted(spans, reverse=True):
        end, replacement = spans[start]
        text = f"{text[:start]}{replacement}{text[end:]}"
    return text


def _yaml_scalar(value: Scalar, style: str | None) -> str:
    """Writes a scalar as YAML, in the same quoting style."""
    if not isinstance(value, str):
        return json.dumps(value)
    if any(not char.isprintable() and char not in "\n\t" for char in value):
        raise Invalid("the value contains unprintable characters", field="value")
    if style == "'" and "\n" not in value and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if style is None and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED_WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def _dotted_path(field: Sequence[str | int]) -> str:
    return ".".join(str(key) for key in field)[:200]
