"""An engine on a cluster, a hub and a clock that are all in memory."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson

from core.errors import NotFound, TowlineError
from core.sealing import SealingKey
from core.spec.bundle import Bundle, KubeObject, digest_of, make_bundle
from core.spec.desired import BundleSpec, Desired
from core.spec.reports.commands import CommandAnswer
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange
from core.spec.statements.attestation import TrustedKeys
from core.spec.status import Phase, SyncStatus
from core.spec.sync import SyncOptions
from core.spec.verification import VerificationResult
from syncagent.autonomy.inputs import InputVerifier
from syncagent.reconcile.engine import ReconcileEngine, ReconcilePorts
from syncagent.state.bundles import BundleFiles
from syncagent.state.database import Database
from syncagent.state.identities import AgeIdentities
from syncagent.state.store import SqliteStateStore
from tests.fakes.clock import FakeClock
from tests.fakes.fences import FakeFences
from tests.fakes.kubernetes import FakeCluster


class AtOnce(ThreadPoolExecutor):
    """Does in place what is given to threads: for these the fake clock would not wait."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


_OF_SPEC = ("dry_run", "paused")


class Collected:
    """Reports and bundles, both in lists."""

    def __init__(self) -> None:
        self.statuses: list[SyncStatus] = []
        self.changes: list[InventoryChange] = []
        self.drifts: list[DriftFound] = []
        self.answers: list[CommandAnswer] = []
        self.verdicts: list[VerificationResult] = []
        self.bundles: dict[str, bytes] = {}
        self.down: TowlineError | None = None
        self.fetched = 0

    def status(self, status: SyncStatus) -> None:
        self.statuses.append(status)

    def inventory(self, change: InventoryChange) -> None:
        self.changes.append(change)

    def drift(self, found: DriftFound) -> None:
        self.drifts.append(found)

    def verified(self, verified: VerificationResult) -> None:
        self.verdicts.append(verified)

    def done(self, done: CommandAnswer) -> None:
        self.answers.append(done)

    async def fetch(self, digest: str, size: int) -> bytes:
        self.fetched += 1
        if self.down is not None:
            raise self.down
        if digest not in self.bundles:
            raise NotFound(f"no bundle {digest}")
        return self.bundles[digest]


class Stand:
    """An engine that can be started again on the same disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster, self.hub, self.clock = FakeCluster(), Collected(), FakeClock()
        self.sequence = 0
        self.key = SealingKey.generate()
        self.identities = AgeIdentities(None)

    async def start(self) -> None:
        asyncio.get_running_loop().set_default_executor(AtOnce())
        self.database = Database(self.folder / "agent.db")
        bundles = BundleFiles(self.folder / "bundles")
        memory = SqliteStateStore(self.database)
        ports = ReconcilePorts(
            self.cluster,
            FakeFences(self.cluster),
            bundles,
            self.hub,
            memory,
            self.hub,
            InputVerifier(TrustedKeys(())),
        )
        self.engine = ReconcileEngine(ports, self.clock, self.key, self.identities)
        self.engine.start()

    async def stop(self) -> None:
        await self.engine.stop()
        self.database.close()

    async def restart(self) -> None:
        """The process ends and comes back on the same disk."""
        await self.stop()
        self.hub.statuses.clear()
        await self.start()

    def want(self, *names: str, service: str = "s", **options: Any) -> Bundle:
        """The service is to have these ConfigMaps."""
        return self.bring([config(name) for name in names], service, **options)

    def bring(self, objects: list[KubeObject], service: str = "s", **options: Any) -> Bundle:
        """The service is to have these objects; `secrets` are what they name, in boxes."""
        return self._ask(make_bundle(objects), service, options)

    def bring_unchecked(self, objects: list[KubeObject], service: str = "s") -> Bundle:
        """Like a broken or hostile control plane: beyond the limits of a bundle."""
        data = b"\n".join(orjson.dumps(one, option=orjson.OPT_SORT_KEYS) for one in objects)
        return self._ask(Bundle(digest_of(data), data, len(objects)), service, {})

    def _ask(self, bundle: Bundle, service: str, options: dict[str, Any]) -> Bundle:
        self.hub.bundles[bundle.digest] = bundle.data
        self.sequence += 1
        secrets = tuple(options.pop("secrets", ()))
        own = {name: options.pop(name) for name in _OF_SPEC if name in options}
        confirmed = tuple(options.pop("confirmed", ()))
        fence = options.pop("fence", None)
        options.setdefault("create_namespace", False)
        how = SyncOptions(**options)
        spec = BundleSpec(
            service, "prod", bundle.digest, len(bundle.data), how, secrets=secrets, **own
        )
        self.engine.desire(Desired(service, self.sequence, spec, confirmed=confirmed, fence=fence))
        return bundle

    async def until(self, right: Callable[[], Any]) -> None:
        """Let time pass, a quarter of a second at a time, until something holds.

        250 s at most: more than the longest wait before another try.
        """
        for _ in range(1000):
            if right():
                return
            await self.clock.advance(0.25)
        raise AssertionError(f"never; last said: {self.hub.statuses[-1:]}")

    def last(self, service: str) -> tuple[Phase | None, str]:
        """Phase and first problem as last said of a service."""
        for said in reversed(self.hub.statuses):
            if said.service_id == service:
                return said.phase, said.problems[0].message if said.problems else ""
        return None, ""

    async def phase(self, phase: Phase) -> SyncStatus:
        def reached() -> bool:
            said = self.hub.statuses
            return bool(said) and (said[-1].phase, said[-1].sequence) == (phase, self.sequence)

        await self.until(reached)
        return self.hub.statuses[-1]


def config(name: str, value: str = "1", notes: dict[str, str] | None = None) -> KubeObject:
    """A ConfigMap; `notes` are its annotations."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name} | ({"annotations": notes} if notes else {}),
        "data": {"key": value},
    }
