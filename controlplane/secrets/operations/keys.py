"""Encryption keys of the store: creation, rotation and re-encryption."""

import secrets
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require
from controlplane.platform.context import SECRET, OperationContext
from controlplane.secrets.model.data_keys import DataKey
from controlplane.secrets.ports import (
    DataKeyStore,
    KeyEncryption,
    KeyRing,
    SealedTable,
    SealedTables,
)
from core.errors import Invalid, TowlineError, Unavailable

log = structlog.get_logger(__name__)

ACTIVATION_DELAY = timedelta(seconds=60)
"""Delay before a new key is used, so that every replica has loaded it by then."""
_ADMINISTER = (Verb.ADMINISTER, Resource.whole(ResourceKind.INSTALLATION))
_BATCH = 100
_MAX_LOGGED = 20


@dataclass(frozen=True, slots=True)
class KeyState:
    """State of the encryption keys."""

    keys: tuple[DataKey, ...]
    """Data keys."""
    current: DataKey | None
    outdated: int
    """Number of values still encrypted with older keys."""
    kek: str
    """Name of the current key encryption key."""
    undecryptable: tuple[str, ...] = ()
    """Values that cannot be re-encrypted, since they cannot be decrypted."""


class DataKeyOperations:
    """Operations on the encryption keys.

    `previous`: key-encryption keys that wrap older data keys.
    """

    def __init__(
        self,
        context: OperationContext,
        ring: KeyRing,
        kek: KeyEncryption,
        previous: Mapping[str, KeyEncryption] | None = None,
    ) -> None:
        self._context = context
        self._ring = ring
        self._kek = kek
        self._sealing_id = ""
        self._undecryptable: tuple[str, ...] = ()
        self._keks = {**(previous or {}), kek.name: kek}

    async def load(self) -> bool:
        """Loads all data keys into the key ring, and seals with the newest active one.

        Returns True if the sealing key changed. Invalid: a key is wrapped by a key-encryption key
        that is missing in the settings. Unavailable.
        """
        rows = await self._data_keys()
        for row in rows:
            if not self._ring.has_key(row.id):
                self._ring.add_key(row.id, await self._unwrap(row))
        newest = self._newest_active(rows)
        before, self._sealing_id = self._sealing_id, newest.id if newest else ""
        if newest:
            self._ring.seal_with(newest.id)
        return self._sealing_id != before

    async def begin(self) -> None:
        """Creates the first data key if there is none; it is active at once."""
        if not await self._data_keys():
            key = await self._new_key(timedelta())
            async with self._context.store.write() as tx:
                await tx[DataKeyStore].add(key)

    async def rewrap(self) -> int:
        """Wraps data keys of older key-encryption keys with the current one; returns their
        number."""
        rows = [row for row in await self._data_keys() if row.kek != self._kek.name]
        return await self._rewrap_rows(rows)

    async def rotate(self, actor: Actor) -> DataKey:
        """Creates a new data key and wraps all others again.

        A background loop then re-encrypts the stored values.
        """
        require(actor, *_ADMINISTER)
        key = await self._new_key(ACTIVATION_DELAY)
        await self._rewrap_rows(await self._data_keys())
        async with self._context.change(actor, "rotateEncryptionKeys", _ADMINISTER) as tx:
            await tx[DataKeyStore].add(key)
            tx.audit(self._kek.name, key.id)
            tx.publish(SECRET)
        await self.load()
        return key

    async def state(self, actor: Actor) -> KeyState:
        """All data keys, and the number of values that still have to be re-encrypted."""
        require(actor, *_ADMINISTER)
        async with self._context.store.read() as tx:
            rows = sorted(await tx[DataKeyStore].all(), key=lambda row: row.begins_at)
            outdated = 0
            for table in tx[SealedTables].all():
                outdated += len([row_id async for row_id in self._outdated_ids(table)])
        current = self._newest_active(rows)
        return KeyState(tuple(rows), current, outdated, self._kek.name, self._undecryptable)

    async def reseal(self) -> int:
        """Re-encrypts values that an older key sealed; returns their number.

        Values that cannot be decrypted stay unchanged and are listed by `state`.
        """
        async with self._context.store.read() as tx:
            outdated = [
                [id async for id in self._outdated_ids(table)] for table in tx[SealedTables].all()
            ]
        undecryptable: list[str] = []
        for number, ids in enumerate(outdated):
            for start in range(0, len(ids), _BATCH):
                async with self._context.store.write() as tx:
                    table = tx[SealedTables].all()[number]
                    undecryptable += await self._reseal_rows(table, ids[start : start + _BATCH])
        self._undecryptable = tuple(undecryptable)
        if undecryptable:
            log.error(
                "cannot re-encrypt values: decryption failed", values=undecryptable[:_MAX_LOGGED]
            )
        return sum(map(len, outdated)) - len(undecryptable)

    async def close(self) -> None:
        """Closes the connections of all key-encryption keys."""
        for kek in self._keks.values():
            await kek.close()

    async def _data_keys(self) -> list[DataKey]:
        async with self._context.store.read() as tx:
            return await tx[DataKeyStore].all()

    def _newest_active(self, rows: Collection[DataKey]) -> DataKey | None:
        """The key that seals new values; None before the first one."""
        active = [row for row in rows if row.begins_at <= self._context.clock.now()]
        return max(active, key=lambda row: (row.begins_at, row.id), default=None)

    async def _outdated_ids(self, table: SealedTable) -> AsyncIterator[str]:
        for row in await table.rows.all():
            if table.is_behind(self._context.sealer, row):
                yield row.id

    async def _reseal_rows(self, table: SealedTable, ids: Collection[str]) -> list[str]:
        """Re-encrypts some values; skips those that were written meanwhile.

        Returns the names of values that cannot be decrypted.
        """
        sealer, undecryptable = self._context.sealer, []
        changes: dict[str, Mapping[str, object]] = {}
        for row in await table.rows.lock(ids):
            try:
                if table.is_behind(sealer, row):
                    changes[row.id] = table.resealed(sealer, row)
            except (TowlineError, ValueError):
                undecryptable.append(f"{table.noun} {getattr(row, 'name', row.id)}")
        await table.rows.change_each(changes)
        return undecryptable

    async def _new_key(self, delay: timedelta) -> DataKey:
        now = self._context.clock.now()
        row = DataKey(self._context.new_id(), b"", self._kek.name, now, now + delay)
        return await self._wrap(row, secrets.token_bytes(32))

    async def _wrap(self, row: DataKey, key: bytes) -> DataKey:
        """The row with the key, wrapped by the current key-encryption key, and unwrapped again.

        Without that check, a broken hook would destroy all values that the key encrypts.
        """
        wrapped = await self._kek.wrap(key, row.context)
        row = replace(row, wrapped=wrapped, kek=self._kek.name)
        if await self._unwrap(row) != key:
            raise Unavailable(f"{self._kek.name} returned another key than the one that it wrapped")
        return row

    async def _unwrap(self, row: DataKey) -> bytes:
        kek = self._keks.get(row.kek)
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
            after = await self._wrap(row, await self._unwrap(row))
            async with self._context.store.write() as tx:
                await tx[DataKeyStore].set_wrapped(row.id, after.wrapped, after.kek)
        return len(rows)
