"""Values that are kept elsewhere: read when due, named when they fail, the last good one kept."""

import base64
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from controlplane.authorization import DEFAULT_PROJECT, Actor
from controlplane.secrets.backends.vault import KvStore, Vault
from controlplane.secrets.model.secret_source import ExternalSecretStores, SecretSource
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.secrets.ports import SecretVersionStore
from controlplane.secrets.sources.environment import EnvironmentSource
from controlplane.secrets.sources.kubernetes import KubernetesSource
from controlplane.secrets.sources.vault import VaultSource
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from tests.fakes.vault import TOKEN, FakeVault, running_vault
from tests.integration.controlplane.conftest import Role, World, person

PATH = f"{DEFAULT_PROJECT}/db"
VAULT = VaultSource("prod", "db", "password")


class Cluster:
    """A cluster with one Secret, which only the reader may see."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []

    async def read(self, actor: Actor, handle: str, path: str) -> Mapping[str, Any]:
        self.asked.append((actor.id, handle, path))
        if not path.endswith("/namespaces/shop/secrets/db"):
            raise NotFound("secrets not found")
        return {"data": {"password": base64.b64encode(b"of the cluster").decode()}}


@dataclass
class Elsewhere:
    """The places where values are kept, and the verbs that read them."""

    world: World
    vault: FakeVault
    cluster: Cluster
    sources: ExternalSecretStores

    def __post_init__(self) -> None:
        self.refreshing = SecretRefresher(self.world.deps, self.sources)
        self.secrets = Secrets(self.world.deps)

    async def look(self) -> None:
        for id in await self.refreshing.due():
            await self.refreshing.refresh(id)

    async def value(self, name: str = "db") -> bytes | None:
        """The current value, and that the secret is fine where it has one."""
        secret = await self.secrets.get(self.world.admin, None, name)
        async with self.world.deps.store.read() as tx:
            row = await tx[SecretVersionStore].numbered(secret.id, secret.current)
        return self.world.deps.sealer.open(row.sealed, row.context) if row and row.sealed else None


@pytest.fixture
async def elsewhere(world: World) -> AsyncIterator[Elsewhere]:
    async with running_vault() as vault:
        store = KvStore(Vault(vault.url, TOKEN, title="vault prod"), prefix="{project}")
        environ = {"SHARED_DB": "of the environment", "HOME": "/"}
        cluster = Cluster()
        sources = ExternalSecretStores(
            {"prod": store}, environ, "SHARED_", world.identity.actor_of, cluster
        )
        yield Elsewhere(world, vault, cluster, sources)
        await sources.close()


async def test_a_value_of_vault_is_read_again_when_it_is_due(elsewhere: Elsewhere) -> None:
    """Each change once; what is the same again is no version."""
    world = elsewhere.world
    elsewhere.vault.secrets[PATH] = {"password": "first"}
    await elsewhere.secrets.save(world.admin, "db", SecretChange(source=VAULT, refresh_s=60))
    await elsewhere.look()
    assert await elsewhere.value() == b"first"
    elsewhere.vault.secrets[PATH] = {"password": "second"}
    await elsewhere.look()
    assert await elsewhere.value() == b"first"
    for _ in range(2):
        await world.clock.advance(60)
        await elsewhere.look()
    secret = await elsewhere.secrets.get(world.admin, None, "db")
    assert (await elsewhere.value(), secret.current) == (b"second", 2)
    assert secret.refreshed_at == world.clock.now()


async def test_the_last_good_value_stays_while_the_source_is_away(elsewhere: Elsewhere) -> None:
    """And the secret says which source and reference fail."""
    world = elsewhere.world
    elsewhere.vault.secrets[PATH] = {"password": "first"}
    secret = await elsewhere.secrets.save(world.admin, "db", SecretChange(source=VAULT))
    await elsewhere.look()
    elsewhere.vault.sealed = True
    await elsewhere.refreshing.request(world.admin, secret.id)
    await elsewhere.look()
    assert await elsewhere.value() == b"first"
    problem = (await elsewhere.secrets.get(world.admin, secret.id)).problem
    assert problem == "vault:prod/db#password: vault prod answered 503"
    elsewhere.vault.sealed = False
    await world.clock.advance(secret.refresh_s)
    await elsewhere.look()
    assert (await elsewhere.secrets.get(world.admin, secret.id)).problem == ""


async def test_two_replicas_read_a_source_once(elsewhere: Elsewhere) -> None:
    elsewhere.vault.secrets[PATH] = {"password": "first"}
    await elsewhere.secrets.save(elsewhere.world.admin, "db", SecretChange(source=VAULT))
    (id,) = await elsewhere.refreshing.due()
    await elsewhere.refreshing.refresh(id)
    await SecretRefresher(elsewhere.world.deps, elsewhere.sources).refresh(id)
    assert len(elsewhere.vault.asked) == 1


async def test_a_project_reads_below_its_own_path_only(elsewhere: Elsewhere) -> None:
    elsewhere.vault.secrets["other/db"] = {"password": "of another project"}
    source = VaultSource("prod", "../other/db", "password")
    with pytest.raises(Invalid, match=r"\.\."):
        await elsewhere.secrets.save(elsewhere.world.admin, "db", SecretChange(source=source))


async def test_a_secret_of_a_cluster_is_read_as_a_service_account(elsewhere: Elsewhere) -> None:
    world, cluster = elsewhere.world, elsewhere.cluster
    account = await world.accounts.create(world.admin, "reader")
    source = KubernetesSource("dev", "shop/db", "password", account.id)
    await elsewhere.secrets.save(world.admin, "db", SecretChange(source=source))
    await elsewhere.look()
    assert await elsewhere.value() == b"of the cluster"
    assert cluster.asked == [(account.id, "dev", "/api/v1/namespaces/shop/secrets/db")]
    person_id = KubernetesSource("dev", "shop/db", "password", "nobody")
    with pytest.raises(Invalid, match="service account"):
        await elsewhere.secrets.save(world.admin, "x", SecretChange(source=person_id))
    with pytest.raises(Forbidden):
        await elsewhere.secrets.save(person(Role.EDITOR, "bob"), "x", SecretChange(source=source))


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (KubernetesSource("dev", "shop/a/b", "k", "x"), "namespace/name"),
        (KubernetesSource("dev", "shop/DB?x=1", "k", "x"), "namespace/name"),
        (VaultSource("test", "db", "k"), "no Vault 'test'"),
        (VaultSource("prod", "db", "k"), "404"),
        (EnvironmentSource("GONE"), "has no SHARED_GONE"),
        (EnvironmentSource("A=B"), "environment variables are not readable"),
    ],
    ids=lambda one: str(one)[:30],
)
async def test_an_unreadable_secret_source_is_named(
    elsewhere: Elsewhere, source: SecretSource, why: str
) -> None:
    """The message begins with source and reference."""
    with pytest.raises((Invalid, NotFound), match=why) as failed:
        await elsewhere.sources.read(source, DEFAULT_PROJECT)
    assert failed.value.message.startswith(f"{source}: ")


async def test_the_environment_is_read_for_who_administers_all(elsewhere: Elsewhere) -> None:
    """It belongs to all projects; names without the prefix cannot be asked for."""
    world = elsewhere.world
    change = SecretChange(source=EnvironmentSource("DB"))
    with pytest.raises(Forbidden):
        await elsewhere.secrets.save(person(Role.EDITOR, "bob"), "db", change)
    await elsewhere.secrets.save(world.admin, "db", change)
    await elsewhere.look()
    assert await elsewhere.value() == b"of the environment"


async def test_a_value_given_by_hand_ends_the_source(elsewhere: Elsewhere) -> None:
    world = elsewhere.world
    secret = await elsewhere.secrets.save(world.admin, "db", SecretChange(source=VAULT))
    await elsewhere.secrets.save(world.admin, "db", SecretChange(b"by hand"))
    assert await elsewhere.refreshing.due() == []
    with pytest.raises(Conflict, match="no source"):
        await elsewhere.refreshing.request(world.admin, secret.id)
    with pytest.raises(
        Invalid, match="specify one of a value, a sealed value, a source and generate"
    ):
        await elsewhere.secrets.save(world.admin, "db", SecretChange(b"x", source=VAULT))


async def test_a_vault_is_never_a_metadata_service() -> None:
    vault = Vault("https://169.254.169.254", "canary-51c2-vault")
    with pytest.raises(Unavailable, match="link-local or special"):
        await vault.read("secret/data/shop")
    await vault.close()
