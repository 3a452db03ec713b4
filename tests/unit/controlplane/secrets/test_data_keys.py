"""Keys that encrypt the store: creation, rotation, and values that older keys sealed."""

from dataclasses import replace

import pytest

from controlplane.authorization import ANONYMOUS
from controlplane.platform.context import SECRET
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.secrets.model.data_keys import DataKey
from controlplane.secrets.operations.keys import ACTIVATION_DELAY, DataKeyOperations
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.secrets.ports import DataKeyStore, KeyEncryption, SecretVersionStore
from core.errors import Forbidden, Invalid, TowlineError, Unauthenticated, Unavailable
from tests.fakes.actors import ADMIN, EDITOR
from tests.fakes.operations import MemoryOperations, operations_over_memory

DELAY = ACTIVATION_DELAY.total_seconds()


class FakeKek:
    """A key-encryption key that turns keys round, and binds them to their context."""

    def __init__(self, name: str = "local") -> None:
        self.name = name
        self.returned: bytes | None = None
        self.is_closed = False

    async def wrap(self, key: bytes, context: str) -> bytes:
        return f"{self.name}:{context}:".encode() + key[::-1]

    async def unwrap(self, wrapped: bytes, context: str) -> bytes:
        head = f"{self.name}:{context}:".encode()
        if not wrapped.startswith(head):
            raise Unavailable("wrapped for another row")
        return wrapped.removeprefix(head)[::-1] if self.returned is None else self.returned

    async def close(self) -> None:
        self.is_closed = True


class Installation:
    """A store whose values data keys encrypt; `replica` is another process with that store."""

    def __init__(self, world: MemoryOperations) -> None:
        self.world, self.kek = world, FakeKek()
        self.keys = self.replica(self.kek, world.context.sealer)

    def replica(
        self, kek: FakeKek, sealer: object = None, previous: dict[str, KeyEncryption] | None = None
    ) -> DataKeyOperations:
        ring = sealer if isinstance(sealer, EnvelopeSealer) else EnvelopeSealer(b"k" * 32)
        context = replace(self.world.context, sealer=ring)
        return DataKeyOperations(context, ring, kek, previous)

    async def rows(self) -> list[DataKey]:
        return await self.world.rows(DataKeyStore)

    async def outdated(self) -> int:
        return (await self.keys.state(ADMIN)).outdated


@pytest.fixture
async def installation() -> Installation:
    made = Installation(operations_over_memory())
    await made.keys.begin()
    assert await made.keys.load()
    return made


async def test_the_first_key_seals_at_once(installation: Installation) -> None:
    """A second start makes no other one, and changes nothing."""
    await installation.keys.begin()
    assert not await installation.keys.load()
    (row,) = await installation.rows()
    assert row.begins_at == row.inserted_at and row.kek == "local"
    state = await installation.keys.state(ADMIN)
    assert (state.keys, state.current, state.outdated, state.kek) == ((row,), row, 0, "local")
    assert row.wrapped not in repr(row).encode()


async def test_a_new_key_seals_when_every_replica_has_it(installation: Installation) -> None:
    """Until then the old one does; each replica opens the values of both."""
    world = installation.world
    other_ring = EnvelopeSealer(b"k" * 32)
    other = installation.replica(installation.kek, other_ring)
    await other.load()
    (old,) = await installation.rows()
    new = await installation.keys.rotate(ADMIN)
    assert new.begins_at == world.clock.now() + ACTIVATION_DELAY
    assert await world.audited() == [(ADMIN.email, "rotateEncryptionKeys", "local")]
    assert world.published == [(SECRET, "")]
    assert not await other.load()
    early = world.context.sealer.seal(b"early", "c")
    assert other_ring.is_current(early) and (await installation.keys.state(ADMIN)).current == old
    await world.clock.advance(DELAY - 1)
    assert not await installation.keys.load()
    await world.clock.advance(1)
    assert await installation.keys.load()
    assert (await installation.keys.state(ADMIN)).current == new
    late = world.context.sealer.seal(b"late", "c")
    assert not world.context.sealer.is_current(early)
    assert [other_ring.open(sealed, "c") for sealed in (early, late)] == [b"early", b"late"]


async def test_only_an_administrator_of_the_installation_rotates_and_sees_keys(
    installation: Installation,
) -> None:
    for actor, error in ((EDITOR, Forbidden), (ANONYMOUS, Unauthenticated)):
        for act in (installation.keys.rotate, installation.keys.state):
            with pytest.raises(error):
                await act(actor)
    assert len(await installation.rows()) == 1 and await installation.world.audited() == []


async def test_values_of_an_older_key_are_sealed_again(installation: Installation) -> None:
    """Each keeps its value, and is bound to its row; one that nobody can open stays as it is."""
    world = installation.world
    secrets = Secrets(world.context)
    for name in ("one", "two", "lost"):
        last = await secrets.save(EDITOR, name, SecretChange(name.encode()))
    (lost,) = await world.rows(SecretVersionStore, secret_id=last.id)
    assert lost.sealed is not None
    broken = lost.sealed[:-1] + bytes([lost.sealed[-1] ^ 1])
    async with world.store.write() as tx:
        await tx[SecretVersionStore].change(lost.id, sealed=broken)
    assert (await installation.outdated(), await installation.keys.reseal()) == (0, 0)
    await installation.keys.rotate(ADMIN)
    await world.clock.advance(DELAY)
    await installation.keys.load()
    assert await installation.outdated() == 3
    assert await installation.keys.reseal() == 2
    state = await installation.keys.state(ADMIN)
    assert state.outdated == 1 and len(state.undecryptable) == 1
    sealer = world.context.sealer
    opened = []
    for row in await world.rows(SecretVersionStore):
        sealed = row.sealed or b""
        if row.id == lost.id:
            assert sealed == broken
            continue
        assert sealer.is_current(sealed)
        opened.append(sealer.open(sealed, row.context))
    assert sorted(opened) == [b"one", b"two"]
    async with world.store.write() as tx:
        await tx[SecretVersionStore].remove(lost.id)
    assert await installation.keys.reseal() == 0
    assert (await installation.keys.state(ADMIN)).undecryptable == ()


async def test_another_key_encryption_key_takes_over(installation: Installation) -> None:
    """Data keys stay the same. Only those of older ones are wrapped again."""
    sealed = installation.world.context.sealer.seal(b"value", "c")
    vault, ring = FakeKek("vault"), EnvelopeSealer(b"k" * 32)
    moved = installation.replica(vault, ring, {"local": installation.kek})
    await moved.load()
    assert await moved.rewrap() == 1 and await moved.rewrap() == 0
    (row,) = await installation.rows()
    assert row.kek == "vault" and row.wrapped.startswith(b"vault:")
    alone = EnvelopeSealer(b"k" * 32)
    await installation.replica(vault, alone).load()
    assert alone.open(sealed, "c") == b"value"
    with pytest.raises(Invalid, match=r"wrapped by vault, .* add it to secrets\.previous"):
        await installation.replica(installation.kek).load()
    await moved.close()
    assert vault.is_closed and installation.kek.is_closed


async def test_a_rotation_wraps_all_keys_with_the_present_one(installation: Installation) -> None:
    vault = FakeKek("vault")
    moved = installation.replica(vault, previous={"local": installation.kek})
    await moved.rotate(ADMIN)
    assert {row.kek for row in await installation.rows()} == {"vault"}


@pytest.mark.parametrize(
    ("returned", "reason"),
    [(b"x" * 32, "returned another key"), (b"short", "a key of 5 bytes, but 32")],
)
async def test_a_broken_key_encryption_key_destroys_nothing(
    installation: Installation, returned: bytes, reason: str
) -> None:
    """Without this check, nobody could open what the key seals."""
    before = await installation.rows()
    broken = FakeKek("broken")
    broken.returned = returned
    operations = installation.replica(broken, previous={"local": installation.kek})
    for act in (operations.rewrap(), operations.rotate(ADMIN)):
        with pytest.raises(Unavailable, match=reason):
            await act
    assert await installation.rows() == before
    empty = Installation(operations_over_memory())
    with pytest.raises(TowlineError, match=reason):
        await empty.replica(broken).begin()
    assert await empty.rows() == []
