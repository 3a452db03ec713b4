"""Secrets that SOPS has encrypted are opened by the agent, and only in its cluster in the clear."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.age import AgeIdentity
from core.spec.bundle import KubeObject
from core.spec.status import Phase
from gitcache.render.manifests import read_manifests
from syncagent.ports import RequestRefused
from syncagent.state.identities import AgeIdentities
from tests.fakes.engine import Stand
from tests.fakes.sops import IDENTITY, metadata, sealed

VALUE = "canary-63aa-of-a-file"
KEY = ("", "Secret", "prod", "db")
RULE = {"encrypted_regex": "^(data|stringData)$"}


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    made = Stand(tmp_path)
    made.identities = AgeIdentities(given_keys(tmp_path, IDENTITY))
    await made.start()
    yield made
    await made.stop()


def given_keys(folder: Path, *identities: AgeIdentity) -> Path:
    """A file as `age-keygen` writes it."""
    file = folder / "given-keys.txt"
    file.write_text("# created: today\n" + "\n".join(one.text for one in identities))
    return file


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(value: str = VALUE, **more: Any) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "db"},
        "data": {"whole": sealed(f"{in_base64(value)}\n", "data:whole:")},
        "stringData": {"url": sealed(f"postgres://app:{value}@db", "stringData:url:")},
        "sops": metadata("any", **RULE),
    } | more


def said(stand: Stand) -> str:
    """All reports and events."""
    hub = stand.hub
    return repr((hub.statuses, hub.changes, hub.drifts, hub.answers, stand.cluster.events_written))


async def test_the_cluster_has_the_values_and_nobody_else(stand: Stand) -> None:
    """As it lies in git: applied, edited, healed and started anew.

    The watch over canaries looks at the disk.
    """
    lies = yaml.safe_dump(secret(), sort_keys=False).encode()
    (located,) = read_manifests("shop", {"shop/db.yaml": lies})
    bundle = stand.bring([located.kube_object])
    assert bundle.data.count(b"ENC[AES256_GCM,") == 3
    await stand.phase(Phase.HEALTHY)
    expected = {"whole": in_base64(VALUE), "url": in_base64(f"postgres://app:{VALUE}@db")}
    assert stand.cluster.objects[KEY]["data"] == expected
    assert not {"sops", "stringData"} & stand.cluster.objects[KEY].keys()
    stand.cluster.put(stand.cluster.objects[KEY] | {"data": expected | {"url": in_base64("x")}})
    await stand.until(lambda: stand.hub.drifts)
    await stand.until(lambda: stand.cluster.objects[KEY]["data"] == expected)
    await stand.restart()
    await stand.until(lambda: stand.hub.statuses)
    assert not any(form in said(stand) for form in (VALUE, *expected.values()))


async def test_plans_of_new_secret_values_never_contain_them(stand: Stand) -> None:
    first = secret()
    stand.bring([first])
    await stand.phase(Phase.HEALTHY)
    before = stand.cluster.count("apply")
    stand.bring([first])
    await stand.phase(Phase.HEALTHY)
    assert stand.cluster.count("apply") == before
    stand.bring([secret("another-value")], dry_run=True)
    await stand.until(lambda: stand.hub.statuses[-1].planned)
    planned = stand.hub.statuses[-1].planned
    assert planned is not None
    (change,) = planned
    assert {one.pointer for one in change.fields} == {"/data/whole", "/data/url"}
    assert "another-value" not in said(stand) and in_base64("another-value") not in said(stand)


async def test_secret_values_in_api_server_errors_are_masked(stand: Stand) -> None:
    text = f"policy: {in_base64(VALUE)} is too short"
    stand.cluster.fail["db"] = RequestRefused(text, status=403, reason="Forbidden")
    stand.bring([secret()])
    status = await stand.phase(Phase.FAILED)
    assert status.problems[0].message.startswith("policy: *** is too short")


def moved() -> KubeObject:
    """A value that was taken from another place."""
    one = secret()
    return one | {"stringData": {"other": one["stringData"]["url"]}}


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (moved(), "stringData:other cannot be decrypted: it was altered or moved"),
        (secret(stringData={"url": "open"}), "not encrypted, though it should be"),
        (secret(data={"whole": sealed(VALUE, "data:whole:")}), "is not base64"),
        (secret(kind="ConfigMap"), "encrypt the values of Secrets only"),
        (secret(metadata={"name": "db", "labels": {"a": "ENC[AES256_GCM,x]"}}), "Secrets only"),
        (secret(sops={}), "incomplete"),
        (secret(sops=metadata("any", encrypted_regex="^(d|a|t)+$")), "not a list of names"),
    ],
    ids=[
        "moved",
        "in the clear",
        "is not base64",
        "no Secret",
        "a label",
        "no metadata",
        "slow rule",
    ],
)
async def test_an_undecryptable_value_is_reported_and_not_applied(
    stand: Stand, broken: KubeObject, why: str
) -> None:
    stand.bring([broken])
    status = await stand.phase(Phase.FAILED)
    assert why in status.problems[0].message
    assert KEY not in stand.cluster.objects


async def test_a_key_that_comes_later_is_taken_without_a_restart(tmp_path: Path) -> None:
    """Until then the object waits, and says for whom it is encrypted."""
    stand = Stand(tmp_path)
    stranger = given_keys(tmp_path, AgeIdentity.generate())
    stand.identities = AgeIdentities(stranger)
    await stand.start()
    stand.bring([secret()])
    status = await stand.phase(Phase.FAILED)
    assert IDENTITY.recipient in status.problems[0].message
    given_keys(tmp_path, AgeIdentity.generate(), IDENTITY)
    await stand.until(lambda: KEY in stand.cluster.objects)
    await stand.stop()
