"""The whole engine on an API server that is slow, busy, forgetful or forbids things."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.runtime.clock import SystemClock
from core.sealing import SealingKey
from core.spec.bundle import KubeObject, make_bundle
from core.spec.desired import BundleSpec, Desired
from core.spec.statements.attestation import TrustedKeys
from core.spec.status import Phase
from core.spec.sync import SyncOptions
from syncagent.autonomy.inputs import InputVerifier
from syncagent.kube.access import ApiServerAccess, BearerToken
from syncagent.kube.client import KubeClient
from syncagent.kube.cluster import KubeCluster
from syncagent.reconcile.engine import ReconcileEngine, ReconcilePorts
from syncagent.state.bundles import BundleFiles
from syncagent.state.database import Database
from syncagent.state.identities import AgeIdentities
from syncagent.state.store import SqliteStateStore
from tests.fakes.engine import Collected
from tests.fakes.faulty import FaultyServer
from tests.fakes.fences import FakeFences


@dataclass
class Rough:
    """An engine, its server and what it has said; `token` is the credential that it uses."""

    server: FaultyServer
    engine: ReconcileEngine
    hub: Collected
    token: str = ""
    sequences: dict[str, int] = field(default_factory=dict)

    def want(self, *objects: KubeObject, service: str = "s") -> None:
        """The service is to have these objects."""
        bundle = make_bundle(list(objects))
        self.hub.bundles[bundle.digest] = bundle.data
        sequence = self.sequences[service] = self.sequences.get(service, 0) + 1
        # This server has no namespaces.
        options = SyncOptions(create_namespace=False)
        spec = BundleSpec(service, "n", bundle.digest, len(bundle.data), options=options)
        self.engine.desire(Desired(service, sequence, spec))

    def phase(self, service: str = "s") -> Phase | None:
        """Last reported phase of the newest sequence."""
        newest = (service, self.sequences[service])
        said = [one for one in self.hub.statuses if (one.service_id, one.sequence) == newest]
        return said[-1].phase if said else None

    async def until_well(self, service: str = "s") -> None:
        await self.server.until(lambda: self.phase(service) == Phase.HEALTHY)

    def object(self, name: str) -> dict[str, Any]:
        return self.server.objects[f"/api/v1/namespaces/n/configmaps/{name}"]

    def writes_in_time_asked_for(self) -> int:
        """Number of applies between the newest 429 and the time that it named."""
        server = self.server
        until = server.put_off_at + server.retry_after
        came = zip(server.asked, server.asked_at, strict=True)
        return sum(one[0] == "PATCH" and server.put_off_at < at < until for one, at in came)

    async def until_watched(self) -> None:
        await self.server.until(lambda: self.server.watches)

    async def spoil(self, name: str) -> None:
        """Somebody changes an object, and it is put right."""
        await self.server.write(name, v="foreign")
        await self.server.until(lambda: self.object(name)["data"] == {"v": "1"})


@pytest.fixture
async def rough(tmp_path: Path) -> AsyncIterator[Rough]:
    """A running engine that signs in by token."""
    clock, hub = SystemClock(), Collected()
    async with FaultyServer() as server:

        async def source() -> tuple[str, Any]:
            return made.token, clock.now() + timedelta(hours=1)

        client = KubeClient(
            ApiServerAccess(server.address, None, BearerToken(source, clock)), clock, 4
        )
        database = Database(tmp_path / "agent.db")
        bundles, memory = BundleFiles(tmp_path / "bundles"), SqliteStateStore(database)
        key, identities = SealingKey.generate(), AgeIdentities(None)
        cluster = KubeCluster(client, clock)
        ports = ReconcilePorts(
            cluster, FakeFences(cluster), bundles, hub, memory, hub, InputVerifier(TrustedKeys(()))
        )
        engine = ReconcileEngine(ports, clock, key, identities)
        made = Rough(server, engine, hub)
        engine.start()
        yield made
        await engine.stop()
        await client.close()
        database.close()


def config(name: str) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"v": "1"},
    }


async def test_answers_that_take_very_long_hold_up_one_service_only(rough: Rough) -> None:
    """The others are applied and reported meanwhile; the slow one is healthy once answered."""
    rough.server.delays["slow"] = 30.0
    rough.want(config("slow"), service="slow")
    await rough.server.until(lambda: rough.server.waiting)
    rough.want(config("a"), config("b"))
    await rough.until_well()
    await rough.server.until(lambda: rough.phase("slow") == Phase.APPLYING)
    assert rough.server.waiting == 1
    rough.server.delays.clear()
    await rough.until_well("slow")


async def test_a_token_that_expires_during_a_watch(rough: Rough) -> None:
    """The watch breaks off, the new token is read, nothing that happened meanwhile is missed."""
    rough.want(config("a"))
    await rough.until_well()
    await rough.until_watched()
    rough.server.token = rough.token = "next"
    rough.server.cut()
    await rough.server.write("a", v="foreign")
    await rough.server.until(lambda: rough.object("a")["data"] == {"v": "1"})
    await rough.server.until(lambda: rough.server.signed[-1] == "Bearer next")
    await rough.until_well()


async def test_a_place_that_the_server_has_forgotten_is_listed_anew(rough: Rough) -> None:
    """410 amid a watch: what changed in the gap is found and put right."""
    rough.want(config("a"))
    await rough.until_well()
    await rough.until_watched()
    await rough.server.complain(410)
    await rough.spoil("a")


async def test_large_and_secret_kinds_are_followed_by_their_metadata(rough: Rough) -> None:
    """Lists and watches ask for no content; only a changed object is read, and only once."""
    rough.want(config("a"), config("b"))
    await rough.until_well()
    await rough.until_watched()
    await rough.spoil("a")
    followed = {accept for _, path, accept in rough.server.asked if path.endswith("/configmaps")}
    assert all("as=PartialObjectMetadata" in accept for accept in followed)
    read = [path for method, path, _ in rough.server.asked if method == "GET" and "/a" in path[-2:]]
    assert len(read) == 1
    assert not any(path.endswith("/b") and m == "GET" for m, path, _ in rough.server.asked)


async def test_a_kind_that_may_not_be_listed_is_asked_for_object_by_object(rough: Rough) -> None:
    """403 on list and watch: the service is well, and drift is found by the round."""
    rough.server.forbidden.add("configmaps")
    rough.want(config("a"))
    await rough.until_well()
    asked = ("GET", "/api/v1/namespaces/n/configmaps/a", "application/json")
    await rough.server.until(lambda: asked in rough.server.asked)
    rough.engine.sync_now("c1", "s")
    await rough.server.until(lambda: rough.hub.answers)
    assert rough.hub.answers[0].outcome.value == "succeeded"


async def test_a_kind_that_may_be_watched_in_one_namespace_only(rough: Rough) -> None:
    """403 on all namespaces: those of owned objects are watched, and drift is healed at once."""
    rough.server.forbidden.add("/api/v1/configmaps")
    rough.want(config("a"))
    await rough.until_well()
    await rough.until_watched()
    await rough.spoil("a")
    rough.want(config("a"), config("b"))
    await rough.until_well()
    await rough.spoil("b")
    assert len(rough.server.watches) == 1


async def test_a_watch_gives_a_busy_server_time_as_well(rough: Rough) -> None:
    """Its 429 holds back requests too, and the watch comes back by itself."""
    rough.want(config("a"))
    await rough.until_well()
    await rough.until_watched()
    rough.server.busy, rough.server.retry_after = 1, 1
    rough.server.cut()
    await rough.server.until(lambda: not rough.server.busy)
    rough.want(config("a"), config("b"))
    await rough.until_well()
    assert rough.writes_in_time_asked_for() == 0
    await rough.spoil("a")


async def test_a_busy_server_is_given_the_time_that_it_asks_for(rough: Rough) -> None:
    """429 with Retry-After: nothing is sent for so long, then all is applied; nothing fails."""
    rough.want(config("a"))
    await rough.until_well()
    await rough.until_watched()
    rough.server.busy, rough.server.retry_after = 1, 1
    rough.want(config("a"), *(config(f"c{number}") for number in range(8)))
    await rough.server.until(lambda: len(rough.server.objects) == 9)
    await rough.until_well()
    # Those that were under way already, of four at a time.
    assert rough.writes_in_time_asked_for() <= 3
    assert not any(one.phase == Phase.FAILED for one in rough.hub.statuses)
