"""Secrets and configuration flow by the API: what goes in, and what never comes out."""

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.api.schema import schema
from controlplane.authorization import ANONYMOUS, SYSTEM
from controlplane.compose import ControlPlane, OutsidePorts
from controlplane.configuration.operations.contexts import ServiceContexts
from controlplane.configuration.operations.flows import ConfigurationFlow
from controlplane.platform.graphql.context import Context
from controlplane.secrets.operations.keys import DataKeyOperations
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.secrets import Secrets
from controlplane.settings import ControlPlaneSettings, KekSettings, SecretSettings
from core.errors import Invalid, Unauthenticated
from tests import migrated
from tests.fakes.clock import FakeClock
from tests.fakes.control_plane import built
from tests.fakes.manifests import FakeManifests
from tests.integration.controlplane.test_access import Untouchable

CANARY = "canary-e5a9-of-the-api"
KEK = KekSettings.model_validate({"kind": "environment", "value": "a2tr" * 10 + "a2s="})
EVERYTHING = """{
    secret(name: "db") { name currentVersion newestVersion problem source { kind } rotation {
        phase oldVersion newVersion batch soakSeconds automatic reason } }
    secrets { edges { node { id name } } }
    encryptionKeys { kek currentId outdated keys { kek } }
}"""


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """A control plane whose keys are wrapped by one of the environment; its files are watched."""
    migrated.put_sqlite(tmp_path)
    settings = ControlPlaneSettings(data_dir=tmp_path, secrets=SecretSettings(kek=KEK))
    async with built(settings, OutsidePorts(FakeManifests()), FakeClock()) as made:
        yield made


async def ask(plane: ControlPlane, document: str, **variables: Any) -> Any:
    """The data; or what the first error says."""
    context = Context(plane.api, caller=SYSTEM)
    result = await schema.execute(document, variables, context_value=context)
    return str(result.errors[0].message) if result.errors else result.data


async def test_values_go_in_and_never_come_out(plane: ControlPlane) -> None:
    """By text or base64; the watch over canaries looks at each answer and at the store's files."""
    save = """mutation ($text: String, $base64: String) {
        saveSecret(name: "db", attributes: {
            value: $text, valueBase64: $base64, rotation: { batch: 2 }
        }) { id name newestVersion }
    }"""
    first = await ask(plane, save, text=CANARY)
    assert first["saveSecret"]["newestVersion"] == 1
    await ask(plane, save, base64="c2Vjb25k")
    found = await ask(plane, EVERYTHING)
    rotation = found["secret"]["rotation"]
    assert (rotation["phase"], rotation["batch"], rotation["newVersion"]) == ("ROLLING", 2, 2)
    keys = found["encryptionKeys"]
    assert keys["currentId"] and keys["outdated"] == 0 and keys["kek"].startswith("local:")
    versions = await ask(
        plane, "query ($id: ID!) { secretVersions(id: $id) { number actor revokedAt } }",
        id=first["saveSecret"]["id"],
    )  # fmt: skip
    assert [one["number"] for one in versions["secretVersions"]] == [2, 1]


async def test_every_verb_decides_before_it_looks(plane: ControlPlane) -> None:
    """No verb on secrets, keys, contexts and flow touches the store for a stranger."""
    kinds = (Secrets, DataKeyOperations, SecretRefresher, ServiceContexts, ConfigurationFlow)
    groups = [plane.operations[kind] for kind in kinds]
    verbs = [
        method
        for group in groups
        for name, method in inspect.getmembers(group, inspect.iscoroutinefunction)
        if not name.startswith("_") and "actor" in inspect.signature(method).parameters
    ]
    assert len(verbs) >= 20
    store = plane.context.store
    object.__setattr__(plane.context, "store", Untouchable())
    try:
        for verb in verbs:
            named = inspect.signature(verb).parameters.values()
            needed = [one for one in named if one.default is inspect.Parameter.empty]
            given = [ANONYMOUS if one.name == "actor" else None for one in needed]
            with pytest.raises(Unauthenticated):
                await verb(*given)
    finally:
        object.__setattr__(plane.context, "store", store)


REFUSED = (
    ('{value: "x", valueBase64: "eA=="}', "either"),
    ('{valueBase64: "?"}', "base64"),
    ('{value: ""}', "empty"),
    ('{value: "x", rotation: {batch: 1001}}', "1 to 1,000, not 1,001"),
    ('{source: {kind: VAULT, key: "x"}}', "requires store"),
    ('{source: {kind: KUBERNETES, key: "x", store: "dev", path: "a/b"}}', "requires readerId"),
    ("{refreshSeconds: 1}", "10 to"),
)


async def test_invalid_secrets_are_refused_with_the_reason(plane: ControlPlane) -> None:
    await ask(plane, 'mutation { saveSecret(name: "db", attributes: {value: "old"}) { id } }')
    for attributes, why in REFUSED:
        document = f'mutation {{ saveSecret(name: "db", attributes: {attributes}) {{ id }} }}'
        assert why in await ask(plane, document), attributes


async def test_a_store_starts_only_with_its_own_key(plane: ControlPlane, tmp_path: Path) -> None:
    """Another key-encryption key is refused, and the message says which one is missing."""
    settings = ControlPlaneSettings(data_dir=tmp_path)
    with pytest.raises(Invalid, match="not configured"):
        async with built(settings, OutsidePorts(FakeManifests()), FakeClock()):
            pass
    previous = SecretSettings(previous=(KEK,))
    again = ControlPlaneSettings(data_dir=tmp_path, secrets=previous)
    keys = "{ encryptionKeys { kek keys { kek } } }"
    async with built(again, OutsidePorts(FakeManifests()), FakeClock()) as other:
        found = (await ask(other, keys))["encryptionKeys"]
        assert found["kek"] != (await ask(plane, keys))["encryptionKeys"]["kek"]
        assert [one["kek"] for one in found["keys"]] == [found["kek"]]
