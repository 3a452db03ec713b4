"""Messages to agents: which field of a service, and of a command, goes where."""

import base64
from dataclasses import replace

import pytest

from controlplane.agents.link import messages
from controlplane.clusters.model.cluster import AgentMode
from controlplane.clusters.model.commands import Command, CommandKind
from controlplane.services.model.service import Confirmation
from controlplane.services.model.verification import Quarantine
from core.json_object import JsonMapping
from core.spec.fences import ObjectRules, ServiceFence
from core.spec.objects import ObjectRef
from core.spec.sealed_secrets import SealedSecret
from core.spec.sync import Removal
from core.spec.verification import Verification
from core.wire import codec
from core.wire.v1 import agent_pb2 as wire
from tests.fakes.clock import START
from tests.fakes.operations import make_cluster, make_service

EU = make_cluster("eu")
CLAIM = ObjectRef("", "v1", "PersistentVolumeClaim", "shop", "data")
WEB = make_service(
    "web", EU, generation=3, digest="sha256:a", bundle_bytes=10, commit_sha="a" * 40, paused=True,
    verification=Verification(60),
)  # fmt: skip
FENCE = ServiceFence("shop", "shop:deployer", (ObjectRules(("shop",)),), 5)
SECRET = SealedSecret("token", "v1", b"box")


@pytest.mark.parametrize(
    ("size", "kept"), [(0, False), (31, False), (32, True), (33, False), (64, False)]
)
def test_only_a_key_of_the_right_length_seals(size: int, kept: bool) -> None:
    """The agent of an older version has none; any other one would fail at each secret."""
    key = bytes(size)
    hello = messages.hello_from_message(wire.Hello(sealing_key=key))
    assert hello.sealing_key == (key if kept else None)


def test_an_agent_is_managed_unless_it_says_otherwise() -> None:
    modes = [
        messages.hello_from_message(wire.Hello(mode=mode)).mode
        for mode in (wire.MODE_UNSPECIFIED, wire.MODE_MANAGED, wire.MODE_AUTONOMOUS)
    ]
    assert modes == [AgentMode.MANAGED, AgentMode.MANAGED, AgentMode.AUTONOMOUS]


def test_a_service_goes_out_with_its_bundle_its_secrets_and_its_fence() -> None:
    message = messages.desired(WEB, [SECRET], b"bundle", FENCE)
    assert message.spec.bundle == b"bundle"
    desired = codec.desired_from_message(message)
    assert (desired.service_id, desired.sequence, desired.fence) == (WEB.id, 3, FENCE)
    assert (desired.removal, desired.confirmed, desired.lifted) == (None, (), False)
    assert desired.verification == Verification(60)
    spec = desired.spec
    assert spec is not None
    assert (spec.name, spec.namespace, spec.digest, spec.size, spec.commit) == (
        "web",
        "web",
        "sha256:a",
        10,
        "a" * 40,
    )
    assert (spec.secrets, spec.dry_run, spec.paused) == ((SECRET,), False, True)
    empty = codec.desired_from_message(messages.desired(make_service("new", EU))).spec
    assert empty is not None and (empty.digest, empty.commit) == ("", "")


@pytest.mark.parametrize("removal", list(Removal))
def test_a_deleted_service_goes_out_without_its_content(removal: Removal) -> None:
    """Its fence still holds: the agent deletes nothing outside."""
    deleted = replace(WEB, removal=removal, deleted_at=START)
    message = messages.desired(deleted, [SECRET], b"bundle", FENCE)
    desired = codec.desired_from_message(message)
    assert (desired.removal, desired.sequence, desired.fence) == (removal, 3, FENCE)
    assert not message.HasField("spec")


@pytest.mark.parametrize("removal", [None, Removal.CASCADE])
@pytest.mark.parametrize(("generation", "counts"), [(2, False), (3, True), (4, False)])
def test_confirmed_deletions_hold_for_one_generation(
    removal: Removal | None, generation: int, counts: bool
) -> None:
    """A later change may delete other objects of these names."""
    service = replace(WEB, removal=removal).changed(confirmed=Confirmation(generation, (CLAIM,)))
    desired = codec.desired_from_message(messages.desired(service))
    assert desired.confirmed == ((CLAIM,) if counts else ())


@pytest.mark.parametrize(
    ("quarantine", "lifted"),
    [
        (None, False),
        (Quarantine("sha256:a", "restarts", START), False),
        (Quarantine("sha256:b", "restarts", START, lifted_by="ada"), False),
        (Quarantine("sha256:a", "restarts", START, lifted_by="ada"), True),
    ],
)
def test_only_the_present_bundle_is_allowed_again(
    quarantine: Quarantine | None, lifted: bool
) -> None:
    message = messages.desired(WEB.changed(quarantine=quarantine))
    assert codec.desired_from_message(message).lifted is lifted


def test_an_unknown_service_is_dropped_and_its_objects_stay() -> None:
    desired = codec.desired_from_message(messages.orphan_service("s", 7))
    assert (desired.service_id, desired.sequence, desired.removal) == ("s", 8, Removal.ORPHAN)
    assert desired.spec is None


@pytest.mark.parametrize(
    ("kind", "payload", "expected"),
    [
        (
            CommandKind.TERMINATE,
            {"service": "s"},
            wire.Command(terminate=wire.Terminate(service_id="s")),
        ),
        (
            CommandKind.CANCEL_JOB,
            {"job": "j"},
            wire.Command(cancel_job=wire.CancelJob(command_id="j")),
        ),
        (
            CommandKind.UPGRADE,
            {"version": "2", "image": "agent:2"},
            wire.Command(upgrade=wire.UpgradeAgent(version="2", image="agent:2")),
        ),
        (
            CommandKind.FREEZE,
            {"statement": "signed"},
            wire.Command(freeze=wire.FreezeOrder(statement="signed")),
        ),
        (
            CommandKind.RENDER,
            {"box": base64.b64encode(b"sealed").decode()},
            wire.Command(render=wire.RenderOrder(box=b"sealed")),
        ),
        (
            CommandKind.SYNC_NOW,
            {"service": "s"},
            wire.Command(sync_now=wire.SyncNow(service_id="s")),
        ),
    ],
)
def test_each_command_goes_out_as_its_own_message(
    kind: CommandKind, payload: JsonMapping, expected: wire.Command
) -> None:
    expected.id = "c"
    assert messages.command(Command("c", EU.id, kind, START, payload=payload)) == expected
