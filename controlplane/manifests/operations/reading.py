"""Checks documents together: kinds, specs, names and references."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from controlplane.manifests.model.codec import Path, SpecCodec, unknown_field
from controlplane.manifests.model.documents import DocumentProblem, Manifest, Source, read_documents
from controlplane.manifests.operations.names import Reference
from controlplane.platform.kinds import AnyKind
from controlplane.platform.names import check_text
from core.errors import Invalid
from core.json_object import JsonObject


@dataclass(frozen=True, slots=True)
class Declaration:
    """A document of a known kind, with its checked spec."""

    document: Manifest
    kind: AnyKind
    codec: SpecCodec
    spec: JsonObject
    references: frozenset[Reference]
    is_malformed: bool = False
    """True if the spec has problems: only the references are checked further."""

    @property
    def reference(self) -> Reference:
        """Returns the reference by which other documents name this one."""
        return self.kind.family_name(), self.document.key

    def check_complete(self) -> None:
        """Raises Invalid if a required field is missing."""
        for field in self.codec.fields:
            if field.required and field.published not in self.spec:
                raise Invalid(f"needs the field {field.published}", field="spec")

    def problem(self, message: str, field: str = "", code: str = "INVALID") -> DocumentProblem:
        """Returns a problem at a field of the spec, as operations name it."""
        parts: list[str] = [part for part in field.split(".") if part]
        known = bool(parts) and parts[0] in self.spec
        path: Path = ("spec", *parts) if known else ()
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
        counts = Counter((document.kind, document.key) for document in documents)
        found: list[Declaration] = []
        seen: dict[tuple[str, str], Manifest] = {}
        for document in documents:
            first = seen.setdefault((document.kind, document.key), document)
            if counts[document.kind, document.key] > 1 and first is not document:
                where = f"{first.file}:{first.line}"
                problems.append(document.problem(f"{document.title} stands in {where} already"))
            elif declaration := self._checked(document, problems):
                found.append(declaration)
        return self._ordered(found, problems)

    def _checked(self, document: Manifest, problems: list[DocumentProblem]) -> Declaration | None:
        before = len(problems)
        kind = self.kinds.get(document.kind)
        if kind is None:
            text = unknown_field(document.kind, self.kinds).replace("field", "kind", 1)
            problems.append(document.problem(text, ("kind",)))
            return None
        if bool(document.cluster) != bool(kind.scope):
            text = "is required" if kind.scope else f"a {kind.name} is not in a cluster: remove it"
            problems.append(document.problem(text, ("metadata", "cluster")))
        if document.project and not kind.has_project:
            text = f"a {kind.name} is not in a project: remove it"
            problems.append(document.problem(text, ("metadata", "project")))
        try:
            check_text(document.name, "metadata.name", 2048)
        except Invalid as error:
            problems.append(document.problem(error.message, ("metadata", "name")))
        codec, has_place = self.codecs[kind.name], len(problems) == before

        def report(path: Path, message: str) -> None:
            problems.append(document.problem(message, path))

        before = len(problems)
        spec = codec.check(document.spec, report)
        is_malformed = len(problems) > before
        try:
            references = frozenset(_references(document, kind, codec, spec))
        except (Invalid, KeyError, ValueError, TypeError) as error:
            if not is_malformed:
                problems.append(document.problem(str(error), ("spec",)))
            return None
        if not has_place:
            return None
        return Declaration(document, kind, codec, spec, references, is_malformed)

    def _ordered(
        self, declarations: Sequence[Declaration], problems: list[DocumentProblem]
    ) -> list[Declaration]:
        by_reference = {declaration.reference: declaration for declaration in declarations}
        sorter: TopologicalSorter[Reference] = TopologicalSorter()
        for declaration in declarations:
            sorter.add(declaration.reference, *(declaration.references & by_reference.keys()))
        try:
            sorter.prepare()
        except CycleError as error:
            way = " → ".join(" ".join(reference) for reference in reversed(error.args[1]))
            problems.append(
                by_reference[error.args[1][0]].problem(f"references form a loop: {way}")
            )
            return list(declarations)
        ordered: list[Declaration] = []
        while sorter.is_active():
            ready = list(sorter.get_ready())
            ordered += [by_reference[reference] for reference in ready]
            sorter.done(*ready)
        return ordered


def _references(
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
