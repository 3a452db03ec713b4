"""Applied objects survive edits, deletions, outages, restarts, kills and lost disks."""

import asyncio
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from core.wire.v1 import agent_pb2 as pb
from tests.integration.syncagent.conftest import Bench

ROOT = Path(__file__).parents[3]
EDIT = '{"data":{"key":"edited"}}'


@asynccontextmanager
async def process(bench: Bench) -> AsyncGenerator[asyncio.subprocess.Process]:
    """The agent in a process of its own, killed at the end if it still runs."""
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.syncagent.agent_process",
        bench.hub.address,
        str(bench.cluster.kubeconfig),
        str(bench.state),
        cwd=ROOT,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield agent
    finally:
        if agent.returncode is None:
            agent.kill()
        await agent.wait()


async def test_an_edit_is_healed_and_reported(bench: Bench) -> None:
    """Drift names the manager and the field, and the field is back."""
    hub = bench.hub
    async with bench.agent():
        hub.want("edited", [bench.config("c")], namespace=bench.namespace)
        await hub.until_phase("edited", pb.PHASE_HEALTHY)
        await bench.kubectl("patch", "configmap", "c", "-p", EDIT)
        await hub.until(lambda: hub.drifts("edited"))
        live = await bench.get("configmap", "c")
    (drift,) = hub.drifts("edited")
    assert (drift.manager, list(drift.paths), drift.healed) == ("kubectl-patch", ["data.key"], True)
    assert live is not None and live["data"] == {"key": "value"}


async def test_fields_of_others_are_left_alone(bench: Bench) -> None:
    """Fields outside the manifest are no drift."""
    hub = bench.hub
    async with bench.agent():
        hub.want("mine", [bench.config("c")], namespace=bench.namespace)
        await hub.until_phase("mine", pb.PHASE_HEALTHY)
        await bench.kubectl("patch", "configmap", "c", "-p", '{"data":{"theirs":"1"}}')
        await bench.kubectl("patch", "configmap", "c", "-p", EDIT)
        await hub.until(lambda: hub.drifts("mine"))
        live = await bench.get("configmap", "c")
    assert live is not None and live["data"] == {"key": "value", "theirs": "1"}
    assert [list(drift.paths) for drift in hub.drifts("mine")] == [["data.key"]]


async def test_report_policy_tells_and_leaves(bench: Bench) -> None:
    """DRIFT_POLICY_REPORT: the edit stays, its field is named."""
    hub = bench.hub
    async with bench.agent():
        options = {"drift": pb.DRIFT_POLICY_REPORT}
        hub.want("told", [bench.config("c")], namespace=bench.namespace, options=options)
        await hub.until_phase("told", pb.PHASE_HEALTHY)
        await bench.kubectl("patch", "configmap", "c", "-p", EDIT)
        await hub.until(lambda: hub.drifts("told"))
        live = await bench.get("configmap", "c")
        await hub.until(lambda: not hub.components("told")["ConfigMap", "c"].synced)
    (drift,) = hub.drifts("told")
    assert (list(drift.paths), drift.healed) == (["data.key"], False)
    assert live is not None and live["data"] == {"key": "edited"}


async def test_a_removed_mark_is_put_back(bench: Bench) -> None:
    """Removing our label from an object does not take it away from us."""
    hub = bench.hub
    async with bench.agent():
        hub.want("marked", [bench.config("c")], namespace=bench.namespace)
        await hub.until_phase("marked", pb.PHASE_HEALTHY)
        await bench.kubectl("label", "configmap", "c", "towline.dev/service-")
        await bench.until(
            "configmap", "c", lambda o: o["metadata"]["labels"].get("towline.dev/service")
        )


async def test_drift_is_healed_while_the_hub_is_down(bench: Bench) -> None:
    """Edits and deletions are undone, and reported once the hub is back."""
    hub = bench.hub
    async with bench.agent():
        objects = [bench.config("c"), bench.deployment("d")]
        hub.want("alone", objects, namespace=bench.namespace)
        await hub.until_phase("alone", pb.PHASE_HEALTHY)
        await hub.stop()
        await bench.kubectl("patch", "configmap", "c", "-p", EDIT)
        await bench.until("configmap", "c", lambda o: o["data"] == {"key": "value"})
        await bench.kubectl("delete", "deployment", "d")
        await bench.until("deployment", "d", lambda o: o is not None)
        await hub.start()
        await hub.until(lambda: len(hub.drifts("alone")) >= 2)
    assert {(d.object.name, d.deleted) for d in hub.drifts("alone")} == {("c", False), ("d", True)}


async def test_a_restart_without_the_hub_heals_what_happened(bench: Bench) -> None:
    """The state directory alone suffices: edits and deletions made meanwhile are undone."""
    hub = bench.hub
    async with bench.agent():
        objects = [bench.config("c"), bench.config("d")]
        hub.want("offline", objects, namespace=bench.namespace)
        await hub.until_phase("offline", pb.PHASE_HEALTHY)
    await hub.stop()
    await bench.kubectl("patch", "configmap", "c", "-p", EDIT)
    await bench.kubectl("delete", "configmap", "d")
    async with bench.agent():
        await bench.until("configmap", "c", lambda o: o["data"] == {"key": "value"})
        await bench.until("configmap", "d", lambda o: o is not None)
        await hub.start()
        await hub.until(lambda: len(hub.drifts("offline")) >= 2)


async def test_a_restart_writes_nothing_and_keeps_its_times(bench: Bench) -> None:
    """Nothing has changed, so nothing is applied, and the stages keep their old times."""
    hub = bench.hub
    async with bench.agent():
        hub.want("calm", [bench.config("c"), bench.deployment("d")], namespace=bench.namespace)
        first = await hub.until_phase("calm", pb.PHASE_HEALTHY)
        before = await bench.get("configmap", "c")
    # What the first agent had still to say ends with the listening.
    await hub.stop()
    hub.reports.clear()
    await hub.start()
    async with bench.agent():
        second = await hub.until_phase("calm", pb.PHASE_HEALTHY)
        assert await bench.get("configmap", "c") == before
        assert {r.status.phase for r in hub.reports if r.HasField("status")} == {pb.PHASE_HEALTHY}
    assert [held.sequence for held in hub.hellos[-1].held] == [1]
    assert (second.applied_ms, second.healthy_ms) == (first.applied_ms, first.healthy_ms)
    assert second.written == 0
    assert not hub.drifts("calm")


async def test_killed_in_the_middle_it_goes_on(bench: Bench) -> None:
    """kill -9 while applying: the rest follows after a start, and nothing is left behind."""
    hub = bench.hub
    many = [bench.config(f"c{i}") for i in range(60)]
    async with process(bench) as agent:
        await hub.until(lambda: hub.hellos)
        hub.want("killed", many, namespace=bench.namespace)
        await bench.until("configmap", "c0", lambda o: o is not None)
        agent.kill()
        await agent.wait()
    options = {"deletion_budget": len(many)}
    hub.want("killed", many[30:], namespace=bench.namespace, options=options)
    async with process(bench):
        await hub.until_phase("killed", pb.PHASE_HEALTHY)
    names = (await bench.kubectl("get", "configmap", "-o", "name")).split()
    ours = {name.removeprefix("configmap/") for name in names} - {"kube-root-ca.crt"}
    assert ours == {f"c{i}" for i in range(30, 60)}


async def test_a_lost_disk_is_made_up_for(bench: Bench) -> None:
    """With an empty state directory the marks in the cluster tell what is to be pruned."""
    hub = bench.hub
    async with bench.agent():
        objects = [bench.config("a"), bench.config("b"), bench.deployment("d")]
        hub.want("lost", objects, namespace=bench.namespace)
        await hub.until_phase("lost", pb.PHASE_HEALTHY)
    shutil.rmtree(bench.state)
    hub.want("lost", [bench.config("a")], namespace=bench.namespace)
    async with bench.agent():
        await hub.until_phase("lost", pb.PHASE_HEALTHY)
        await bench.until("configmap", "b", lambda o: o is None)
        await bench.until("deployment", "d", lambda o: o is None)
        assert await bench.get("configmap", "a") is not None


async def test_without_desired_state_nothing_is_touched(bench: Bench) -> None:
    """A lost disk and a hub that knows nothing: what is in the cluster stays."""
    hub = bench.hub
    async with bench.agent():
        hub.want("stray", [bench.config("a")], namespace=bench.namespace)
        await hub.until_phase("stray", pb.PHASE_HEALTHY)
    shutil.rmtree(bench.state)
    # What the first agent had still to say ends with the listening.
    await hub.stop()
    hub.desired.clear()
    hub.reports.clear()
    await hub.start()
    async with bench.agent():
        await hub.until(lambda: len(hub.hellos) == 2)
        await asyncio.sleep(1)
        assert await bench.get("configmap", "a") is not None
    assert not hub.hellos[-1].held and not hub.reports


async def test_unacknowledged_reports_come_again_once(bench: Bench) -> None:
    """Uncommitted reports are sent again with the same numbers, nothing is lost."""
    hub = bench.hub
    hub.acknowledging = False
    async with bench.agent():
        hub.want("numbers", [bench.config("c")], namespace=bench.namespace)
        await hub.until_phase("numbers", pb.PHASE_HEALTHY)
        await hub.until(lambda: hub.components("numbers"))
        first = [(r.number, r.SerializeToString()) for r in hub.reports]
        await hub.stop()
        hub.reports.clear()
        hub.acknowledging, hub.committed = True, first[0][0]
        await hub.start()
        await hub.until(lambda: hub.reports and hub.reports[-1].number >= first[-1][0])
        again = [(r.number, r.SerializeToString()) for r in hub.reports]
    assert again[: len(first) - 1] == first[1:]
    assert [number for number, _ in first] == list(range(1, len(first) + 1))


async def test_a_refused_token_is_said_and_healing_goes_on(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """UNAUTHENTICATED is not hammered: about a minute to the next try, and drift is healed."""
    hub = bench.hub
    async with bench.agent():
        hub.want("known", [bench.config("c")], namespace=bench.namespace)
        await hub.until_phase("known", pb.PHASE_HEALTHY)
    hub.token = "twa_another"
    async with bench.agent():
        async with asyncio.timeout(60):
            while "refuses the agent's token" not in (said := capsys.readouterr().out):
                await asyncio.sleep(0.05)
        assert "revoked" in said
        await bench.kubectl("patch", "configmap", "c", "-p", EDIT)
        await bench.until("configmap", "c", lambda o: o["data"] == {"key": "value"})


async def test_a_hub_that_is_not_there_does_not_keep_the_agent_from_starting(
    bench: Bench,
) -> None:
    """An address nobody answers at: the agent runs and ends in order."""
    hub = replace(bench.settings.hub, address="http://127.0.0.1:1")
    bench.settings = replace(bench.settings, hub=hub)
    async with bench.agent():
        await asyncio.sleep(0.5)


async def test_a_command_is_answered_once(bench: Bench) -> None:
    """SyncNow sent twice is executed once and answered; an unknown service is refused."""
    hub = bench.hub
    async with bench.agent():
        hub.want("asked", [bench.config("c")], namespace=bench.namespace)
        await hub.until_phase("asked", pb.PHASE_HEALTHY)
        for command_id, service in (("1", "asked"), ("1", "asked"), ("2", "nobody")):
            command = pb.Command(id=command_id, sync_now=pb.SyncNow(service_id=service))
            hub.send(pb.HubMessage(command=command))
        await hub.until(lambda: set(hub.results()) == {"1", "2"})
    assert hub.results()["1"].outcome == pb.OUTCOME_SUCCEEDED
    assert hub.results()["2"].outcome == pb.OUTCOME_REFUSED
