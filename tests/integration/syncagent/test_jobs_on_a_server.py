"""Jobs, facts, the local allow-list and signatures: a whole agent on a real API server."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.runtime.clock import SystemClock
from core.sealing import placeholder, seal
from core.spec.statements.attestation import AttestationStatement, SignedSource, Signer
from core.wire.v1 import agent_pb2 as pb
from syncagent.compose import control_plane_access
from syncagent.kube.access import from_kubeconfig
from syncagent.kube.client import KubeClient
from syncagent.kube.facts import KubeFacts
from syncagent.settings import AutonomySettings, HubSettings
from syncagent.upkeep.doctor import diagnose
from tests.fakes.hub import TOKEN, FakeHub
from tests.integration.syncagent.conftest import Bench

pytestmark = pytest.mark.cluster

RUN = "0197a000-0000-7000-8000-00000000000a"
NAME = f"towline-job-{RUN}"


def job(annotations: dict[str, str] | None = None, **container: object) -> bytes:
    main = {"name": "main", "image": "check:1", **container}
    template = {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [main]}}
    return orjson.dumps({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}})


def ask(bench: Bench, manifest: bytes, *secrets: pb.SealedSecret, timeout: int = 60) -> None:
    run = pb.RunJob(namespace=bench.namespace, manifest=manifest, timeout_s=timeout)
    run.secrets.extend(secrets)
    bench.hub.send(pb.HubMessage(command=pb.Command(id=RUN, run_job=run)))


async def ended(hub: FakeHub) -> pb.JobStatus:
    """The last word on the job, once its command is answered."""
    await hub.until(lambda: RUN in hub.results())
    return [report.job for report in hub.reports if report.HasField("job")][-1]


async def linked(bench: Bench) -> pb.Hello:
    await bench.hub.until(lambda: bench.hub.hellos)
    return bench.hub.hellos[-1]


async def test_a_job_runs_once_and_its_end_arrives_though_the_link_was_down(bench: Bench) -> None:
    """Asked for twice, the agent killed and the hub away when it ends: one Job, one answer."""
    async with bench.agent():
        hello = await linked(bench)
        box = seal(hello.sealing_key, RUN, "password", "1", b"canary-3f0b-job")
        env = [{"name": "PASSWORD", "value": placeholder("password")}]
        secret = pb.SealedSecret(name=box.name, version=box.version, box=box.box)
        slow = {"demo.towline.dev/duration": "2s"}
        ask(bench, job(slow, env=env), secret)
        ask(bench, job(slow, env=env), secret)
        live = await bench.until("job", NAME, lambda one: one)
        uid = live["metadata"]["uid"]
        variable = live["spec"]["template"]["spec"]["containers"][0]["env"][0]
        assert variable["valueFrom"]["secretKeyRef"] == {"name": NAME, "key": "password"}
        await bench.hub.stop()
    await bench.until("job", NAME, lambda one: (one["status"] or {}).get("succeeded"))
    await bench.hub.start()
    async with bench.agent():
        end = await ended(bench.hub)
        assert end.phase == pb.JOB_PHASE_SUCCEEDED and end.finished_ms >= end.started_ms > 0
        kept = await bench.get("job", NAME)
        assert kept is not None and kept["metadata"]["uid"] == uid
    assert await bench.get("secret", NAME) is None


async def test_a_failing_job_tells_its_exit_code(bench: Bench) -> None:
    async with bench.agent():
        await linked(bench)
        ask(bench, job({"demo.towline.dev/outcome": "fail"}))
        end = await ended(bench.hub)
    assert (end.phase, end.exit_code) == (pb.JOB_PHASE_FAILED, 1)
    assert bench.hub.results()[RUN].outcome == pb.OUTCOME_FAILED


async def test_a_cancelled_job_is_gone(bench: Bench) -> None:
    async with bench.agent():
        await linked(bench)
        ask(bench, job({"demo.towline.dev/duration": "60s"}))
        await bench.until("job", NAME, lambda one: one and (one.get("status") or {}).get("active"))
        cancel = pb.Command(id="c", cancel_job=pb.CancelJob(command_id=RUN))
        bench.hub.send(pb.HubMessage(command=cancel))
        assert (await ended(bench.hub)).phase == pb.JOB_PHASE_CANCELLED
        await bench.until("job", NAME, lambda one: one is None)


async def test_the_allow_list_holds_against_the_control_plane(bench: Bench) -> None:
    """Unlisted images are refused by name; listed ones are applied."""
    own = AutonomySettings(kinds="ConfigMap", namespaces=bench.namespace)
    bench.settings = replace(bench.settings, autonomy=own)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    async with bench.agent():
        await linked(bench)
        objects = [bench.config("c"), secret]
        bench.hub.want("a", objects, namespace=bench.namespace)
        status = await bench.hub.until_phase("a", pb.PHASE_FAILED)
        assert any("refused by this agent's own settings" in p.message for p in status.problems)
        ask(bench, job())
        assert "does not write" in (await ended(bench.hub)).message
    assert await bench.get("secret", "s") is None and await bench.get("job", NAME) is None


@pytest.fixture
async def keyed(bench: Bench, tmp_path: Path) -> AsyncIterator[tuple[Bench, Signer]]:
    """An agent that takes bundles of one signer only."""
    signer = Signer(Ed25519PrivateKey.generate())
    keys = tmp_path / "keys.pem"
    keys.write_bytes(signer.public_pem)
    own = AutonomySettings(trusted_keys=keys)
    bench.settings = replace(bench.settings, autonomy=own)
    async with bench.agent():
        await linked(bench)
        yield bench, signer


async def test_only_a_signed_bundle_is_applied(keyed: tuple[Bench, Signer]) -> None:
    """Unsigned and wrongly signed: refused with the reason, nothing applied, nothing fetched."""
    bench, signer = keyed
    attest, bench.hub.signer = bench.hub.signer, None
    thief = Signer(Ed25519PrivateKey.generate())
    objects = [bench.config("c")]
    bundle = bench.hub.want("a", objects, namespace=bench.namespace)
    status = await bench.hub.until_phase("a", pb.PHASE_FAILED)
    assert "is not signed" in status.problems[0].message
    ask(bench, job())
    await bench.hub.until(lambda: RUN in bench.hub.results())
    assert "is not signed" in bench.hub.results()[RUN].message
    assert await bench.get("job", NAME) is None
    bench.hub.signer = attest
    source = SignedSource("https://git.example/x.git", "", "c" * 40, "d" * 40)
    statement = AttestationStatement(bundle.digest, (source,), "raw")
    for one, phase in ((thief, pb.PHASE_FAILED), (signer, pb.PHASE_HEALTHY)):
        assert not bench.hub.fetches
        word = one.sign(statement)
        attestation = pb.Attestation(
            key_id=word.key_id, statement=word.statement, signature=word.signature
        )
        bench.hub.want("a", objects, namespace=bench.namespace, attestation=attestation)
        await bench.hub.until_phase("a", phase)
    assert await bench.get("configmap", "c") is not None


async def test_facts_are_counted_and_the_doctor_finds_all_well(bench: Bench) -> None:
    """Nodes, capacity and API versions of a real server; each right asked of it."""
    clock = SystemClock()
    access = from_kubeconfig(bench.cluster.kubeconfig, None, clock)
    client = KubeClient(access, clock)
    try:
        facts = await KubeFacts(client, lambda: None).collect()
        assert facts.kubernetes_version.startswith("v1.") and "apps/v1" in facts.api_versions
        assert {"v1/Pod", "apps/v1/Deployment", "apps/v1/Scale"} <= {*facts.api_versions}
        assert facts.nodes and facts.cpu_millis and facts.memory_bytes and facts.pod_capacity
        way = control_plane_access(HubSettings(bench.hub.address, TOKEN))
        found = [one async for one in diagnose(way, client, bench.state)]
    finally:
        await client.close()
    assert [one for one in found if one.needed and not one.good] == []
    steps = {one.step: one for one in found}
    assert {"resolves", "signs in", "API server", "may apply objects", "disk"} <= steps.keys()


async def test_the_doctor_names_the_step_that_fails(bench: Bench) -> None:
    """A wrong token, a port where nobody is: the first wrong thing, then no guesses."""
    clock = SystemClock()
    client = KubeClient(from_kubeconfig(bench.cluster.kubeconfig, None, clock), clock)
    try:
        wrong = control_plane_access(HubSettings(bench.hub.address, "twa_wrong"))
        found = [one async for one in diagnose(wrong, client, bench.state)]
        signs_in = next(one for one in found if one.step == "signs in")
        assert not signs_in.good and "rotate-token" in signs_in.text
        nobody = control_plane_access(HubSettings("http://127.0.0.1:1", TOKEN))
        steps = [one.step async for one in diagnose(nobody, client, bench.state)]
    finally:
        await client.close()
    assert "connects" in steps and "signs in" not in steps and "API server" in steps


async def test_services_of_the_cluster_itself_need_no_control_plane(
    bench: Bench, tmp_path: Path
) -> None:
    """From first boot with a name that does not resolve; later they are shown, and defined only
    here: what the control plane sends is refused, what it asks for is done."""
    services = tmp_path / "services"
    (services / "manifests").mkdir(parents=True)
    (services / "manifests" / "c.json").write_bytes(orjson.dumps(bench.config("c")))
    text = f"name: own\nnamespace: {bench.namespace}\nfolder: manifests\n"
    (services / "own.yaml").write_text(text)
    bench.settings = replace(bench.settings, autonomy=AutonomySettings(services=services))
    blind = replace(bench.settings.hub, address="https://nowhere.invalid:8444")
    alone = Bench(bench.hub, bench.cluster, bench.namespace, bench.state, bench.settings)
    alone.settings = replace(bench.settings, hub=blind)
    async with alone.agent():
        await bench.until("configmap", "c", lambda one: one)
        await bench.kubectl("delete", "configmap", "c")
        healed = await bench.until("configmap", "c", lambda one: one)
    async with bench.agent():
        hello = await linked(bench)
        assert hello.mode == pb.MODE_AUTONOMOUS and not hello.held
        mirror = (await bench.hub.until(lambda: mirrors(bench.hub)))[-1]
        assert mirror.name == "own" and mirror.sequence == 1
        bench.hub.want("theirs", [bench.config("d")], namespace=bench.namespace)
        status = await bench.hub.until_phase("theirs", pb.PHASE_FAILED)
        assert "defines its own services" in status.problems[0].message
        changed = bench.config("c", key="changed")
        (services / "manifests" / "c.json").write_bytes(orjson.dumps(changed))
        sync = pb.Command(id="1", sync_now=pb.SyncNow(service_id=mirror.service_id))
        bench.hub.send(pb.HubMessage(command=sync))
        await bench.until("configmap", "c", lambda one: one["data"]["key"] == "changed")
        live = await bench.get("configmap", "c")
        assert live is not None and live["metadata"]["uid"] == healed["metadata"]["uid"]
        await bench.hub.until(lambda: mirrors(bench.hub)[-1].sequence == 2)
    assert await bench.get("configmap", "d") is None


def mirrors(hub: FakeHub) -> list[pb.MirroredService]:
    return [report.mirrored for report in hub.reports if report.HasField("mirrored")]
