"""The keys that seal what is sealed in the store: beginning, rotating, sealing anew."""

import secrets
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

import structlog

from controlplane.domain.access import Actor, Kind, Target, Verb, require
from controlplane.domain.datakeys import DataKey
from controlplane.domain.pipelines import codec
from controlplane.ports import Rows, Transaction
from controlplane.secretports import KeyEncryption, KeyRing, Sealer
from controlplane.usecases.deps import SECRET, Deps
from controlplane.usecases.gatesecrets import is_behind, sealed_anew
from controlplane.usecases.triggerrows import SEALED_AS, opened_webhook
from fleet.errors import Invalid, TowlineError, Unavailable

log = structlog.get_logger(__name__)

HEAD_START = timedelta(seconds=60)
"""A new key seals so much later: by then every replica has looked for it."""
_BATCH = 100
_MOST_LOGGED = 20


@dataclass(frozen=True, slots=True)
class KeyState:
    """The keys for people: which seals, and how much is still sealed with older ones.

    `unopened` names what this process could not seal anew when it last tried: it does not open.
    """

    keys: tuple[DataKey, ...]
    current: DataKey | None
    behind: int
    kek: str
    unopened: tuple[str, ...] = ()


class Keys:
    """Verbs on the keys. `previous` are key-encryption keys that older rows may be wrapped by."""

    def __init__(
        self,
        deps: Deps,
        ring: KeyRing,
        kek: KeyEncryption,
        previous: Mapping[str, KeyEncryption] | None = None,
    ) -> None:
        self._deps = deps
        self._ring = ring
        self._kek = kek
        self._sealing = ""
        self._unopened: tuple[str, ...] = ()
        self._known = {**(previous or {}), kek.name: kek}

    async def load(self) -> bool:
        """Take all keys of the store into the ring, and seal with the newest that has begun.

        Whether another one than before seals now.
        Invalid: a key is wrapped by a key-encryption key that is not in the settings. Unavailable.
        """
        now = self._deps.clock.now()
        async with self._deps.store.read() as tx:
            rows = await tx.data_keys.select()
        for row in rows:
            if not self._ring.holds(row.id):
                self._ring.take(row.id, await self._opened(row))
        begun = [row for row in rows if row.begins_at <= now]
        newest = max(begun, key=lambda row: (row.begins_at, row.id)).id if begun else ""
        before, self._sealing = self._sealing, newest
        if newest:
            self._ring.seal_with(newest)
        return newest != before

    async def begin(self) -> None:
        """Make the first data key, if there is none; it seals at once."""
        async with self._deps.store.read() as tx:
            held = await tx.data_keys.select()
        if not held:
            key = await self._made(timedelta())
            async with self._deps.store.write() as tx:
                await tx.data_keys.add(key)

    async def rewrap(self) -> int:
        """Wrap with the key-encryption key of now what another one has wrapped; how many rows."""
        async with self._deps.store.read() as tx:
            rows = [
                data_key
                for data_key in await tx.data_keys.select()
                if data_key.kek != self._kek.name
            ]
        return await self._wrap_anew(rows)

    async def rotate(self, actor: Actor) -> DataKey:
        """Begin a new data key, and wrap all others anew. What is sealed follows by itself."""
        require(actor, Verb.ADMINISTER, Target.whole(Kind.INSTALLATION))
        key = await self._made(HEAD_START)
        async with self._deps.store.read() as tx:
            rows = await tx.data_keys.select()
        await self._wrap_anew(rows)
        async with self._deps.store.write() as tx:
            await tx.data_keys.add(key)
            await self._deps.audit(tx, actor, "rotateEncryptionKeys", self._kek.name, key.id)
        self._deps.bus.publish(SECRET)
        await self.load()
        return key

    async def state(self, actor: Actor) -> KeyState:
        """Which keys there are, and how many rows are still to be sealed anew."""
        require(actor, Verb.ADMINISTER, Target.whole(Kind.INSTALLATION))
        async with self._deps.store.read() as tx:
            rows = sorted(await tx.data_keys.select(), key=lambda row: row.begins_at)
            behind = 0
            for place in _sealed(tx):
                behind += len([row_id async for row_id in self._behind(place)])
        begun = [row for row in rows if row.begins_at <= self._deps.clock.now()]
        current = begun[-1] if begun else None
        return KeyState(tuple(rows), current, behind, self._kek.name, self._unopened)

    async def seal_anew(self) -> int:
        """Seal what an older key has sealed with the one of now, some rows a time; how many.

        What does not open stays as it is, and is named by `state`.
        """
        async with self._deps.store.read() as tx:
            behind = [[id async for id in self._behind(place)] for place in _sealed(tx)]
        unopened: list[str] = []
        for number, ids in enumerate(behind):
            for start in range(0, len(ids), _BATCH):
                async with self._deps.store.write() as tx:
                    place = tuple(_sealed(tx))[number]
                    unopened += await self._again(place, ids[start : start + _BATCH])
        self._unopened = tuple(unopened)
        if unopened:
            log.error("cannot be sealed anew: does not open", values=unopened[:_MOST_LOGGED])
        return sum(map(len, behind)) - len(unopened)

    async def close(self) -> None:
        """Close all connections of key-encryption keys."""
        for kek in self._known.values():
            await kek.close()

    async def _behind(self, place: "_Place") -> AsyncIterator[str]:
        for row in await place.rows.select():
            if place.is_behind(self._deps.sealer, row):
                yield row.id

    async def _again(self, place: "_Place", ids: Collection[str]) -> list[str]:
        """Seal some values anew, but for those that somebody has written meanwhile.

        The names of those that do not open.
        """
        sealer, unopened = self._deps.sealer, []
        changes: dict[str, Mapping[str, Any]] = {}
        for row in await place.rows.lock(ids):
            try:
                if place.is_behind(sealer, row):
                    changes[row.id] = place.again(sealer, row)
            except (TowlineError, ValueError):
                unopened.append(f"{place.noun} {getattr(row, 'name', row.id)}")
        await place.rows.change_each(changes)
        return unopened

    async def _made(self, head_start: timedelta) -> DataKey:
        """A new key, wrapped; that it opens again is tried first."""
        now = self._deps.clock.now()
        blank = DataKey(self._deps.new_id(), b"", self._kek.name, now, now + head_start)
        wrapped = await self._kek.wrap(secrets.token_bytes(32), blank.context)
        key = replace(blank, wrapped=wrapped)
        await self._opened(key)
        return key

    async def _opened(self, row: DataKey) -> bytes:
        kek = self._known.get(row.kek)
        if kek is None:
            raise Invalid(
                f"a data key is wrapped by {row.kek}, which is not in the settings: name it in "
                "secrets.previous"
            )
        key = await kek.unwrap(row.wrapped, row.context)
        if len(key) != 32:
            raise Unavailable(f"{row.kek} gave a key of {len(key)} bytes, 32 are needed")
        return key

    async def _wrap_anew(self, rows: list[DataKey]) -> int:
        for row in rows:
            wrapped = await self._kek.wrap(await self._opened(row), row.context)
            async with self._deps.store.write() as tx:
                await tx.data_keys.change(row.id, wrapped=wrapped, kek=self._kek.name)
        return len(rows)


class _Place(Protocol):
    """Where the store holds sealed values."""

    rows: Rows

    @property
    def noun(self) -> str:
        """What people call that which holds the value."""
        ...

    def is_behind(self, sealer: Sealer, row: Any) -> bool:
        """Whether another key than that of now has sealed a value of a row."""
        ...

    def again(self, sealer: Sealer, row: Any) -> Mapping[str, Any]:
        """The columns of a row, sealed by the key of now."""
        ...


@dataclass(slots=True)
class _Column:
    """A column of sealed values, each bound to its row by `context:id`."""

    rows: Rows
    column: str
    context: str

    @property
    def noun(self) -> str:
        return self.context.replace("-", " ")

    def is_behind(self, sealer: Sealer, row: Any) -> bool:
        sealed = getattr(row, self.column)
        return bool(sealed) and not sealer.is_current(sealed)

    def again(self, sealer: Sealer, row: Any) -> Mapping[str, Any]:
        bound = f"{self.context}:{row.id}"
        return {self.column: sealer.seal(self.open(sealer, row), bound)}

    def open(self, sealer: Sealer, row: Any) -> bytes:
        return sealer.open(getattr(row, self.column), f"{self.context}:{row.id}")


class _Webhooks(_Column):
    """The secrets of triggers' webhooks: old ones are bound to no row."""

    def open(self, sealer: Sealer, row: Any) -> bytes:
        return opened_webhook(sealer, row)


@dataclass(slots=True)
class _Gates:
    """The signing secrets within the rules of pipelines."""

    rows: Rows
    noun: str = "gates of pipeline"

    def is_behind(self, sealer: Sealer, row: Any) -> bool:
        return is_behind(sealer, codec.pipeline_from_json(row.spec))

    def again(self, sealer: Sealer, row: Any) -> Mapping[str, Any]:
        spec = sealed_anew(sealer, codec.pipeline_from_json(row.spec))
        return {"spec": codec.pipeline_to_json(spec), "version": row.version + 1}


def _sealed(tx: Transaction) -> Iterator[_Place]:
    """Every place in the store that holds sealed values."""
    yield _Column(tx.repositories, "sealed", "repository")
    yield _Column(tx.repositories, "sealed_webhook", "webhook")
    yield _Column(tx.contexts, "sealed", "context")
    yield _Column(tx.cluster_jobs, "sealed", "cluster-job")
    yield _Column(tx.sinks, "sealed", "sink")
    yield _Column(tx.secret_versions, "sealed", "secret")
    yield _Webhooks(tx.pipeline_triggers, "sealed_webhook", SEALED_AS)
    yield _Gates(tx.pipelines)
