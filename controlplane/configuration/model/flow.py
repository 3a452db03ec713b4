"""Configuration flow: exports of services, their imports, and the effects of a change. Pure.

A value is text or any JSON. Texts may contain `${imports.ALIAS}`, `${cluster.handle}`,
`${service.name}` and `${service.namespace}`. A text that consists of one reference takes the type
of its value.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from graphlib import CycleError, TopologicalSorter

from controlplane.platform.cycles import find_cycle
from controlplane.platform.limits import check_count
from controlplane.platform.parts import part
from core.errors import Invalid
from core.json_object import JsonObject

MAX_NAMES = 200
MAX_NODES = 5_000
MAX_ORIGINS = 32
"""Maximum number of exports, nearest first, that are listed as the origin of a value."""
_MAX_VALUE_LENGTH = 64 * 1024
_MAX_DEPTH = 16
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_REFERENCE = re.compile(r"\$\{(imports|cluster|service)\.([A-Za-z_][A-Za-z0-9_]*)\}")


class ValueType(StrEnum):
    """Type of a value."""

    TEXT = "text"
    """A string."""
    NUMBER = "number"
    """An integer or a floating-point number."""
    BOOLEAN = "boolean"
    """True or false."""
    LIST = "list"
    """A list."""
    OBJECT = "object"
    """An object with string keys."""


_TYPES: Mapping[ValueType, tuple[type, ...]] = {
    ValueType.TEXT: (str,),
    ValueType.NUMBER: (int, float),
    ValueType.BOOLEAN: (bool,),
    ValueType.LIST: (list,),
    ValueType.OBJECT: (dict,),
}


@dataclass(frozen=True, slots=True)
class Export:
    """A value that a service exports."""

    name: str
    """Name of the export: letters, digits and `_`. Limit: 63 characters."""
    value: object
    """Value as JSON. Limit: 64 KiB."""
    type: ValueType = ValueType.TEXT
    """Type of the value. Default: TEXT."""
    shared: bool = False
    """True if services of other projects may import the value. Default: false."""


@dataclass(frozen=True, slots=True)
class Import:
    """An export of a service under a local alias."""

    alias: str
    """Name in the importing service, as in `${imports.ALIAS}`. Letters, digits and `_`. Limit: 63
    characters."""
    source_id: str
    """ID of the exporting service."""
    export: str
    """Name of the export."""
    default: object = None
    """Value as JSON while the export does not exist. Default: the export is required. Limit:
    64 KiB."""


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A service in the graph."""

    id: str
    label: str
    """Display name."""
    project: str
    exports: Mapping[str, Export] = field(default_factory=dict)
    imports: Mapping[str, Import] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    """Values that `${…}` may name."""


Graph = Mapping[str, FlowNode]


@dataclass(frozen=True, slots=True)
class ServiceExport:
    """An export as it is stored."""

    id: str
    service_id: str
    export: Export = part(Export)


@dataclass(frozen=True, slots=True)
class ServiceImport:
    """An import as it is stored."""

    id: str
    service_id: str
    imported: Import = part(Import)


@dataclass(frozen=True, slots=True)
class ImportedValue:
    """An imported value and its origin."""

    value: object
    origin: tuple[str, ...]
    """Exports that the value comes from, nearest first, such as `dev/db.host`; or `default`."""


@dataclass(frozen=True, slots=True)
class ResolvedImports:
    """Imported values of services."""

    imports: Mapping[str, Mapping[str, ImportedValue]]
    """Values by service and alias."""
    problems: Mapping[str, str]
    """Reason for an import without a value, by service."""


def check_export(export: Export) -> Export:
    """Returns the export. Raises Invalid with the reason if it is not valid."""
    check_name(export.name, "exports.name")
    check_type(export.name, export.type, export.value, "exports.value")
    return export


def check_name(name: str, path: str) -> str:
    """Returns the name if templates can use it after a dot; else raises Invalid."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name[:80]!r} is not a name of letters, digits and '_'", field=path)
    return name


def check_type(name: str, type: ValueType, value: object, path: str) -> None:
    """Raises Invalid if a value has another type, is too long or nests too deep. A single reference
    fits every type.
    """
    is_reference = isinstance(value, str) and _REFERENCE.fullmatch(value) is not None
    if not (is_reference or _has_type(type, value)):
        raise Invalid(f"{name} is not {type.value}", field=path)
    _check_size(name, value, path)


def check_import(imported: Import) -> Import:
    """Returns the import. Raises Invalid with the reason if it is not valid."""
    check_name(imported.alias, "imports.alias")
    _check_size(imported.alias, imported.default, "imports.default")
    return imported


def _check_size(name: str, value: object, path: str) -> None:
    """Raises Invalid if a value is too long or nests too deep."""
    if (size := _size(value)) > _MAX_VALUE_LENGTH:
        text = f"{name} must have at most {_MAX_VALUE_LENGTH:,} characters, not {size:,}"
        raise Invalid(text, field=path)


def import_cycle(graph: Graph, start: str) -> list[str]:
    """Returns the labels along a cycle of imports through a service; empty if there is none."""
    return [
        graph[node_id].label for node_id in find_cycle(start, lambda id: _source_ids(graph, id))
    ]


def rollout_order(graph: Graph, among: Collection[str] | None = None) -> list[list[str]]:
    """Groups services so that each imports only from earlier groups, directly or indirectly.

    Rollouts follow this order. `among` keeps only these services, in the same order. Raises Invalid
    on a cycle.
    """
    sorter = TopologicalSorter(
        {id: [source for source in _source_ids(graph, id) if source in graph] for id in graph}
    )
    try:
        sorter.prepare()
    except CycleError:
        raise Invalid("the imports form a cycle", field="imports") from None
    groups: list[list[str]] = []
    while sorter.is_active():
        ready = sorter.get_ready()
        sorter.done(*ready)
        if group := sorted(id for id in ready if among is None or id in among):
            groups.append(group)
    return groups


def affected_services(graph: Graph, start: str) -> list[str]:
    """Returns all direct and indirect importers of a service, in rollout order."""
    importers: dict[str, list[str]] = {}
    for id in graph:
        for source in _source_ids(graph, id):
            importers.setdefault(source, []).append(id)
    affected, queue = set[str](), [start]
    while queue:
        for importer in importers.get(queue.pop(), ()):
            if importer not in affected:
                affected.add(importer)
                queue.append(importer)
    return [id for group in rollout_order(graph, affected) for id in group]


def resolve_imports(graph: Graph) -> ResolvedImports:
    """Resolves the imports of every service of an acyclic graph. Sources outside of it count as
    missing.
    """
    imports: dict[str, dict[str, ImportedValue]] = {}
    problems: dict[str, str] = {}
    exported: dict[tuple[str, str], ImportedValue] = {}
    for id in (service_id for group in rollout_order(graph) for service_id in group):
        node = graph[id]
        values: dict[str, ImportedValue] = {}
        for imported in node.imports.values():
            value = _imported_value(graph, node, imported, exported)
            if value is None:
                problems.setdefault(id, _missing_reason(graph, node, imported))
            else:
                values[imported.alias] = value
        imports[id] = values
        _resolve_exports(node, values, exported, problems)
    return ResolvedImports(imports, problems)


def changed_services(before: ResolvedImports, after: ResolvedImports) -> set[str]:
    """Returns the services whose imports or import problems differ."""
    ids = before.imports.keys() | after.imports.keys()
    return {
        id
        for id in ids
        if _imported_values(before, id) != _imported_values(after, id)
        or before.problems.get(id) != after.problems.get(id)
    }


def _resolve_exports(
    node: FlowNode,
    imports: Mapping[str, ImportedValue],
    exported: dict[tuple[str, str], ImportedValue],
    problems: dict[str, str],
) -> None:
    for export in node.exports.values():
        name = f"{node.label}.{export.name}"
        references = [alias for kind, alias in _references(export.value) if kind == "imports"]
        if any(alias not in imports for alias in references):
            continue
        if problem := _size_problem(name, export.value, node, imports):
            problems.setdefault(node.id, problem)
            continue
        value = _substitute(export.value, node, imports)
        if not _has_type(export.type, value):
            problems.setdefault(node.id, f"{name} did not resolve to {export.type.value}")
            continue
        origin = tuple(
            dict.fromkeys(label for alias in references for label in imports[alias].origin)
        )
        exported[node.id, export.name] = ImportedValue(value, (name, *origin)[:MAX_ORIGINS])


def _imported_value(
    graph: Graph,
    node: FlowNode,
    imported: Import,
    exported: Mapping[tuple[str, str], ImportedValue],
) -> ImportedValue | None:
    source = graph.get(imported.source_id)
    export = source.exports.get(imported.export) if source else None
    if source is not None and export is not None and _is_accessible(source, export, node):
        value = exported.get((imported.source_id, imported.export))
        if value is not None:
            return value
    return None if imported.default is None else ImportedValue(imported.default, ("default",))


def _missing_reason(graph: Graph, node: FlowNode, imported: Import) -> str:
    source = graph.get(imported.source_id)
    if source is None:
        return f"import {imported.alias}: its service was deleted"
    export = source.exports.get(imported.export)
    title = f"import {imported.alias}: {source.label}.{imported.export}"
    if export is None:
        return f"{title} is not exported"
    if not _is_accessible(source, export, node):
        return f"{title} is not shared with other projects"
    return f"{title} has no value because one of its own imports is missing"


def _is_accessible(source: FlowNode, export: Export, importer: FlowNode) -> bool:
    return export.shared or source.project == importer.project


def _source_ids(graph: Graph, id: str) -> list[str]:
    node = graph.get(id)
    return sorted({imported.source_id for imported in node.imports.values()}) if node else []


def _imported_values(resolved: ResolvedImports, id: str) -> JsonObject:
    return {alias: imported.value for alias, imported in resolved.imports.get(id, {}).items()}


def _has_type(type: ValueType, value: object) -> bool:
    if isinstance(value, bool) and type is not ValueType.BOOLEAN:
        return False
    return isinstance(value, _TYPES[type])


def _substitute(value: object, node: FlowNode, imports: Mapping[str, ImportedValue]) -> object:
    if isinstance(value, list):
        return [_substitute(item, node, imports) for item in value]
    if isinstance(value, dict):
        return {key: _substitute(item, node, imports) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    if reference := _REFERENCE.fullmatch(value):
        return _referenced_value(reference, node, imports)
    return _REFERENCE.sub(lambda match: str(_referenced_value(match, node, imports)), value)


def _referenced_value(
    match: re.Match[str], node: FlowNode, imports: Mapping[str, ImportedValue]
) -> object:
    if match[1] == "imports":
        return imports[match[2]].value
    return node.facts.get(f"{match[1]}.{match[2]}", match[0])


def _size_problem(
    name: str, value: object, node: FlowNode, imports: Mapping[str, ImportedValue]
) -> str:
    """Returns the reason why an export is too large once its references are filled in.

    Without a limit, services that each double what they import would fill the memory.
    """
    try:
        size = _size(value, partial(_filled_size, node=node, imports=imports))
    except Invalid as error:
        return f"{name}: {error.message}"
    return (
        f"{name} has {size:,} characters with its imports, but at most {_MAX_VALUE_LENGTH:,} "
        "are allowed"
        if size > _MAX_VALUE_LENGTH
        else ""
    )


def _filled_size(
    text: str, depth: int, node: FlowNode, imports: Mapping[str, ImportedValue]
) -> int:
    """Returns the size of a text with its references filled in, without filling them in."""
    if reference := _REFERENCE.fullmatch(text):
        return _size(_referenced_value(reference, node, imports), depth=depth)
    lengths: dict[str, int] = {}
    size = len(text)
    for match in _REFERENCE.finditer(text):
        if match[0] not in lengths:
            lengths[match[0]] = len(str(_referenced_value(match, node, imports)))
        size += lengths[match[0]] - len(match[0])
    return size


def _references(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield from ((match[1], match[2]) for match in _REFERENCE.finditer(value))
    parts: Iterable[object] = value.values() if isinstance(value, dict) else ()
    for item in value if isinstance(value, list) else parts:
        yield from _references(item)


def _size(value: object, text_size: Callable[[str, int], int] | None = None, depth: int = 0) -> int:
    """Returns the number of characters of a value. Raises Invalid if it nests too deep."""
    check_count(depth, "value", _MAX_DEPTH, "levels")
    if isinstance(value, dict):
        return sum(len(key) + _size(item, text_size, depth + 1) for key, item in value.items())
    if isinstance(value, list):
        return 1 + sum(_size(item, text_size, depth + 1) for item in value)
    return text_size(value, depth) if text_size and isinstance(value, str) else len(str(value))
