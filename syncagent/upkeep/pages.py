"""`/healthz`, `/readyz` and `/metrics` on a port of the pod, for the kubelet and Prometheus."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from fleet.errors import Invalid, Unavailable


@dataclass(frozen=True, slots=True)
class Vitals:
    """How the agent is now; `refusing_disk` says why the state cannot be written, if so."""

    linked: bool
    was_linked: bool
    services: int
    waiting_reports: int
    running_jobs: int
    refusing_disk: str = ""


Look = Callable[[], Vitals]


class Pages:
    """A small HTTP server; it shows no names, no secrets, nothing of services."""

    def __init__(self, listen: str, look: Look) -> None:
        self._host, self._port = _address(listen)
        self._look = look
        self._registry = CollectorRegistry()
        self._registry.register(_Collector(look))
        application = web.Application()
        application.router.add_get("/healthz", self._health)
        application.router.add_get("/readyz", self._ready)
        application.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(application, access_log=None)
        self.port = self._port

    async def start(self) -> None:
        """Listen. Unavailable: the port is taken."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"{self._host}:{self._port}"
            raise Unavailable(f"cannot listen on {where}: {error.strerror}") from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port."""
        await self._runner.cleanup()

    async def _health(self, _: web.Request) -> web.Response:
        """That this is answered at all says that the agent's loop turns."""
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        """Ready is who has reached the control plane since its start; it need not be there now."""
        now = self._look()
        if now.refusing_disk:
            return web.Response(status=503, text=f"{now.refusing_disk}\n")
        if not now.was_linked:
            return web.Response(status=503, text="has not reached the control plane yet\n")
        return web.Response(text="ok\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        page = generate_latest(self._registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


class _Collector:
    """Reads the figures when they are asked for; counting costs nothing in between."""

    def __init__(self, look: Look) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        now = self._look()
        for name, what, value in (
            ("linked", "Whether the control plane is reached now.", now.linked),
            ("services", "Services whose desired state is kept.", now.services),
            ("waiting_reports", "Reports not acknowledged yet.", now.waiting_reports),
            ("running_jobs", "Jobs that have not ended.", now.running_jobs),
            ("disk_refuses", "Whether the state cannot be written.", bool(now.refusing_disk)),
        ):
            yield GaugeMetricFamily(f"towline_agent_{name}", what, value=float(value))


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise Invalid(f"{listen!r} is not an address to listen on: 0.0.0.0:8080")
    return host.strip("[]"), int(port)
