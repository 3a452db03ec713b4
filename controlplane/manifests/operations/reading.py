"""Checks documents together: kinds, specs, names and references."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from controlplane.manifests.model.codec import Path, SpecCodec, unknown_field
from controlplane.manifests.model.documents import DocumentProblem, Manifest, Source, read_documents
from controlplane.manifests.model.places import only_place, place_of
from controlplane.manifests.operations.names import Reference
from controlplane.platform.kinds import AnyKind
from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject

_MAX_LOOPS = 100
_PLACE: frozenset[Path] = frozenset(
    {("metadata",), *(("metadata", name) for name in ("name", "cluster", "project"))}
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A document of a known kind, with its checked spec."""

    document: Manifest
    kind: AnyKind
    codec: SpecCodec
    spec: JsonObject
    references: frozenset[Reference]
    is_malformed: bool = False
    """True if the document has problems: only the references are checked further."""

    @property
    def reference(self) -> Reference:
        """Returns the reference by which other documents name this one."""
        return self.kind.family_name(), self.document.key

    def check_complete(self, spec: JsonMapping) -> None:
        """Raises Invalid if a required field of the kind is missing in a spec."""
        for field in self.codec.fields:
            if field.required and field.published not in spec:
                raise Invalid(f"needs the field {field.published}", field="spec")

    def problem(self, message: str, field: str = "", code: str = "INVALID") -> DocumentProblem:
        """Returns a problem at a field, as operations name it."""
        path = place_of(self.codec, field) or only_place(self.document.spec, field)
        return self.document.problem(message, path, code)


class DocumentReader:
    """Reads documents of the registered kinds."""

    def __init__(self, kinds: Sequence[AnyKind]) -> None:
        self.kinds: Mapping[str, AnyKind] = {kind.name: kind for kind in kinds}
        self.codecs = {kind.name: SpecCodec(type(kind)) for kind in kinds}
        self._rank = {kind.name: number for number, kind in enumerate(kinds)}

    def rank(self, kind: str) -> int:
        """Returns the position of a kind: kinds refer to earlier ones."""
        return self._rank[kind]

    def read(self, sources: Sequence[Source], problems: list[DocumentProblem]) -> list[Declaration]:
        """Returns the declarations in the order of their references."""
        documents = read_documents(sources, problems)
        if not documents and not problems:
            # A set would lose all of its resources to a mistyped folder.
            problems.append(DocumentProblem("the files contain no documents"))
        declarations: list[Declaration] = []
        first_by_name: dict[tuple[str, str], Manifest] = {}
        for document in documents:
            kind = self.kinds.get(document.kind)
            # Kinds of a family share their names.
            family = kind.family_name() if kind else document.kind
            is_named = document.wrong.isdisjoint(_PLACE)
            first = (
                first_by_name.setdefault((family, document.key), document) if is_named else document
            )
            if first is not document:
                location = f"{first.file}:{first.line}"
                text = f"{first.title} stands in {location} already"
                if first.kind != document.kind:
                    text += f", and a {document.kind} cannot have the same name"
                problems.append(document.problem(text))
            declaration = self._check_document(document, problems)
            if declaration is not None and first is document:
                declarations.append(declaration)
        return self._sort_by_references(declarations, problems)

    def _check_document(
        self, document: Manifest, problems: list[DocumentProblem]
    ) -> Declaration | None:
        before = len(problems)
        kind = self.kinds.get(document.kind)
        if kind is None:
            text = unknown_field(document.kind, self.kinds).replace("field", "kind", 1)
            problems.append(document.problem(text, ("kind",)))
            return None
        wrong = document.wrong & _PLACE
        if ("metadata", "cluster") not in wrong and bool(document.cluster) != bool(kind.scope):
            text = "is required" if kind.scope else f"a {kind.name} is not in a cluster: remove it"
            problems.append(document.problem(text, ("metadata", "cluster")))
        if document.project and not kind.has_project:
            text = f"a {kind.name} is not in a project: remove it"
            problems.append(document.problem(text, ("metadata", "project")))
        try:
            if not wrong:
                kind.name_form.check(document.name)
        except Invalid as error:
            problems.append(document.problem(error.message, ("metadata", "name")))
        codec, has_place = self.codecs[kind.name], not wrong and len(problems) == before

        def report(path: Path, message: str) -> None:
            problems.append(document.problem(message, path))

        before = len(problems)
        spec = codec.check(document.spec, report)
        is_malformed = bool(document.wrong) or len(problems) > before
        try:
            references = frozenset(_references_of(document, kind, codec, spec))
        except (Invalid, KeyError, ValueError, TypeError) as error:
            if not is_malformed:
                problems.append(document.problem(str(error), ("spec",)))
            return None
        if not has_place:
            return None
        return Declaration(document, kind, codec, spec, references, is_malformed)

    def _sort_by_references(
        self, declarations: Sequence[Declaration], problems: list[DocumentProblem]
    ) -> list[Declaration]:
        by_reference = {declaration.reference: declaration for declaration in declarations}
        graph = {
            reference: declaration.references & by_reference.keys()
            for reference, declaration in by_reference.items()
        }
        try:
            order = list(TopologicalSorter(graph).static_order())
        except CycleError:
            closing: dict[Reference, set[Reference]] = {}
            number = 0
            for number, path in enumerate(_find_loops(graph), 1):
                last = path[-1]
                closing.setdefault(last, set()).add(path[0])
                # The others of the loop refer to it, and so are not carried out either.
                by_reference[last] = replace(by_reference[last], is_malformed=True)
                if number <= _MAX_LOOPS:
                    names = " → ".join(" ".join(reference) for reference in [last, *path])
                    problems.append(by_reference[last].problem(f"references form a loop: {names}"))
            if number > _MAX_LOOPS:
                text = f"references form {number:,} loops: the first {_MAX_LOOPS} are listed"
                problems.append(DocumentProblem(text))
            open_graph = {name: graph[name] - closing.get(name, set()) for name in graph}
            order = list(TopologicalSorter(open_graph).static_order())
        return [by_reference[reference] for reference in order]


def _references_of(
    document: Manifest, kind: AnyKind, codec: SpecCodec, spec: JsonObject
) -> Iterable[Reference]:
    yield from ((family, name) for family, name in codec.references(spec) if name)
    if document.project:
        yield "Project", document.project
    if document.cluster:
        yield kind.scope, document.cluster
        yield from (
            (kind.family_name(), f"{document.cluster}/{name}") for name in kind.neighbours(spec)
        )


def _find_loops(graph: Mapping[Reference, Collection[Reference]]) -> Iterator[Sequence[Reference]]:
    """Yields a loop for each reference that closes one, in the order of its references.

    Without the references from the last to the first of each loop, the graph has none. Loops that
    are not listed have only their first and their last member.
    """
    count = 0
    done: set[Reference] = set()
    for start in graph:
        path: dict[Reference, Iterator[Reference]] = {}
        next_reference: Reference | None = None if start in done else start
        while next_reference is not None or path:
            if next_reference is not None:
                path[next_reference] = iter(sorted(graph[next_reference]))
            last = next(reversed(path))
            next_reference = next((name for name in path[last] if name not in done), None)
            if next_reference is None:
                done.add(last)
                del path[last]
            elif next_reference in path:
                count += 1
                steps = list(path) if count <= _MAX_LOOPS else [next_reference, last]
                yield steps[steps.index(next_reference) :]
                next_reference = None
