"""Line-based files that SOPS encrypts value by value: dotenv and INI.

Both are trees of strings. Their metadata is flattened into keys such as
`age__list_0__map_recipient`. The message authentication code does not cover comments.
"""

import re
from collections.abc import Iterator, Mapping

from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject

Tree = JsonObject

_PREFIX = "sops_"
_SECTION = "sops"
_BEFORE_SECTIONS = "DEFAULT"
_AGE = re.compile(r"age__list_(\d{1,4})__map_(recipient|enc)")
_QUOTES = ('"""', '"', "'", "`")


def is_flat(name: str, data: bytes) -> bool:
    """Detects line-based files by name; SOPS stores binary files as JSON under any name."""
    return name.endswith((".env", ".ini")) and not data.lstrip().startswith(b"{")


def parse(name: str, text: str) -> Tree:
    """Parses a file to the same tree as YAML, with metadata under `sops`. Raises Invalid."""
    return _parse_dotenv(text) if name.endswith(".env") else _parse_ini(text)


def write(name: str, tree: JsonMapping) -> bytes:
    """Writes the decrypted file, without metadata and comments."""
    lines = _dotenv_lines(tree) if name.endswith(".env") else _ini_lines(tree)
    return "".join(f"{line}\n" for line in lines).encode()


def _parse_dotenv(text: str) -> Tree:
    metadata: dict[str, str] = {}
    tree: Tree = {}
    for number, line in _content_lines(text, "#"):
        key, separator, value = line.partition("=")
        if not separator:
            raise Invalid(f"line {number} has no =")
        value = value.replace("\\n", "\n")
        if key.startswith(_PREFIX):
            metadata[key.removeprefix(_PREFIX)] = value
        else:
            tree[key] = value
    return {**tree, "sops": _unflatten(metadata)}


def _parse_ini(text: str) -> Tree:
    sections: dict[str, dict[str, str]] = {}
    name = _BEFORE_SECTIONS
    for number, line in _content_lines(text, "#;"):
        if line.startswith("[") and line.endswith("]"):
            name = line[1:-1].strip()
            sections.setdefault(name, {})
            continue
        parts = re.split(r"\s*[=:]\s*", line, maxsplit=1)
        if len(parts) != 2:
            raise Invalid(f"line {number} has neither = nor :")
        sections.setdefault(name, {})[parts[0]] = _unquoted(parts[1])
    metadata = {k: v.replace("\\n", "\n") for k, v in sections.pop(_SECTION, {}).items()}
    return {**sections, "sops": _unflatten(metadata)}


def _content_lines(text: str, comments: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line and line[0] not in comments:
            yield number, line


def _unquoted(value: str) -> str:
    for quote in _QUOTES:
        if len(value) >= 2 * len(quote) and value.startswith(quote) and value.endswith(quote):
            return value[len(quote) : -len(quote)]
    return value


def _unflatten(flattened: Mapping[str, str]) -> Tree:
    """Converts flattened metadata to the form of YAML, for the fields in use."""
    recipients: dict[int, dict[str, str]] = {}
    tree: Tree = {}
    for key, value in flattened.items():
        if parts := _AGE.fullmatch(key):
            recipients.setdefault(int(parts[1]), {})[parts[2]] = value
        elif key.startswith("key_groups__"):
            tree["key_groups"] = True
        else:
            tree[key] = value
    tree["mac_only_encrypted"] = flattened.get("mac_only_encrypted") == "true"
    tree["shamir_threshold"] = flattened.get("shamir_threshold", "0") != "0"
    tree["age"] = [recipients[number] for number in sorted(recipients)]
    return tree


def _dotenv_lines(tree: Mapping[str, object]) -> Iterator[str]:
    for key, value in tree.items():
        yield f"{key}={_escaped(str(value))}"


def _ini_lines(tree: JsonMapping) -> Iterator[str]:
    for name, section in sorted(tree.items(), key=lambda item: item[0] != _BEFORE_SECTIONS):
        if name != _BEFORE_SECTIONS:
            yield f"[{name}]"
        for key, field in section.items():
            # The type label of a value is not authenticated: write every value as text.
            value = str(field)
            quote = '"""' if "\n" in value else "`" if {"#", ";"} & set(value) else ""
            yield f"{key} = {quote}{value}{quote}"


def _escaped(value: str) -> str:
    return value.replace("\n", "\\n")
