"""Applies, deletes and exports manifests."""

from collections.abc import Collection, Sequence

from controlplane.authorization import Actor, ResourceKind, Verb, require_member
from controlplane.manifests.model.documents import (
    API_VERSION,
    DocumentProblem,
    Source,
    write_documents,
)
from controlplane.manifests.model.ownership import DeclaredResource, is_source_manager
from controlplane.manifests.model.plan import ApplyOptions, ManifestPlan
from controlplane.manifests.model.schemas import json_schema
from controlplane.manifests.operations.apply import ApplyRun
from controlplane.manifests.operations.names import ResourceNames
from controlplane.manifests.operations.reading import DocumentReader
from controlplane.manifests.operations.state import SpecReader, without_defaults
from controlplane.manifests.ports import ApplyGuard, DeclaredResourceStore
from controlplane.platform.batch import open_batch
from controlplane.platform.context import OperationContext
from controlplane.platform.kinds import AnyKind, DeclaredRow
from controlplane.platform.names import check_text
from controlplane.platform.retry import retry_operations
from core.errors import Forbidden, Invalid, NotFound
from core.json_object import JsonObject

_MAX_NAME = 63


@retry_operations
class Manifests:
    """Operations on manifests. Each change runs through the operation of its noun."""

    def __init__(self, context: OperationContext, kinds: Sequence[AnyKind]) -> None:
        self._context = context
        self._kinds = kinds
        self._reader = DocumentReader(kinds)

    async def apply(
        self,
        actor: Actor,
        sources: Sequence[Source],
        options: ApplyOptions,
        guard: ApplyGuard | None = None,
    ) -> ManifestPlan:
        """Creates, changes and deletes resources until they match the documents.

        All or nothing: with a problem, nothing is changed, and the plan lists all problems. Only
        configuration sources have a guard.
        """
        require_member(actor)
        _check_options(options)
        if guard is None:
            _check_not_reserved(options)
        problems: list[DocumentProblem] = []
        declarations = self._reader.read(sources, problems)
        async with open_batch(self._context.store) as batch:
            run = ApplyRun(self._context, batch.tx, actor, self._reader, options, problems)
            if guard is not None:
                await guard.begin(batch.tx)
            await run.load(declarations)
            # Also after a problem: the operations find others, and nothing is kept.
            await run.carry_out(declarations)
            if guard is not None:
                problems += await guard.problems(batch.tx, run.items, run.deleted)
            applied = not problems and not options.dry_run
            if applied:
                await run.record()
            if not applied or not batch.tx.has_writes:
                batch.drop()
        return ManifestPlan(tuple(run.items), tuple(problems), applied)

    async def delete(
        self, actor: Actor, sources: Sequence[Source], *, dry_run: bool = False
    ) -> ManifestPlan:
        """Deletes the resources that the documents name, all or none."""
        require_member(actor)
        problems: list[DocumentProblem] = []
        declarations = self._reader.read(sources, problems)
        async with open_batch(self._context.store) as batch:
            options = ApplyOptions(dry_run=dry_run)
            run = ApplyRun(self._context, batch.tx, actor, self._reader, options, problems)
            await run.load(declarations, with_references=False)
            if not problems:
                await run.delete(declarations)
            applied = not problems and not dry_run
            if not applied:
                batch.drop()
        return ManifestPlan(tuple(run.items), tuple(problems), applied)

    async def export(
        self, actor: Actor, kinds: Collection[str] = (), *, managed_fields: bool = False
    ) -> str:
        """Returns all resources that the actor may read, as YAML without secret values.

        With `managed_fields`, the metadata names the managers of the fields, as in Kubernetes.
        """
        require_member(actor)
        wanted = {self.kind(name).name for name in kinds}
        documents: list[JsonObject] = []
        async with self._context.store.read() as tx:
            state = SpecReader(tx, actor, self._reader, self._context.sealer)
            for kind in self._kinds:
                if not wanted or kind.name in wanted:
                    documents += [
                        _to_document(kind, state.names, row, spec, declared, managed=managed_fields)
                        for row, spec, declared in await state.exported(kind)
                    ]
        return write_documents(documents)

    async def document(
        self, actor: Actor, kind_name: str, key: str, *, with_defaults: bool = True
    ) -> JsonObject:
        """Returns one resource as a document without secret values.

        NotFound: it does not exist, or the caller may not read it. Forbidden: the caller may read
        nothing at all, and programs such as Terraform must not take that for a deletion.
        """
        require_member(actor)
        kind = self.kind(kind_name)
        async with self._context.store.read() as tx:
            state = SpecReader(tx, actor, self._reader, self._context.sealer)
            row = await _find_row(actor, kind, state.names, key)
            declared = (await state.declared([row])).get(row.id)
            sealed = {row.id: declared.sealed} if declared else {}
            (spec,) = await state.specs(kind, [row], sealed)
            if not with_defaults:
                spec = without_defaults(self._reader.codecs[kind.name], spec)
            return _to_document(kind, state.names, row, spec, declared)

    async def declared(self, actor: Actor, kind_name: str, key: str) -> DeclaredResource | None:
        """Returns the managers of a resource; None if no manifest describes it.

        Raises as `document`.
        """
        require_member(actor)
        kind = self.kind(kind_name)
        async with self._context.store.read() as tx:
            row = await _find_row(actor, kind, ResourceNames(tx, actor, self._kinds), key)
            return await tx[DeclaredResourceStore].peek(row.id)

    def kind(self, name: str) -> AnyKind:
        """Returns the kind with this name, in any case. Raises NotFound."""
        kinds_by_name = {kind_name.lower(): kind for kind_name, kind in self._reader.kinds.items()}
        if name.lower() not in kinds_by_name:
            kind_names = ", ".join(self._reader.kinds)
            raise NotFound(f"kind {name[:80]!r} does not exist; use one of {kind_names}")
        return kinds_by_name[name.lower()]

    def schema(self, name: str) -> JsonObject:
        """Returns the JSON Schema of a kind."""
        kind = self.kind(name)
        return json_schema(kind, self._reader.codecs[kind.name])

    def kind_names(self) -> list[str]:
        """Returns the names of all kinds."""
        return list(self._reader.kinds)


async def _find_row(actor: Actor, kind: AnyKind, names: ResourceNames, key: str) -> DeclaredRow:
    row = (await names.rows(kind, {key})).get(key)
    if row is not None and kind.is_declared(row):
        return row
    if not any(actor.policy.anywhere(Verb.READ, readable) for readable in ResourceKind):
        raise Forbidden("you have no role: ask an administrator for one")
    raise NotFound(f"{kind.name} {key[:120]!r} does not exist, or you may not read it")


def _to_document(
    kind: AnyKind,
    names: ResourceNames,
    row: DeclaredRow,
    spec: JsonObject,
    declared: DeclaredResource | None,
    *,
    managed: bool = False,
) -> JsonObject:
    metadata: JsonObject = {"name": kind.name_of(row)}
    if kind.scope:
        metadata[kind.scope.lower()] = names.name_of(kind.scope, kind.scope_of(row))
    project = kind.project_of(row) if kind.has_project else None
    if project and project != kind.default_project:
        metadata["project"] = names.name_of("Project", project)
    if declared is not None:
        groups = {"labels": declared.labels, "annotations": declared.annotations}
        metadata |= {
            name: dict(sorted(entries.items())) for name, entries in groups.items() if entries
        }
        if managed and (fields := declared.managed_fields):
            metadata["managedFields"] = fields
    document = {"apiVersion": API_VERSION, "kind": kind.name, "metadata": metadata}
    return {**document, "spec": spec} if spec else document


def _check_options(options: ApplyOptions) -> None:
    check_text(options.manager, "manager", _MAX_NAME)
    if options.prune_set:
        check_text(options.prune_set, "pruneSet", _MAX_NAME)
    if options.max_deletions < 0:
        raise Invalid("must not be negative", field="maxDeletions")


def _check_not_reserved(options: ApplyOptions) -> None:
    for field, name in (("manager", options.manager), ("pruneSet", options.prune_set)):
        if is_source_manager(name):
            raise Invalid(f"{name!r} is the name of a configuration source", field=field)
