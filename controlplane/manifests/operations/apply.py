"""One run of an apply: its plan, and its changes through the operations of each kind."""

import base64
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controlplane.authorization import Actor, Verb, require
from controlplane.manifests.model.codec import is_sealed
from controlplane.manifests.model.differences import differences, metadata_differences, shown_path
from controlplane.manifests.model.documents import DocumentProblem, Manifest
from controlplane.manifests.model.ownership import (
    SEPARATOR,
    AppliedBy,
    DeclaredResource,
    digest,
    is_source_manager,
    leaves,
    merged,
    without,
)
from controlplane.manifests.model.plan import (
    ApplyOptions,
    FieldConflict,
    ManifestAction,
    ManifestEffect,
    SpecDifference,
)
from controlplane.manifests.model.sealed import SecretFields
from controlplane.manifests.operations.names import Reference
from controlplane.manifests.operations.reading import Declaration, DocumentReader
from controlplane.manifests.operations.state import SpecReader
from controlplane.manifests.ports import DeclaredResourceStore
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.context import OperationContext
from controlplane.platform.kinds import AnyKind, DeclaredRow, Placement
from controlplane.platform.parts import Columns, column_values
from controlplane.platform.ports import AuditTrail, Transaction, TransactionConflict
from core.errors import Code, Conflict, Forbidden, Invalid, NotFound, TowlineError
from core.json_object import JsonObject, JsonValue
from core.sealed_places import SEALED

_REFUSALS = (Invalid, NotFound, Forbidden, Conflict)


@dataclass
class _PresentState:
    """A resource before the apply; `row` is None if it does not exist."""

    id: str = ""
    row: DeclaredRow | None = None
    spec: JsonObject = field(default_factory=dict)
    declared: DeclaredResource | None = None
    is_current: bool = False
    """True if the manager applied the same spec before, and nobody changed its fields since."""


class ApplyRun:
    """Plans and carries out documents in one transaction, and collects all problems."""

    def __init__(
        self,
        context: OperationContext,
        tx: Transaction,
        actor: Actor,
        reader: DocumentReader,
        options: ApplyOptions,
        problems: list[DocumentProblem],
    ) -> None:
        self.items: list[ManifestEffect] = []
        self.deleted: set[str] = set()
        self._context = context
        self._tx = tx
        self._actor = actor
        self._reader = reader
        self._options = options
        self._problems = problems
        self._state = SpecReader(tx, actor, reader, context.sealer)
        self._names = self._state.names
        self._seals = self._state.seals
        self._resources: dict[Reference, _PresentState] = {}
        self._applied: dict[str, tuple[Declaration, _PresentState]] = {}
        self._written: dict[str, list[str]] = {}
        self._failed: set[Reference] = set()
        self._sealed: dict[str, Mapping[str, str]] = {}
        self._concluding: list[tuple[Declaration, str, Columns]] = []
        self._not_prefetched: dict[str, list[str]] = {}
        self._new_documents: dict[str, list[Manifest]] = {}

    async def load(
        self, declarations: Sequence[Declaration], *, with_references: bool = True
    ) -> None:
        """Reads the present state of all resources, and checks all references."""
        by_kind: dict[str, list[Declaration]] = {}
        for declaration in declarations:
            by_kind.setdefault(declaration.kind.name, []).append(declaration)
        for name in sorted(by_kind, key=self._reader.rank):
            await self._load_kind(self._reader.kinds[name], by_kind[name])
        if not with_references:
            return
        self._failed.update(d.reference for d in declarations if d.is_malformed)
        await self._names.find(r for d in declarations for r in d.references)
        declared = {declaration.reference for declaration in declarations}
        for declaration in declarations:
            for reference in sorted(declaration.references - declared):
                if not self._names.has(reference):
                    self._problems.append(_missing_reference(declaration, reference))
                    self._failed.add(declaration.reference)

    async def carry_out(self, declarations: Sequence[Declaration]) -> None:
        """Creates and changes resources, then deletes those that left the set."""
        for declaration in declarations:
            blocking = {r for r in declaration.references & self._failed if not self._names.has(r)}
            if blocking or declaration.reference in self._failed:
                # The reason is a problem of its own.
                self._failed.add(declaration.reference)
            elif not await self._attempt(declaration, self._apply_declaration(declaration)):
                self._failed.add(declaration.reference)
        if self._options.prune_set and not self._problems:
            await self._prune()
        for declaration, id, columns in self._concluding:
            work = declaration.kind.conclude(self._actor, id, columns)
            await self._attempt(declaration, work)

    async def delete(self, declarations: Sequence[Declaration]) -> None:
        """Deletes the resources of the documents; those without a resource are skipped."""
        targets = [
            (declaration.kind, resource.row)
            for declaration in declarations
            if (resource := self._resources[declaration.reference]).row is not None
        ]
        await self._delete_all(list(reversed(targets)))

    async def record(self) -> None:
        """Writes the owners of all fields, as the resources are now."""
        store = self._tx[DeclaredResourceStore]
        specs = {id: resource.spec for id, (_, resource) in self._applied.items()}
        for name, ids in self._written.items():
            kind = self._reader.kinds[name]
            rows = await kind.by_ids(self._tx, ids)
            after = await self._state.specs(kind, rows, self._sealed)
            specs |= dict(zip([row.id for row in rows], after, strict=True))
        added: list[DeclaredResource] = []
        changes: dict[str, Columns] = {}
        audit: list[AuditEntry] = []
        for id, (declaration, resource) in self._applied.items():
            before = resource.declared
            after = self._declared_after(declaration, id, specs[id], before)
            if before is None:
                added.append(after)
            elif after != before:
                changes[id] = column_values(after)
            old = before or DeclaredResource(id, after.kind)
            if resource.row is not None and after.metadata != old.metadata:
                audit.append(self._metadata_entry(declaration, after))
        await store.add_each(added)
        await store.change_each(changes)
        await self._tx[AuditTrail].append(audit)

    def _metadata_entry(self, declaration: Declaration, row: DeclaredResource) -> AuditEntry:
        name, details = declaration.document.key, {"labels": row.labels, "set": row.prune_set}
        return self._context.audit_entry(
            self._actor, "applyManifests", name, row.id, kind=row.kind, **details
        )

    async def _load_kind(self, kind: AnyKind, declarations: Sequence[Declaration]) -> None:
        rows_by_key = await self._names.rows(kind, {d.document.key for d in declarations})
        declared_rows = [(key, row) for key, row in rows_by_key.items() if kind.is_declared(row)]
        self._not_prefetched[kind.name] = [row.id for _, row in declared_rows]
        rows = [row for _, row in declared_rows]
        declared = await self._state.declared(rows)
        self._sealed |= {id: resource.sealed for id, resource in declared.items()}
        specs = await self._state.specs(kind, rows, self._sealed)
        states = {
            key: _PresentState(row.id, row, spec, declared.get(row.id))
            for (key, row), spec in zip(declared_rows, specs, strict=True)
        }
        for declaration in declarations:
            key = declaration.document.key
            self._resources[declaration.reference] = states.get(key, _PresentState())
        new = [d.document for d in declarations if d.document.key not in states]
        self._new_documents[kind.name] = new

    async def _attempt(self, declaration: Declaration, work: Awaitable[None]) -> bool:
        """Runs a step; a refusal becomes a problem. Returns whether it succeeded."""
        try:
            await work
        except TransactionConflict:
            raise
        except _REFUSALS as error:
            problem = _refusal_problem(declaration, error)
            self._problems.append(replace(problem, target_id=self._place_id(declaration)))
            return False
        return True

    def _place_id(self, declaration: Declaration) -> str:
        """Returns the ID of a resource; that of its cluster or project if it does not exist."""
        document, kind = declaration.document, declaration.kind
        return (
            self._resources[declaration.reference].id
            or self._names.find_id(kind.scope, document.cluster)
            or self._names.find_id("Project", document.project or "")
            or (kind.has_project and kind.default_project)
            or ""
        )

    async def _apply_declaration(self, declaration: Declaration) -> None:
        resource = self._resources[declaration.reference]
        if resource.row is None:
            await self._create(declaration, resource)
        else:
            await self._update(declaration, resource, resource.row)

    async def _create(self, declaration: Declaration, resource: _PresentState) -> None:
        document, kind, spec = declaration.document, declaration.kind, declaration.spec
        names, codec = self._names, declaration.codec
        declaration.check_complete(spec)
        scope = names.id_of(kind.scope, document.cluster) if kind.scope else ""
        await self._prefetch_new(kind)
        project = names.id_of("Project", document.project) if document.project else None
        opened = await self._seals.opened(
            codec, spec, document.key, project or kind.default_project
        )
        columns = codec.decode_columns(opened, names.id_of)
        resource.id = await kind.create(
            self._actor, Placement(document.name, scope, project), columns
        )
        self._note_written(declaration, resource.id, columns)
        names.add(kind.family_name(), document.key, resource.id)
        self._sealed[resource.id] = SecretFields(codec).sealed(spec)
        changes = differences({}, dict(leaves(spec)), codec.secret_names)
        self._applied[resource.id] = declaration, resource
        self._add_effect(declaration, ManifestAction.CREATE, changes)

    async def _update(
        self, declaration: Declaration, resource: _PresentState, row: DeclaredRow
    ) -> None:
        document, kind = declaration.document, declaration.kind
        self._applied[resource.id] = declaration, resource
        self._check_project(declaration, row)
        self._check_set(declaration, resource)
        metadata = _metadata_changes(declaration, resource.declared)
        desired = self._desired_spec(declaration, resource)
        if kind.takes_all:
            declaration.check_complete(desired)
        changed = {
            name
            for name in desired.keys() | resource.spec.keys()
            if desired.get(name) != resource.spec.get(name)
        }
        if not changed:
            self._authorize_metadata(declaration, resource, row)
            action = ManifestAction.UPDATE if metadata else ManifestAction.UNCHANGED
            self._add_effect(declaration, action, metadata)
            return
        before = dict(
            leaves({name: resource.spec[name] for name in changed if name in resource.spec})
        )
        after = dict(leaves({name: desired[name] for name in changed if name in desired}))
        changes = [*metadata, *differences(before, after, declaration.codec.secret_names)]
        conflicts = self._field_conflicts(resource, before, after)
        blocked = [c for c in conflicts if not self._may_take_over(c.owner)]
        if blocked:
            self._add_effect(declaration, ManifestAction.UPDATE, changes, conflicts)
            for conflict in blocked:
                advice = self._conflict_advice(conflict)
                text = f"{conflict.path} was set by {conflict.owner}: {advice}"
                self._problems.append(document.problem(text, ("spec",), Code.CONFLICT.value))
            return
        await self._prefetch(kind)
        names = desired.keys() if kind.takes_all else changed
        written = self._with_seals(declaration, desired, set(names))
        stored = await self._seals.destinations(kind, declaration.codec, row, written)
        opened = await self._seals.opened(
            declaration.codec, written, document.key, kind.project_of(row), {**desired, **stored}
        )
        columns = declaration.codec.decode_columns(opened, self._names.id_of)
        await kind.update(self._actor, row, columns)
        self._note_written(declaration, row.id, columns)
        self._sealed[row.id] = SecretFields(declaration.codec).sealed(desired)
        self._add_effect(declaration, ManifestAction.UPDATE, changes, conflicts)

    def _with_seals(
        self, declaration: Declaration, desired: JsonObject, names: set[str]
    ) -> JsonObject:
        """Returns the fields to write. Operations replace a sign-in as a whole, so a change of one
        secret comes with the sealed ones.
        """
        if not names.isdisjoint(declaration.codec.secret_names):
            names = names | {name for name, value in desired.items() if is_sealed(value)}
        return {name: value for name, value in desired.items() if name in names}

    def _note_written(self, declaration: Declaration, id: str, columns: Columns) -> None:
        """Notes a resource whose spec has changed, and the fields to set after all documents."""
        self._written.setdefault(declaration.kind.name, []).append(id)
        names = declaration.kind.concluding
        if deferred := {name: columns[name] for name in names if name in columns}:
            self._concluding.append((declaration, id, deferred))

    def _authorize_metadata(
        self, declaration: Declaration, resource: _PresentState, row: DeclaredRow
    ) -> None:
        """Forbidden: the apply changes labels, set or owners of a row that the actor only reads."""
        after = self._declared_after(declaration, resource.id, resource.spec, resource.declared)
        if after != resource.declared:
            require(self._actor, Verb.WRITE, declaration.kind.target_of(row))

    async def _prefetch(self, kind: AnyKind) -> None:
        """Reads all resources of a kind before the first change of one."""
        if ids := self._not_prefetched.pop(kind.name, None):
            await kind.prefetch(self._tx, ids)

    async def _prefetch_new(self, kind: AnyKind) -> None:
        """Reads what creations of a kind need before the first one."""
        new = self._new_documents.pop(kind.name, [])
        if len(new) > 1:
            in_known_scopes = [
                d for d in new if not kind.scope or self._names.has((kind.scope, d.cluster))
            ]
            keys = [(self._names.id_of(kind.scope, d.cluster), d.name) for d in in_known_scopes]
            await kind.prefetch_new(self._tx, keys)

    def _desired_spec(self, declaration: Declaration, resource: _PresentState) -> JsonObject:
        """Returns the spec after the apply; the present one if nothing is to change."""
        spec, declared = declaration.spec, resource.declared
        last_apply = declared.managers.get(self._options.manager) if declared else None
        if last_apply and self._is_reapplied(resource, spec, last_apply):
            resource.is_current = True
            return resource.spec
        dropped: set[str] = set()
        if declared and last_apply:
            given_paths = {path for path, _ in leaves(spec)}
            dropped = {
                _without_seal(path, declaration.codec.secret_names)
                for path in last_apply.fields
                if path not in given_paths
                and not any(other.startswith(path + SEPARATOR) for other in given_paths)
                and not declared.owners(path, self._options.manager)
            }
        is_whole = declaration.kind.takes_all
        codec = declaration.codec
        base = without(resource.spec, dropped, codec.defaults, is_whole=is_whole)
        if dropped:
            base = codec.without_incomplete(base, resource.spec)
        return merged(base, spec)

    def _is_reapplied(
        self, resource: _PresentState, spec: JsonObject, last_apply: AppliedBy
    ) -> bool:
        """Returns whether the manager applied this spec, and nobody changed its fields since."""
        sealed = base64.b64decode(last_apply.document)
        stored = self._context.sealer.open(sealed, _seal_context(resource.id)).decode()
        return stored == digest(spec) and last_apply.state == _state_digest(resource.spec, spec)

    def _check_project(self, declaration: Declaration, row: DeclaredRow) -> None:
        project = declaration.document.project
        if not project:
            return
        project_id = self._names.id_of("Project", project)
        if declaration.kind.project_of(row) != project_id:
            raise Conflict(f"the project of {declaration.document.title} cannot be changed")

    def _check_set(self, declaration: Declaration, resource: _PresentState) -> None:
        """Conflict: the resource belongs to another set, which would lose it."""
        prune_set = self._options.prune_set
        present_set = resource.declared.prune_set if resource.declared else ""
        if (
            prune_set
            and present_set
            and present_set != prune_set
            and not self._may_take_over(present_set)
        ):
            raise Conflict(
                f"{declaration.document.title} belongs to the set {present_set!r}: remove it from "
                "one set, or take it over with force"
            )

    def _may_take_over(self, owner: str) -> bool:
        """Returns whether fields of another manager are overwritten.

        Two configuration sources would take a field from each other for ever.
        """
        between_sources = is_source_manager(owner) and is_source_manager(self._options.manager)
        return self._options.force and not between_sources

    def _conflict_advice(self, conflict: FieldConflict) -> str:
        if self._options.force:
            return "remove it from one of both folders"
        return "agree on one manager, or take it over with force"

    def _field_conflicts(
        self, resource: _PresentState, before: JsonObject, after: JsonObject
    ) -> list[FieldConflict]:
        if resource.declared is None:
            return []
        changed = [p for p in before.keys() | after.keys() if before.get(p) != after.get(p)]
        return [
            FieldConflict(shown_path(path), owner)
            for path in sorted(changed)
            for owner in resource.declared.owners(path, self._options.manager)
        ]

    def _declared_after(
        self, declaration: Declaration, id: str, spec: JsonObject, before: DeclaredResource | None
    ) -> DeclaredResource:
        """Returns the owners of the fields after the apply."""
        document, options, own_spec = declaration.document, self._options, declaration.spec
        fields = tuple(sorted(path for path, _ in leaves(own_spec)))
        managers = dict(before.managers) if before else {}
        if not self._resources[declaration.reference].is_current:
            sealed = self._context.sealer.seal(digest(own_spec).encode(), _seal_context(id))
            applied = base64.b64encode(sealed).decode()
            managers[options.manager] = AppliedBy(fields, applied, _state_digest(spec, own_spec))
        if options.force:
            managers = _take_over_fields(managers, options.manager, fields)
        return DeclaredResource(
            id, declaration.kind.name, document.labels, document.annotations, managers,
            options.prune_set or (before.prune_set if before else ""),
            SecretFields(declaration.codec).sealed(spec),
        )  # fmt: skip

    async def _prune(self) -> None:
        store, options = self._tx[DeclaredResourceStore], self._options
        declared = [
            row for row in await store.of_set(options.prune_set) if row.id not in self._applied
        ]
        by_kind: list[tuple[AnyKind, Sequence[DeclaredRow]]] = []
        for name in {row.kind for row in declared} & self._reader.kinds.keys():
            kind, ids = self._reader.kinds[name], [row.id for row in declared if row.kind == name]
            by_kind.append((kind, await kind.by_ids(self._tx, ids)))
        surplus = [(kind, row) for kind, rows in by_kind for row in rows]
        if unreadable := sum(not kind.may_read(self._actor, row) for kind, row in surplus):
            # Their number alone: a name would tell what exists in projects of others.
            text = (
                f"set {options.prune_set!r} would lose {_resource_count(unreadable)} that you may "
                "not read: use another set, or ask an administrator"
            )
            self._problems.append(DocumentProblem(text, code=Code.FORBIDDEN.value))
            return
        for kind, rows in by_kind:
            await self._names.add_rows(kind, rows)
        vanished = {row.id for row in declared} - {row.id for _, row in surplus}
        if len(surplus) > options.max_deletions:
            names = ", ".join(sorted(self._title_of(kind, row) for kind, row in surplus)[:10])
            text = (
                f"set {options.prune_set!r} would lose {_resource_count(len(surplus))}, but at "
                f"most {options.max_deletions} deletions are allowed: {names}"
            )
            self._problems.append(DocumentProblem(text, code=Code.LIMIT.value))
        surplus.sort(key=lambda pair: -self._reader.rank(pair[0].name))
        await self._delete_all(surplus)
        if vanished:
            await store.remove_each(vanished)

    async def _delete_all(self, targets: Sequence[tuple[AnyKind, DeclaredRow]]) -> None:
        """Deletes resources; those that others still use are tried again after the others."""
        remaining = list(targets)
        while remaining:
            refused: list[tuple[AnyKind, DeclaredRow, TowlineError]] = []
            for kind, row in remaining:
                try:
                    await kind.delete(self._actor, row)
                except TransactionConflict:
                    raise
                except _REFUSALS as error:
                    refused.append((kind, row, error))
                    continue
                self.deleted.add(row.id)
                title = self._names.name_of(kind.family_name(), row.id)
                self.items.append(ManifestEffect(ManifestAction.DELETE, kind.name, title))
                await self._tx[DeclaredResourceStore].remove(row.id)
            if len(refused) == len(remaining):
                self._problems += [
                    DocumentProblem(
                        error.message,
                        document=self._title_of(kind, row),
                        code=error.code.value,
                        target_id=row.id,
                    )
                    for kind, row, error in refused
                ]
                return
            remaining = [(kind, row) for kind, row, _ in refused]

    def _title_of(self, kind: AnyKind, row: DeclaredRow) -> str:
        return f"{kind.name} {self._names.name_of(kind.family_name(), row.id)}"

    def _add_effect(
        self,
        declaration: Declaration,
        action: ManifestAction,
        changes: Collection[SpecDifference] = (),
        conflicts: Collection[FieldConflict] = (),
    ) -> None:
        document = declaration.document
        self.items.append(
            ManifestEffect(
                action, document.kind, document.key, tuple(changes), tuple(conflicts),
                document.file, document.line,
            )
        )  # fmt: skip


def _metadata_changes(
    declaration: Declaration, before: DeclaredResource | None
) -> list[SpecDifference]:
    document, declared = declaration.document, before or DeclaredResource("", "")
    labels = metadata_differences("labels", declared.labels, document.labels)
    return [
        *labels,
        *metadata_differences("annotations", declared.annotations, document.annotations),
    ]


def _resource_count(count: int) -> str:
    return "1 resource" if count == 1 else f"{count} resources"


def _without_seal(path: str, secrets: Collection[str]) -> str:
    """Returns the path of a secret field, also if it had a sealed value."""
    *keys, last = path.split(SEPARATOR)
    is_seal = last == SEALED and not set(keys).isdisjoint(secrets)
    return SEPARATOR.join(keys) if is_seal else path


def _state_digest(spec: JsonObject, names: Iterable[str]) -> str:
    return digest({name: spec.get(name) for name in names})


def _seal_context(id: str) -> str:
    return f"manifest:{id}"


def _take_over_fields(
    managers: dict[str, AppliedBy], manager: str, fields: Sequence[str]
) -> dict[str, AppliedBy]:
    """Returns the managers after one took over fields from the others."""
    taken = set(fields)
    remaining = {
        name: applied if name == manager else replace(
            applied, fields=tuple(path for path in applied.fields if path not in taken)
        )
        for name, applied in managers.items()
    }  # fmt: skip
    return {
        name: applied for name, applied in remaining.items() if name == manager or applied.fields
    }


def _missing_reference(declaration: Declaration, reference: Reference) -> DocumentProblem:
    family, name = reference
    text = f"{family} {name[:120]!r} does not exist, or you may not read it"
    path = next(
        (path for path in declaration.document.lines if _leads_to(declaration, path, name)), ()
    )
    return declaration.document.problem(text, path, Code.NOT_FOUND.value)


def _leads_to(declaration: Declaration, path: Sequence[str | int], name: str) -> bool:
    """Returns whether a field of the document has this value."""
    document = declaration.document
    if path[0] == "metadata":
        return getattr(document, str(path[-1]), None) == name and len(path) == 2
    value: JsonValue = document.spec
    for key in path[1:]:
        value = value[key]
    return path[0] == "spec" and (value == name or value == name.partition("/")[2])


def _refusal_problem(declaration: Declaration, error: TowlineError) -> DocumentProblem:
    field = getattr(error, "field", None) or ""
    problem = declaration.problem(error.message, field, error.code.value)
    if problem.field:
        # The place of the problem names the field.
        return replace(problem, message=error.message.removeprefix(f"{field}: "))
    return problem
