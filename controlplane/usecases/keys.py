"""Encryption keys of the store: creation, rotation and re-encryption."""

import secrets
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

import structlog

from controlplane.domain.access import Actor, Resource, ResourceKind, Verb, require
from controlplane.domain.datakeys import DataKey
from controlplane.domain.pipelines import codec
from controlplane.ports import Rows, Transaction
from controlplane.secretports import KeyEncryption, KeyRing, Sealer
from controlplane.usecases.deps import SECRET, OperationContext
from controlplane.usecases.gatesecrets import needs_reseal, resealed
from controlplane.usecases.triggerrows import SEAL_CONTEXT, open_webhook_secret
from core.errors import Invalid, TowlineError, Unavailable

log = structlog.get_logger(__name__)

ACTIVATION_DELAY = timedelta(seconds=60)
"""Delay before a new key is used, so that every replica has loaded it by then."""
_BATCH = 100
_MAX_LOGGED = 20


@dataclass(frozen=True, slots=True)
class KeyState:
    """State of the encryption keys; `outdated` counts values that an older key sealed.

    `undecryptable` lists values that could not be decrypted in the last re-encryption.
    """

    keys: tuple[DataKey, ...]
    current: DataKey | None
    outdated: int
    kek: str
    undecryptable: tuple[str, ...] = ()


class DataKeyOperations:
    """Operations on the encryption keys.

    `previous`: key-encryption keys that wrap older data keys.
    """

    def __init__(
        self,
        deps: OperationContext,
        ring: KeyRing,
        kek: KeyEncryption,
        previous: Mapping[str, KeyEncryption] | None = None,
    ) -> None:
        self._context = deps
        self._ring = ring
        self._kek = kek
        self._sealing = ""
        self._undecryptable: tuple[str, ...] = ()
        self._known = {**(previous or {}), kek.name: kek}

    async def load(self) -> bool:
        """Loads all data keys into the key ring, and seals with the newest active one.

        Returns True if the sealing key changed. Invalid: a key is wrapped by a key-encryption key
        that is missing in the settings. Unavailable.
        """
        now = self._context.clock.now()
        async with self._context.store.read() as tx:
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
        """Creates the first data key if there is none; it is active at once."""
        async with self._context.store.read() as tx:
            held = await tx.data_keys.select()
        if not held:
            key = await self._made(timedelta())
            async with self._context.store.write() as tx:
                await tx.data_keys.add(key)

    async def rewrap(self) -> int:
        """Wraps data keys of older key-encryption keys with the current one; returns their
        number."""
        async with self._context.store.read() as tx:
            rows = [
                data_key
                for data_key in await tx.data_keys.select()
                if data_key.kek != self._kek.name
            ]
        return await self._rewrap_rows(rows)

    async def rotate(self, actor: Actor) -> DataKey:
        """Creates a new data key and wraps all others again.

        A background loop then re-encrypts the stored values.
        """
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.INSTALLATION))
        key = await self._made(ACTIVATION_DELAY)
        async with self._context.store.read() as tx:
            rows = await tx.data_keys.select()
        await self._rewrap_rows(rows)
        async with self._context.store.write() as tx:
            await tx.data_keys.add(key)
            await self._context.audit(tx, actor, "rotateEncryptionKeys", self._kek.name, key.id)
        self._context.bus.publish(SECRET)
        await self.load()
        return key

    async def state(self, actor: Actor) -> KeyState:
        """All data keys, and the number of values that still have to be re-encrypted."""
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.INSTALLATION))
        async with self._context.store.read() as tx:
            rows = sorted(await tx.data_keys.select(), key=lambda row: row.begins_at)
            outdated = 0
            for place in _sealed(tx):
                outdated += len([row_id async for row_id in self._behind(place)])
        begun = [row for row in rows if row.begins_at <= self._context.clock.now()]
        current = begun[-1] if begun else None
        return KeyState(tuple(rows), current, outdated, self._kek.name, self._undecryptable)

    async def reseal(self) -> int:
        """Re-encrypts values that an older key sealed; returns their number.

        Values that cannot be decrypted stay unchanged and are listed by `state`.
        """
        async with self._context.store.read() as tx:
            outdated = [[id async for id in self._behind(place)] for place in _sealed(tx)]
        undecryptable: list[str] = []
        for number, ids in enumerate(outdated):
            for start in range(0, len(ids), _BATCH):
                async with self._context.store.write() as tx:
                    place = tuple(_sealed(tx))[number]
                    undecryptable += await self._again(place, ids[start : start + _BATCH])
        self._undecryptable = tuple(undecryptable)
        if undecryptable:
            log.error(
                "cannot re-encrypt values: decryption failed", values=undecryptable[:_MAX_LOGGED]
            )
        return sum(map(len, outdated)) - len(undecryptable)

    async def close(self) -> None:
        """Closes the connections of all key-encryption keys."""
        for kek in self._known.values():
            await kek.close()

    async def _behind(self, place: "_SealedTable") -> AsyncIterator[str]:
        for row in await place.rows.select():
            if place.is_behind(self._context.sealer, row):
                yield row.id

    async def _again(self, place: "_SealedTable", ids: Collection[str]) -> list[str]:
        """Re-encrypts some values; skips those that were written meanwhile.

        Returns the names of values that cannot be decrypted.
        """
        sealer, undecryptable = self._context.sealer, []
        changes: dict[str, Mapping[str, Any]] = {}
        for row in await place.rows.lock(ids):
            try:
                if place.is_behind(sealer, row):
                    changes[row.id] = place.again(sealer, row)
            except (TowlineError, ValueError):
                undecryptable.append(f"{place.noun} {getattr(row, 'name', row.id)}")
        await place.rows.change_each(changes)
        return undecryptable

    async def _made(self, head_start: timedelta) -> DataKey:
        """A new wrapped key, after checking that it can be unwrapped."""
        now = self._context.clock.now()
        blank = DataKey(self._context.new_id(), b"", self._kek.name, now, now + head_start)
        wrapped = await self._kek.wrap(secrets.token_bytes(32), blank.context)
        key = replace(blank, wrapped=wrapped)
        await self._opened(key)
        return key

    async def _opened(self, row: DataKey) -> bytes:
        kek = self._known.get(row.kek)
        if kek is None:
            raise Invalid(
                f"a data key is wrapped by {row.kek}, which is not configured: add it to "
                "secrets.previous"
            )
        key = await kek.unwrap(row.wrapped, row.context)
        if len(key) != 32:
            raise Unavailable(f"{row.kek} returned a key of {len(key)} bytes, but 32 are required")
        return key

    async def _rewrap_rows(self, rows: list[DataKey]) -> int:
        for row in rows:
            wrapped = await self._kek.wrap(await self._opened(row), row.context)
            async with self._context.store.write() as tx:
                await tx.data_keys.change(row.id, wrapped=wrapped, kek=self._kek.name)
        return len(rows)


class _SealedTable(Protocol):
    """A place in the store that contains sealed values."""

    rows: Rows

    @property
    def noun(self) -> str:
        """Noun for the object that contains the value."""
        ...

    def is_behind(self, sealer: Sealer, row: Any) -> bool:
        """True if an older key sealed a value of the row."""
        ...

    def again(self, sealer: Sealer, row: Any) -> Mapping[str, Any]:
        """The columns of the row, sealed with the current key."""
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
    """Webhook secrets of triggers; old ones are not bound to a row."""

    def open(self, sealer: Sealer, row: Any) -> bytes:
        return open_webhook_secret(sealer, row)


@dataclass(slots=True)
class _Gates:
    """Signing secrets in the gate rules of pipelines."""

    rows: Rows
    noun: str = "gates of pipeline"

    def is_behind(self, sealer: Sealer, row: Any) -> bool:
        return needs_reseal(sealer, codec.pipeline_from_json(row.spec))

    def again(self, sealer: Sealer, row: Any) -> Mapping[str, Any]:
        spec = resealed(sealer, codec.pipeline_from_json(row.spec))
        return {"spec": codec.pipeline_to_json(spec), "version": row.version + 1}


def _sealed(tx: Transaction) -> Iterator[_SealedTable]:
    """All places in the store that contain sealed values."""
    yield _Column(tx.repositories, "sealed", "repository")
    yield _Column(tx.repositories, "sealed_webhook", "webhook")
    yield _Column(tx.contexts, "sealed", "context")
    yield _Column(tx.cluster_jobs, "sealed", "cluster-job")
    yield _Column(tx.sinks, "sealed", "sink")
    yield _Column(tx.secret_versions, "sealed", "secret")
    yield _Webhooks(tx.pipeline_triggers, "sealed_webhook", SEAL_CONTEXT)
    yield _Gates(tx.pipelines)
