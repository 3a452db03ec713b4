"""Hooks by phase: delete policies take effect once all hooks of a phase have ended."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.spec.bundle import KubeObject
from core.spec.objects import ObjectKey
from core.spec.status import Phase
from tests.fakes.engine import Stand, config

MOMENTS = ("pre-sync", "sync", "post-sync")
SUCCEEDED, FAILED = "hook-succeeded", "hook-failed"


@dataclass(frozen=True)
class Hook:
    """A generated hook; `fails` is for its Job, another object cannot fail."""

    phase: str
    wave: int
    is_job: bool
    fails: bool
    policies: frozenset[str]
    number: int = 0

    @property
    def key(self) -> ObjectKey:
        group, kind = ("batch", "Job") if self.is_job else ("", "ServiceAccount")
        return (group, kind, "prod", f"h{self.number}")

    @property
    def stage(self) -> tuple[int, int]:
        return (MOMENTS.index(self.phase), self.wave)

    @property
    def body(self) -> KubeObject:
        notes = {"towline.dev/hook": self.phase, "towline.dev/wave": str(self.wave)}
        if self.policies:
            notes["towline.dev/hook-delete-policy"] = ",".join(sorted(self.policies))
        group, kind, _, name = self.key
        meta = {"name": name, "annotations": notes}
        return {"apiVersion": f"{group}/v1".lstrip("/"), "kind": kind, "metadata": meta}


HOOKS = st.lists(
    st.builds(
        Hook,
        st.sampled_from(MOMENTS),
        st.integers(-1, 1),
        st.booleans(),
        st.integers(0, 5).map(lambda roll: roll == 0),
        st.frozensets(st.sampled_from(("before-hook-creation", SUCCEEDED, FAILED))),
    ),
    min_size=1,
    max_size=7,
).map(lambda hooks: [replace(hook, number=number) for number, hook in enumerate(hooks)])


class Play:
    """Concludes the Jobs of one sync, and checks each write of the agent."""

    def __init__(self, stand: Stand, hooks: list[Hook]) -> None:
        self.stand, self.hooks = stand, hooks
        self.by_name = {hook.key[3]: hook for hook in hooks}
        self.concluded: set[Hook] = set()
        self.checked = 0

    def has_ended(self, hook: Hook) -> bool:
        return hook in self.concluded or not hook.is_job and hook.key in self.started()

    def started(self) -> set[ObjectKey]:
        names = {
            name.rpartition("/")[2] for verb, name in self.stand.cluster.calls if verb == "apply"
        }
        return {hook.key for hook in self.hooks if hook.key[3] in names}

    def check(self) -> None:
        """A hook starts after all earlier stages; none goes while its phase runs."""
        for verb, name in self.stand.cluster.calls[self.checked :]:
            hook = self.by_name.get(name.rpartition("/")[2])
            if hook is None or verb not in ("apply", "delete"):
                continue
            if verb == "apply":
                earlier = [one for one in self.hooks if one.stage < hook.stage]
                assert all(self.has_ended(one) and not self.is_failure(one) for one in earlier)
            else:
                mates = [one for one in self.hooks if one.phase == hook.phase]
                failed = any(one in self.concluded and one.fails for one in mates)
                assert failed or all(map(self.has_ended, mates)), f"{hook} went too early"
        self.checked = len(self.stand.cluster.calls)

    def is_failure(self, hook: Hook) -> bool:
        return hook.is_job and hook.fails

    def conclude(self, hook: Hook) -> None:
        self.concluded.add(hook)
        kind = "Failed" if hook.fails else "Complete"
        status = {"conditions": [{"type": kind, "status": "True", "message": "as it did"}]}
        self.stand.cluster.put(self.stand.cluster.objects[hook.key] | {"status": status})

    def running(self) -> list[Hook]:
        return [
            hook
            for hook in self.hooks
            if hook.is_job and hook not in self.concluded and hook.key in self.stand.cluster.objects
        ]

    async def rest(self) -> None:
        for _ in range(12):
            await self.stand.clock.advance(0.5)
            self.check()


async def play(hooks: list[Hook], restart_after: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(Path(folder))
        await stand.start()
        try:
            await play_on(stand, hooks, restart_after)
        finally:
            await stand.stop()


async def play_on(stand: Stand, hooks: list[Hook], restart_after: int) -> None:
    play = Play(stand, hooks)
    stand.bring([*(hook.body for hook in hooks), config("x")])
    await play.rest()
    for turn in range(len(hooks)):
        if turn == restart_after:
            await stand.restart()
            await play.rest()
        if running := play.running():
            play.conclude(running[0])
            await play.rest()
    failed_phases = {hook.phase for hook in play.concluded if hook.fails}
    assert stand.hub.statuses[-1].phase == (Phase.FAILED if failed_phases else Phase.HEALTHY)
    for hook in hooks:
        if not play.has_ended(hook):
            continue
        policy = FAILED if play.is_failure(hook) else SUCCEEDED
        assert (hook.key in stand.cluster.objects) is (policy not in hook.policies), hook


@given(hooks=HOOKS, restart_after=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_hook_phases(hooks: list[Hook], restart_after: int) -> None:
    """Any hooks, with a restart of the agent: order, deletion and what is left."""
    asyncio.run(play(hooks, restart_after))


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A running engine."""
    made = Stand(tmp_path)
    await made.start()
    yield made
    await made.stop()


def helm_hook(kind: str, name: str, phases: str, policy: str = "") -> KubeObject:
    api = {"Job": "batch/v1", "Role": "rbac.authorization.k8s.io/v1"}.get(kind, "v1")
    notes = {"helm.sh/hook": phases}
    if policy:
        notes["helm.sh/hook-delete-policy"] = policy
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "annotations": notes}}


async def conclude(stand: Stand, name: str, condition: str = "Complete") -> None:
    key = ("batch", "Job", "prod", name)
    await stand.until(lambda: key in stand.cluster.objects)
    status = {"conditions": [{"type": condition, "status": "True", "message": "as it did"}]}
    stand.cluster.put(stand.cluster.objects[key] | {"status": status})


def has(stand: Stand, kind: str, name: str) -> bool:
    return any((key[1], key[3]) == (kind, name) for key in stand.cluster.objects)


def applied(stand: Stand) -> list[str]:
    return [name.rpartition("/")[2] for verb, name in stand.cluster.calls if verb == "apply"]


async def test_the_account_of_a_hook_job_is_there_while_it_runs(stand: Stand) -> None:
    """The shape of ingress-nginx: account, role and Job of one weight, Job first in the bundle."""
    policy = "before-hook-creation,hook-succeeded"
    job = helm_hook("Job", "create", "pre-install", policy)
    account = helm_hook("ServiceAccount", "account", "pre-install", policy)
    stand.bring([job, account, helm_hook("Role", "role", "pre-install", policy), config("x")])
    await stand.until(lambda: has(stand, "Job", "create"))
    assert applied(stand) == ["account", "role", "create"]
    await stand.clock.advance(60)
    assert has(stand, "ServiceAccount", "account") and has(stand, "Role", "role")
    await conclude(stand, "create")
    await stand.phase(Phase.HEALTHY)
    assert {key[1] for key in stand.cluster.objects} == {"ConfigMap"}


async def test_an_account_deleted_with_a_failed_phase_comes_back_for_the_next_try(
    stand: Stand,
) -> None:
    """As with Helm, a failed phase leaves none behind, and a retry begins with it."""
    account = helm_hook("ServiceAccount", "account", "pre-install", SUCCEEDED)
    stand.bring([account, helm_hook("Job", "create", "pre-install"), config("x")])
    await conclude(stand, "create", "Failed")
    await stand.phase(Phase.FAILED)
    await stand.until(lambda: not has(stand, "ServiceAccount", "account"))
    for _ in range(60):
        await stand.clock.advance(5)
    assert applied(stand) == ["account", "create"]
    stand.engine.sync_now("c1", "s")
    await stand.until(lambda: applied(stand) == ["account", "create"] * 2)
    assert has(stand, "ServiceAccount", "account")
    await conclude(stand, "create")
    await stand.phase(Phase.HEALTHY)
    assert not has(stand, "ServiceAccount", "account")


async def test_a_hook_of_two_phases_runs_in_each(stand: Stand) -> None:
    """The same Job before and after, as Argo CD and Helm run it."""
    stand.bring([helm_hook("Job", "both", "pre-install,post-install"), config("x")])
    await conclude(stand, "both")
    await stand.until(lambda: applied(stand) == ["both", "x", "both"])
    await stand.until(lambda: "status" not in stand.cluster.objects["batch", "Job", "prod", "both"])
    await conclude(stand, "both")
    await stand.phase(Phase.HEALTHY)


async def test_a_warning_event_of_a_hook_is_reported_at_once(stand: Stand) -> None:
    """A Job without pods tells its reason by events only; after its time it fails with them."""
    text = 'FailedCreate: error looking up service account prod/create: "create" not found'
    stand.cluster.warned["create"] = [text]
    stand.bring([helm_hook("Job", "create", "pre-install"), config("x")], wave_timeout_s=30)
    await stand.until(lambda: has(stand, "Job", "create"))
    for _ in range(8):
        await stand.clock.advance(0.25)
    assert text in stand.hub.statuses[-1].message
    assert stand.hub.statuses[-1].message.startswith("pre-sync hooks: waiting for Job prod/create")
    status = await stand.phase(Phase.FAILED)
    assert text in status.problems[0].message


async def test_a_failed_hook_leaves_the_others_of_its_stage_to_end(stand: Stand) -> None:
    """The delete policy of the second takes effect at its end, not at some later retry."""
    first = helm_hook("Job", "first", "pre-install")
    second = helm_hook("Job", "second", "pre-install", "hook-failed")
    stand.bring([first, second, config("x")])
    await conclude(stand, "first", "Failed")
    await stand.clock.advance(120)
    assert stand.hub.statuses[-1].phase == Phase.FAILED
    await conclude(stand, "second", "Failed")
    await stand.clock.advance(1)
    assert not has(stand, "Job", "second")
    assert "x" not in applied(stand)
