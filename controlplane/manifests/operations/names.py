"""Names and IDs of the resources that manifests refer to."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from controlplane.authorization import Actor
from controlplane.platform.kinds import AnyKind, DeclaredRow
from controlplane.platform.ports import Transaction
from core.errors import NotFound

Reference = tuple[str, str]
"""Family of kinds, and name or ID."""


class ResourceNames:
    """Finds resources that the actor may read, in one query for each kind."""

    def __init__(self, tx: Transaction, actor: Actor, kinds: Sequence[AnyKind]) -> None:
        self._tx = tx
        self._actor = actor
        self._families: dict[str, list[AnyKind]] = {}
        for kind in kinds:
            self._families.setdefault(kind.family_name(), []).append(kind)
        self._ids: dict[Reference, str] = {}
        self._names: dict[Reference, str] = {}

    async def find(self, references: Iterable[Reference]) -> None:
        """Looks up names."""
        by_family = _group_by_family(references)
        for family, names in by_family.items():
            if not all((family, name) in self._ids for name in names):
                for kind in self._families.get(family, ()):
                    await self.rows(kind, names)

    async def rows(self, kind: AnyKind, keys: Collection[str]) -> dict[str, DeclaredRow]:
        """Returns the resources of a kind by their names."""
        scopes: set[str] = set()
        if kind.scope:
            clusters = {key.partition("/")[0] for key in keys}
            await self.find((kind.scope, cluster) for cluster in clusters)
            scopes = {id for c in clusters if (id := self._ids.get((kind.scope, c)))}
        names = {key.partition("/")[2] if kind.scope else key for key in keys}
        if not names or (kind.scope and not scopes):
            return {}
        rows = self._readable_rows(kind, await kind.by_names(self._tx, names, scopes))
        return {key: row for row in rows if (key := self._add_row(kind, row)) in keys}

    async def name_all(self, ids: Iterable[Reference]) -> None:
        """Looks up IDs."""
        for family, family_ids in _group_by_family(ids).items():
            missing = {id for id in family_ids if (family, id) not in self._names}
            for kind in self._families.get(family, ()) if missing else ():
                rows = self._readable_rows(kind, await kind.by_ids(self._tx, missing))
                await self.add_rows(kind, rows)

    async def add_rows(self, kind: AnyKind, rows: Sequence[DeclaredRow]) -> list[str]:
        """Remembers rows, and returns their names."""
        if kind.scope:
            await self.name_all((kind.scope, kind.scope_of(row)) for row in rows)
        return [self._add_row(kind, row) for row in rows]

    def add(self, family: str, key: str, id: str) -> None:
        """Remembers a new resource."""
        self._ids[family, key] = id
        self._names[family, id] = key

    def has(self, reference: Reference) -> bool:
        """Returns whether a resource has this name."""
        return reference in self._ids

    def id_of(self, family: str, name: str) -> str:
        """Returns the ID of a resource. Raises NotFound."""
        id = self.find_id(family, name)
        if name and not id:
            raise NotFound(f"{family} {name[:120]!r} does not exist, or you may not read it")
        return id

    def find_id(self, family: str, name: str) -> str:
        """Returns the ID of a resource; empty if it is not known."""
        return self._ids.get((family, name), "")

    def name_of(self, family: str, id: str) -> str:
        """Returns the name of a resource; its ID if the actor may not read it."""
        return self._names.get((family, id), id)

    def _add_row(self, kind: AnyKind, row: DeclaredRow) -> str:
        key = kind.name_of(row)
        if kind.scope:
            key = f"{self.name_of(kind.scope, kind.scope_of(row))}/{key}"
        self.add(kind.family_name(), key, row.id)
        return key

    def _readable_rows(self, kind: AnyKind, rows: Iterable[DeclaredRow]) -> list[DeclaredRow]:
        return [row for row in rows if kind.may_read(self._actor, row)]


def _group_by_family(references: Iterable[Reference]) -> Mapping[str, set[str]]:
    grouped: dict[str, set[str]] = {}
    for family, name in references:
        if name:
            grouped.setdefault(family, set()).add(name)
    return grouped
