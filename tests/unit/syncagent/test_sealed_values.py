"""Values sealed to the agent are in the cluster, and nowhere else that the agent writes to."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.sealing import SealingKey, placeholder, seal
from core.spec.bundle import KubeObject
from core.spec.sealed_secrets import SealedSecret
from core.spec.status import Phase
from core.spec.sync import DriftPolicy
from syncagent.ports import RequestRefused
from tests.fakes.engine import Stand

VALUE = "hunter2-hunter2"
KEY = ("", "Secret", "prod", "db")


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    made = Stand(tmp_path)
    await made.start()
    yield made
    await made.stop()


def secret(annotations: dict[str, str] | None = None) -> KubeObject:
    name = placeholder("pw")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "db", "annotations": annotations or {}},
        "data": {"plain": "cGxhaW4=", "whole": name},
        "stringData": {"url": f"postgres://app:{name}@db/app"},
    }


def box(stand: Stand, value: str = VALUE, version: str = "1", owner: str = "s") -> SealedSecret:
    return seal(stand.key.public, owner, "pw", version, value.encode())


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def forms(value: str) -> list[bytes]:
    """The value, and the base64 in which a Secret has it."""
    return [
        value.encode(),
        in_base64(value).encode(),
        in_base64(f"postgres://app:{value}@db/app").encode(),
    ]


def said(stand: Stand) -> bytes:
    """All reports, annotations of objects and files on the disk."""
    hub = stand.hub
    reported = repr(
        (hub.statuses, hub.changes, hub.drifts, hub.answers, stand.cluster.events_written)
    )
    disk = [one.read_bytes() for one in stand.folder.rglob("*") if one.is_file()]
    return b"".join([reported.encode(), *disk])


async def test_a_value_is_in_the_cluster_only(stand: Stand) -> None:
    """Applied, edited by somebody, healed and started anew: no disk, no report has it."""
    stand.bring([secret()], secrets=[box(stand)])
    await stand.phase(Phase.HEALTHY)
    data = stand.cluster.objects[KEY]["data"]
    expected = {
        "plain": "cGxhaW4=",
        "whole": in_base64(VALUE),
        "url": in_base64(f"postgres://app:{VALUE}@db/app"),
    }
    assert data == expected and "stringData" not in stand.cluster.objects[KEY]
    edited = stand.cluster.objects[KEY] | {"data": data | {"url": in_base64("edited-by-hand")}}
    stand.cluster.put(edited)
    await stand.until(lambda: stand.hub.drifts)
    await stand.until(lambda: stand.cluster.objects[KEY]["data"] == expected)
    await stand.restart()
    await stand.until(lambda: stand.hub.statuses)
    everything = said(stand)
    assert not [form for form in forms(VALUE) if form in everything]
    assert in_base64("edited-by-hand").encode() not in everything


async def test_a_new_value_is_applied_and_a_new_box_of_the_same_is_not(stand: Stand) -> None:
    bundle = stand.bring([secret()], secrets=[box(stand)])
    await stand.phase(Phase.HEALTHY)
    before = stand.cluster.count("apply")
    assert stand.bring([secret()], secrets=[box(stand)]) == bundle
    await stand.phase(Phase.HEALTHY)
    assert stand.cluster.count("apply") == before
    stand.bring([secret()], secrets=[box(stand, "another-value", "2")])
    await stand.phase(Phase.HEALTHY)
    assert stand.cluster.objects[KEY]["data"]["whole"] == in_base64("another-value")


async def test_a_dry_run_tells_of_a_change_without_the_value(stand: Stand) -> None:
    stand.bring([secret()], secrets=[box(stand)])
    await stand.phase(Phase.HEALTHY)
    stand.bring([secret()], secrets=[box(stand, "another-value", "2")], dry_run=True)
    await stand.until(lambda: stand.hub.statuses[-1].planned)
    planned = stand.hub.statuses[-1].planned
    assert planned is not None
    (change,) = planned
    assert {one.pointer for one in change.fields} == {"/data/whole", "/data/url"}
    everything = said(stand)
    assert not [
        form for one in (VALUE, "another-value") for form in forms(one) if form in everything
    ]


async def test_drift_that_is_only_reported_shows_no_value(stand: Stand) -> None:
    stand.bring([secret()], secrets=[box(stand)], drift=DriftPolicy.REPORT)
    await stand.phase(Phase.HEALTHY)
    live = stand.cluster.objects[KEY]
    stand.cluster.put(live | {"data": live["data"] | {"whole": "ZWRpdGVk"}})
    await stand.until(lambda: stand.hub.drifts)
    assert stand.hub.drifts[0].paths == ("data.whole",)
    everything = said(stand)
    assert not [form for form in forms(VALUE) if form in everything]


async def test_secret_values_in_api_server_errors_are_masked(stand: Stand) -> None:
    """A webhook may refuse with the value in its sentence."""
    text = f"policy: data.whole {in_base64(VALUE)} ({VALUE}) is too short"
    stand.cluster.fail["db"] = RequestRefused(text, status=403, reason="Forbidden")
    stand.bring([secret()], secrets=[box(stand)])
    status = await stand.phase(Phase.FAILED)
    assert status.problems[0].message.startswith("policy: data.whole *** (***) is too short")
    everything = said(stand)
    assert not [form for form in forms(VALUE) if form in everything]


@pytest.mark.parametrize(
    ("objects", "boxes", "why"),
    [
        ([secret()], [], "the service has no access to the secrets pw: give them with `towline"),
        (
            [{**secret(), "kind": "ConfigMap", "stringData": {}}],
            ["pw"],
            "use it only in a Secret",
        ),
    ],
)
async def test_a_bundle_that_names_what_it_may_not_is_refused_whole(
    stand: Stand, objects: list[KubeObject], boxes: list[str], why: str
) -> None:
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
    stand.bring([*objects, plain], secrets=[box(stand) for _ in boxes])
    status = await stand.phase(Phase.FAILED)
    assert why in status.problems[0].message
    assert not [ref for verb, ref in stand.cluster.calls if verb == "apply" and "Map" in ref]


async def test_a_box_for_another_service_or_agent_does_not_open(stand: Stand) -> None:
    """Its object is not written; what else is in the bundle is."""
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
    stand.bring([secret(), plain], secrets=[box(stand, owner="other")])
    status = await stand.phase(Phase.FAILED)
    assert "with this agent's key" in status.problems[0].message
    stranger = seal(SealingKey.generate().public, "s", "pw", "1", VALUE.encode())
    stand.bring([secret(), plain], secrets=[stranger])
    status = await stand.phase(Phase.FAILED)
    assert "with this agent's key" in status.problems[0].message
    assert KEY not in stand.cluster.objects
    assert ("", "ConfigMap", "prod", "c") in stand.cluster.objects


async def test_a_hook_may_be_a_secret_with_values(stand: Stand) -> None:
    stand.bring([secret({"argocd.argoproj.io/hook": "PreSync"})], secrets=[box(stand)])
    await stand.until(lambda: KEY in stand.cluster.objects)
    assert stand.cluster.objects[KEY]["data"]["whole"] == in_base64(VALUE)


def crash(name: str, pod: str) -> KubeObject:
    """The status of a pod that crashes again and again."""
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off"}
    one = {"name": "app", "restartCount": 1, "state": {"waiting": waiting}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod,
            "namespace": "prod",
            "ownerReferences": [{"kind": "StatefulSet", "uid": name, "controller": True}],
        },
        "status": {"phase": "Running", "containerStatuses": [one]},
    }


def workload(name: str) -> KubeObject:
    meta = {"name": name, "namespace": "prod"}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": {}}


async def test_a_reported_crash_log_contains_no_secret_values(stand: Stand) -> None:
    """Neither those in boxes, nor those in the clear in the bundle's Secrets, nor their base64."""
    values = secret() | {"data": {"plain": in_base64("in-the-clear"), "whole": placeholder("pw")}}
    stand.cluster.logs["db-0"] = f"login {VALUE}\nor in-the-clear\n{in_base64(VALUE)} refused\n"
    stand.bring([values, workload("db")], secrets=[box(stand)])
    await stand.until(lambda: "Pod" in stand.cluster.watched())
    uid = stand.cluster.objects["apps", "StatefulSet", "prod", "db"]["metadata"]["uid"]
    stand.cluster.put(crash(uid, "db-0"))
    await stand.until(
        lambda: (
            "its log ends: login *** | or *** | *** refused" in said(stand).decode(errors="replace")
        )
    )
    assert not any(form in said(stand) for form in forms(VALUE))


@pytest.mark.parametrize("data", [{}, {"pw": "kein-Schlüssel"}], ids=["whole", "no base64"])
async def test_a_reported_hook_log_contains_no_secret_values(
    stand: Stand, data: dict[str, str]
) -> None:
    """Also beside a Secret that the API server will refuse for what stands in it."""
    hook: KubeObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "migrate", "annotations": {"towline.dev/hook": "pre-sync"}},
        "spec": {},
    }
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other"}, "data": data}
    stand.cluster.logs["migrate"] = f"cannot sign in by {VALUE}\n"
    stand.bring([secret(), other, hook], secrets=[box(stand)])
    made = ("", "Pod", "prod", "migrate")
    await stand.until(lambda: made in stand.cluster.objects)
    stand.cluster.put(stand.cluster.objects[made] | {"status": {"phase": "Failed"}})
    await stand.phase(Phase.FAILED)
    assert "its log ends: cannot sign in by ***" in stand.last("s")[1]
    assert VALUE.encode() not in said(stand)


async def test_a_log_is_kept_back_where_a_value_does_not_open(stand: Stand) -> None:
    """It may be in there, and nobody could tell."""
    plain: KubeObject = workload("db")
    stand.cluster.logs["db-0"] = f"login {VALUE}\n"
    stranger = seal(SealingKey.generate().public, "s", "pw", "1", VALUE.encode())
    stand.bring([secret(), plain], secrets=[stranger])
    await stand.until(lambda: "Pod" in stand.cluster.watched())
    uid = stand.cluster.objects["apps", "StatefulSet", "prod", "db"]["metadata"]["uid"]
    stand.cluster.put(crash(uid, "db-0"))
    await stand.until(lambda: stand.cluster.count("log"))
    await stand.until(lambda: b"CrashLoopBackOff" in said(stand))
    assert b"its log ends" not in said(stand)
