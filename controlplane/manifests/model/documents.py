"""Reads manifests from YAML, and remembers the line of each field."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any

import yaml
from yaml.events import (
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from controlplane.manifests.model.codec import Path, unknown_field
from controlplane.platform.labels import check_label_name, check_label_value
from core.errors import Invalid
from core.json_object import JsonObject, JsonValue

API_VERSION = "towline.io/v1"
MAX_DOCUMENTS = 5_000
MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 32
MAX_VALUES = 500_000
ParserEvent = Any
"""An event of the YAML parser: its stubs leave out that parsed events have marks."""
_TOP = ("apiVersion", "kind", "metadata", "spec")
_METADATA = ("name", "project", "cluster", "labels", "annotations")
_IGNORED = "managedFields"
"""Field of exports that says whose fields are whose; applies skip it, as those of Kubernetes do."""
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(
    r"[-+]?([0-9]+\.[0-9]*([eE][-+]?[0-9]+)?|\.[0-9]+([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)"
)
_PLAIN_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True)
class Source:
    """One file of manifests."""

    file: str
    """Name of the file, for messages."""
    content: str
    """YAML, with any number of documents."""


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """A reason for which a plan cannot be carried out."""

    message: str
    """Description of the problem."""
    file: str = ""
    """Name of the file. Empty for a problem of the whole apply."""
    line: int = 0
    """Line in the file, from 1."""
    document: str = ""
    """Kind and name of the document, such as `Service eu-1/web`."""
    field: str = ""
    """Path of the field, such as `spec.helm.chart`."""
    code: str = "INVALID"
    """Code of the error, such as `FORBIDDEN`."""
    target_id: str = ""
    """ID of the denied resource; of its cluster or project if it does not exist."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest: its kind, its name and place, and the spec as it is written."""

    kind: str
    name: str
    cluster: str = ""
    project: str | None = None
    labels: JsonObject = field(default_factory=dict)
    annotations: JsonObject = field(default_factory=dict)
    spec: JsonObject = field(default_factory=dict)
    file: str = ""
    line: int = 0
    lines: dict[Path, int] = field(default_factory=dict)
    """Line of each field, by its path."""
    wrong: frozenset[Path] = frozenset()
    """Fields outside of the spec with problems; they have no value here."""

    @property
    def key(self) -> str:
        """Returns the name that references use: `cluster/name` of a service."""
        return f"{self.cluster}/{self.name}" if self.cluster else self.name

    @property
    def title(self) -> str:
        """Returns kind and name for messages."""
        return f"{self.kind} {self.key}".strip()

    def problem(self, message: str, path: Path = (), code: str = "INVALID") -> DocumentProblem:
        """Returns a problem at a field of the document."""
        line = next(
            (self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines),
            self.line,
        )
        return DocumentProblem(message, self.file, line, self.title, dotted(path), code)


def dotted(path: Path) -> str:
    """Returns a path as text, such as `spec.sources[0].folder`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).removeprefix(".")


def read_documents(sources: Sequence[Source], problems: list[DocumentProblem]) -> list[Manifest]:
    """Reads all documents, and adds what is wrong with them to `problems`."""
    size = sum(len(source.content.encode()) for source in sources)
    if size > MAX_BYTES:
        problems.append(
            DocumentProblem(f"{size:,} bytes of manifests, at most {MAX_BYTES:,} are allowed")
        )
        return []
    manifests: list[Manifest] = []
    count = 0
    for source in sources:
        try:
            for line, value, lines in _YamlReader(source.content).documents():
                count += 1
                if count > MAX_DOCUMENTS:
                    break
                document = _manifest_from_value(source.file, line, value, lines, problems)
                if document is not None:
                    manifests.append(document)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            problems.append(DocumentProblem(f"is not YAML: {error.problem}", source.file, line))
        except yaml.YAMLError as error:
            problems.append(
                DocumentProblem(f"is not YAML: {str(error).splitlines()[0]}", source.file, 1)
            )
    if count > MAX_DOCUMENTS:
        text = f"more than {MAX_DOCUMENTS:,} documents: at most {MAX_DOCUMENTS:,} are allowed"
        problems.append(DocumentProblem(text))
    return manifests


def _manifest_from_value(
    file: str, line: int, value: JsonValue, lines: dict[Path, int], problems: list[DocumentProblem]
) -> Manifest | None:
    """Returns a document, and adds the problems of its frame; None: its kind is not known."""
    shape_problems = list(_shape_problems(value))
    for path, message in shape_problems:
        problem_line = lines.get(path, lines.get(path[:-1], line))
        problems.append(DocumentProblem(message, file, problem_line, "", dotted(path)))
    wrong = frozenset(path for path, _ in shape_problems)
    if not wrong.isdisjoint([(), ("apiVersion",), ("kind",)]):
        return None
    metadata = value["metadata"] if ("metadata",) not in wrong else {}
    valid = {name: entry for name, entry in metadata.items() if ("metadata", name) not in wrong}
    return Manifest(
        value["kind"], valid.get("name", ""), valid.get("cluster", ""), valid.get("project"),
        valid.get("labels") or {}, valid.get("annotations") or {},
        (value.get("spec") or {}) if ("spec",) not in wrong else {}, file, line, lines, wrong,
    )  # fmt: skip


def _shape_problems(value: JsonValue) -> Iterator[tuple[Path, str]]:
    """Yields what is wrong with the frame of a document."""
    if not isinstance(value, dict):
        yield (), "must be an object with apiVersion, kind, metadata and spec"
        return
    for name in value.keys() - set(_TOP):
        yield (name,), unknown_field(name, _TOP)
    if value.get("apiVersion") != API_VERSION:
        yield ("apiVersion",), _describe_api_version(value.get("apiVersion"))
    if not isinstance(value.get("kind"), str):
        yield ("kind",), "must be the name of a kind"
    if not isinstance(value.get("spec") or {}, dict):
        yield ("spec",), "must be an object"
    if isinstance(value.get("metadata"), dict):
        yield from _metadata_problems(value["metadata"])
    else:
        yield ("metadata",), "must be an object with a name"


def _describe_api_version(given: JsonValue) -> str:
    """Describes a wrong `apiVersion`; objects of Kubernetes are a common mistake."""
    if given is None:
        return f"must be {API_VERSION}"
    group = API_VERSION.partition("/")[0]
    is_ours = isinstance(given, str) and given.startswith(group)
    hint = "" if is_ours else "; put objects of Kubernetes into the folder of a service"
    return f"must be {API_VERSION}, not {str(given)[:80]!r}{hint}"


def _metadata_problems(metadata: JsonObject) -> Iterator[tuple[Path, str]]:
    for name in metadata.keys() - {*_METADATA, _IGNORED}:
        yield ("metadata", name), unknown_field(name, _METADATA)
    for name in ("name", "project", "cluster"):
        if not isinstance(metadata.get(name, ""), str):
            yield ("metadata", name), "must be text; quote it"
    if not metadata.get("name"):
        yield ("metadata", "name"), "is required"
    for name in ("labels", "annotations"):
        entries = metadata.get(name) or {}
        if not isinstance(entries, dict) or not all(isinstance(v, str) for v in entries.values()):
            yield ("metadata", name), "must be an object of texts; quote the values"
        else:
            yield from _entry_problems(name, entries)


def _entry_problems(field: str, entries: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yields labels that Kubernetes refuses, and names of annotations; their values are free."""
    noun = "a label" if field == "labels" else "an annotation"
    for name, value in entries.items():
        path: Path = ("metadata", field, name)
        try:
            check_label_name(name, field, noun)
            if field == "labels":
                check_label_value(value, field)
        except Invalid as error:
            yield path, error.message


class _YamlReader:
    """Builds JSON values from parser events: the library's composer recurses without a limit."""

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, yaml.CBaseLoader)
        self._values = 0
        self._lines: dict[Path, int] = {}

    def documents(self) -> Iterator[tuple[int, JsonValue, dict[Path, int]]]:
        """Yields first line, value, and the line of each field of each document."""
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                self._lines = {}
                first = next(self._events)
                value = self._read_value(first, ())
                if value is not None:
                    yield _line(first), value, self._lines

    def _read_value(self, event: ParserEvent, path: Path) -> JsonValue:
        self._values += 1
        if len(path) > MAX_DEPTH:
            raise _yaml_error(event, f"nested deeper than {MAX_DEPTH} levels")
        if self._values > MAX_VALUES:
            raise _yaml_error(event, f"more than {MAX_VALUES:,} values")
        if getattr(event, "anchor", None):
            raise _yaml_error(event, "anchors and aliases are not supported: repeat the value")
        if isinstance(event, MappingStartEvent):
            return self._read_mapping(path)
        if isinstance(event, SequenceStartEvent):
            return self._read_sequence(path)
        return _scalar(event)

    def _read_mapping(self, path: Path) -> JsonObject:
        mapping: JsonObject = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            if not isinstance(event, ScalarEvent):
                raise _yaml_error(event, "a key must be text")
            name = event.value
            if name in mapping:
                raise _yaml_error(event, f"the field {name[:80]!r} occurs twice")
            self._lines[*path, name] = _line(event)
            mapping[name] = self._read_value(next(self._events), (*path, name))
        return mapping

    def _read_sequence(self, path: Path) -> list[JsonValue]:
        items: list[JsonValue] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            self._lines[*path, len(items)] = _line(event)
            items.append(self._read_value(event, (*path, len(items))))
        return items


def _scalar(event: ParserEvent) -> JsonValue:
    return plain_scalar(event.value) if event.implicit[0] else event.value


def plain_scalar(text: str) -> JsonValue:
    """Returns the value of a text without quotes, by the rules of YAML 1.2: `on` is text.

    A number that is too large for JSON stays text.
    """
    if text.lower() in _PLAIN_WORDS:
        return _PLAIN_WORDS[text.lower()]
    if len(text) > 40:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    number = float(text) if _FLOAT.fullmatch(text) else inf
    return number if isfinite(number) else text


def _yaml_error(event: ParserEvent, reason: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=reason, problem_mark=event.start_mark)


def _line(event: ParserEvent) -> int:
    return event.start_mark.line + 1


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as blocks, and quotes what readers could take for a number."""

    def ignore_aliases(self, data: object) -> bool:
        """Repeats values that occur twice: the reader accepts no anchors."""
        return True


def _write_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None if plain_scalar(text) == text else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _write_text)


def write_documents(documents: Sequence[JsonObject]) -> str:
    """Returns documents as YAML, with their fields in the given order."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
