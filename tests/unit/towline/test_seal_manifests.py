"""`towline secrets seal-manifests` seals for the places in which the control plane opens."""

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.notifications.operations.sinks import Sinks
from controlplane.notifications.ports import SinkStore
from core.errors import Invalid
from tests.fakes.manifest_world import ManifestWorld, document, manifest_world
from towline.cli.secrets.seal_manifests import sealed_text

REPOSITORY = "https://git.example.org/fleet.git"
SIGNING = "whsec_Y2FuYXJ5LTUxZDMtb3R0ZXItYW5kLW1vcmU="
STEP = {"kind": "HTTP", "http": {"url": "https://gate.example.org", "secret": SIGNING}}
GATE = {"kind": "EXTERNAL", "account": "ci@example.org", "secret": SIGNING}
BASE = (
    document("Project", "shop")
    + document("ServiceAccount", "ci@example.org")
    + document("Cluster", "eu-1")
)
SECRETS = (
    document(
        "GitRepository",
        REPOSITORY,
        {
            "username": "ci",
            "password": "canary-51d4-otter",
            "proxy": "http://canary-51d4-otter@proxy.example.org:3128",
            "viaCluster": "eu-1",
        },
    )
    + document("HelmRepository", "https://charts.example.org", {"password": "canary-51d4-otter"})
    + document(
        "OCIRepository", "oci://registry.example.org/shop", {"password": "canary-51d4-otter"}
    )
    + document("Context", "common", {"secrets": {"a": "canary-51d4-otter", "b/c": "two\nlines"}})
    + document("Secret", "db", {"value": "canary-51d4-otter"}, project="shop")
    + document(
        "NotificationSink",
        "hook",
        {
            "settings": {
                "kind": "SLACK",
                "slack": {"url": "https://hooks.example.org/canary-51d4-otter"},
            }
        },
    )
    + document(
        "NotificationSink",
        "statuses",
        {
            "settings": {
                "kind": "GITHUB",
                "commitStatus": {
                    "repository": REPOSITORY,
                    "token": "canary-51d4-otter",
                    "apiUrl": "https://api.example.org",
                },
            }
        },
        project="shop",
    )
    + document("Service", "web", {"namespace": "a", "repository": REPOSITORY}, cluster="eu-1")
    + document("Service", "two", {"namespace": "a", "repository": REPOSITORY}, cluster="eu-1")
    + document(
        "Pipeline",
        "main",
        {
            "stages": [
                {"name": "one", "services": ["eu-1/web"]},
                {
                    "name": "two",
                    "services": ["eu-1/two"],
                    "workflow": {
                        "name": "flow",
                        "rule": {"kind": "WORKFLOW", "steps": [{"name": "ask", "rule": STEP}]},
                    },
                },
            ],
            "edges": [
                {"source": "one", "target": "two", "gates": [{"name": "check", "rule": GATE}]}
            ],
            "triggers": [
                {
                    "name": "tags",
                    "rule": {"kind": "TAG", "range": ">=1"},
                    "webhookSecret": "canary-51d4-otter",
                }
            ],
        },
    )
)


def sealed(world: ManifestWorld, text: str, file: Path = Path("a.yaml")) -> str:
    key = world.memory.context.sealer.manifest_key.public

    def schema(kind: str) -> Any:
        return json.loads(json.dumps(world.manifests.schema(kind)))

    return sealed_text(key, schema, file, text)


async def test_the_control_plane_opens_every_value() -> None:
    world = manifest_world()
    assert (await world.apply(BASE)).problems == ()
    text = sealed(world, SECRETS)
    assert text.count("sealed: v1.") == 13 and "canary" not in text and SIGNING not in text
    assert (await world.apply(text)).problems == ()
    exported = await world.export()
    assert exported.count("sealed: v1.") == 13
    for row in await world.memory.rows(SinkStore):
        assert "canary-51d4-otter" in str(vars_of(world.operations[Sinks].settings_of(row)))


def vars_of(settings: Any) -> list[object]:
    return [getattr(settings, name) for name in type(settings).__dataclass_fields__]


async def test_values_come_from_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", "canary-51d5-otter")
    (tmp_path / "hook").write_text("secret-of-the-hook-1234")
    text = "# kept\n" + document(
        "GitRepository", REPOSITORY,
        {"password": {"env": "PASSWORD"}, "webhookSecret": {"file": "hook"}},
    )  # fmt: skip
    world = manifest_world()
    found = sealed(world, text, tmp_path / "a.yaml")
    assert found.startswith("# kept\n") and found.count("\n") == text.count("\n")
    assert (await world.apply(found)).problems == ()
    # What is sealed already stays as it is.
    with pytest.raises(Invalid, match="no plain secrets"):
        sealed(world, found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (document("Cluster", "eu-1"), "no plain secrets"),
        (document("GitRepository", REPOSITORY, {"password": ""}), "a.yaml:7: the value is empty"),
        (
            "kind: GitRepository\nspec: {password: a}\n",
            "a.yaml:2: the document has no metadata.name",
        ),
        (document("GitRepository", REPOSITORY, {"password": {"env": "NONE"}}), "NONE is not set"),
    ],
)
def test_what_cannot_be_sealed_is_named(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        sealed(manifest_world(), text)
