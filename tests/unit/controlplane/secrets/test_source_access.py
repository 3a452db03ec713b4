"""External sources of secrets: who may name one, and what is read for it."""

import base64
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from controlplane.access.model.users import UserKind
from controlplane.authorization import BUILT_IN, Actor, Grant, Policy
from controlplane.secrets.model.secret_source import ExternalSecretStores, SecretSource
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.secrets.ports import SecretStore
from controlplane.secrets.sources.environment import EnvironmentSource
from controlplane.secrets.sources.kubernetes import KubernetesSource
from controlplane.secrets.sources.vault import VaultSource
from core.errors import Forbidden, Invalid, NotFound, TowlineError, Unavailable
from core.json_object import JsonObject
from tests.fakes.access import USER_MANAGER, bind, make_user
from tests.fakes.actors import ADMIN, EDITOR
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

READER = replace(make_user("reader"), kind=UserKind.SERVICE_ACCOUNT)
IN_CLUSTER = KubernetesSource("dev", "shop/db", "password", "reader")
EDITS = Grant(BUILT_IN["editor"])
MANAGER = replace(USER_MANAGER, policy=Policy((*USER_MANAGER.policy.grants, EDITS)))
BRIEF_EDITOR = Grant(BUILT_IN["editor"], expires_at=START + timedelta(hours=1))


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(READER, make_user("ada"), bind("editor", READER))
    return world


@pytest.mark.parametrize(
    ("actor", "source", "error"),
    [
        (EDITOR, EnvironmentSource("DB"), Forbidden),
        (MANAGER, EnvironmentSource("DB"), Forbidden),
        (ADMIN, EnvironmentSource("DB"), None),
        (EDITOR, IN_CLUSTER, Forbidden),
        (ADMIN, IN_CLUSTER, None),
        (MANAGER, IN_CLUSTER, None),
        (ADMIN, replace(IN_CLUSTER, reader_id="ada"), Invalid),
        (ADMIN, replace(IN_CLUSTER, reader_id="none"), Invalid),
        (EDITOR, VaultSource("prod", "db", "password"), None),
        (EDITOR, VaultSource("prod", "../bank/db", "password"), Invalid),
        (EDITOR, VaultSource("prod", "shop//db", "password"), Invalid),
    ],
)
async def test_a_source_needs_the_rights_of_who_reads_it(
    world: MemoryOperations, actor: Actor, source: SecretSource, error: type[TowlineError] | None
) -> None:
    """Variables belong to all projects, and a service account reads with its own permissions."""
    secrets = Secrets(world.context)
    if error is not None:
        with pytest.raises(error):
            await secrets.save(actor, "db", SecretChange(source=source))
        assert await world.rows(SecretStore) == []
        return
    secret = await secrets.save(actor, "db", SecretChange(source=source))
    assert secret.source == source


async def test_a_reader_keeps_no_rights_longer_than_who_names_it(world: MemoryOperations) -> None:
    brief = replace(MANAGER, policy=Policy((*USER_MANAGER.policy.grants, BRIEF_EDITOR)))
    secrets = Secrets(world.context)
    with pytest.raises(Forbidden, match="no longer than you have them"):
        await secrets.save(brief, "db", SecretChange(source=IN_CLUSTER))


@dataclass
class Stores:
    """Implements `LiveObjects` and a Vault with fixed answers; lists what was asked."""

    answer: JsonObject = field(default_factory=dict)
    asked: list[object] = field(default_factory=list)

    async def read(self, actor: Actor, cluster: str, path: str) -> JsonObject:
        self.asked.append((actor.id, cluster, path))
        return self.answer

    async def value(self, path: str, key: str, project: str) -> bytes:
        self.asked.append((path, key, project))
        return b"of a vault"

    async def close(self) -> None:
        return None

    def sources(self, prefix: str = "SECRET_", *, live: bool = True) -> ExternalSecretStores:
        async def actor_of(id: str) -> Actor:
            return replace(EDITOR, id=id)

        environ = {"SECRET_DB": "of a variable", "HOME": "/root", "SECRET_": "nothing"}
        vaults = {"prod": self}
        return ExternalSecretStores(
            vaults,
            environ,
            prefix,
            actor_of,
            self if live else None,  # ty: ignore[invalid-argument-type]
        )


def encoded(value: bytes) -> JsonObject:
    return {"data": {"password": base64.b64encode(value).decode()}}


async def test_each_source_is_read_from_its_store() -> None:
    stores = Stores(encoded(b"of a cluster"))
    sources = stores.sources()
    for source, value in (
        (EnvironmentSource("DB"), b"of a variable"),
        (IN_CLUSTER, b"of a cluster"),
        (VaultSource("prod", "db", "password"), b"of a vault"),
    ):
        assert await sources.read(source, "shop") == value
    assert stores.asked == [
        ("reader", "dev", "/api/v1/namespaces/shop/secrets/db"),
        ("db", "password", "shop"),
    ]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (EnvironmentSource("NONE"), NotFound),
        (EnvironmentSource("../HOME"), Invalid),
        (EnvironmentSource(""), Invalid),
        (VaultSource("dev", "db", "password"), NotFound),
        (replace(IN_CLUSTER, path="shop"), Invalid),
        (replace(IN_CLUSTER, path="shop/DB"), Invalid),
        (replace(IN_CLUSTER, path="shop/db/../../../pods"), Invalid),
        (replace(IN_CLUSTER, path="Shop/db"), Invalid),
        (replace(IN_CLUSTER, path="shop/db?watch=1"), Invalid),
        (replace(IN_CLUSTER, data_key="other"), NotFound),
    ],
)
async def test_a_source_that_names_no_value_is_refused(
    source: SecretSource, error: type[TowlineError]
) -> None:
    """With its place in the message, and without a request beyond it."""
    stores = Stores(encoded(b"x"))
    with pytest.raises(error) as refused:
        await stores.sources().read(source, "shop")
    assert refused.value.message.startswith(f"{source}: ")
    assert len(stores.asked) == (error is NotFound and isinstance(source, KubernetesSource))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({}, NotFound),
        ({"data": []}, NotFound),
        ({"data": {"password": 7}}, NotFound),
        ({"data": {"password": "not base64!"}}, Unavailable),
    ],
)
async def test_an_odd_answer_of_a_cluster_is_no_value(
    answer: JsonObject, error: type[TowlineError]
) -> None:
    with pytest.raises(error):
        await Stores(answer).sources().read(IN_CLUSTER, "shop")


async def test_a_store_that_this_process_lacks_is_not_read() -> None:
    """Without a prefix, no variable is: the environment has keys of the control plane."""
    for variable in ("HOME", "SECRET_DB"):
        with pytest.raises(Invalid, match="see the setting"):
            await Stores().sources("").read(EnvironmentSource(variable), "shop")
    with pytest.raises(Unavailable, match="no access to clusters"):
        await Stores().sources(live=False).read(IN_CLUSTER, "shop")
