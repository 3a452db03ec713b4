"""`/healthz`, `/readyz` and `/metrics` on a port of the pod, for the kubelet and Prometheus."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from core.errors import Invalid, Unavailable


@dataclass(frozen=True, slots=True)
class Vitals:
    """Present state of the agent.

    `state_error`: error of the state directory, or empty. `joining`: the agent has no credentials
    yet.
    """

    linked: bool
    has_been_linked: bool
    services: int
    waiting_reports: int
    running_jobs: int
    state_error: str = ""
    joining: bool = False


Look = Callable[[], Vitals]


class StatusServer:
    """A small HTTP server; it exposes no names, no secrets and no services."""

    def __init__(self, listen: str, look: Look) -> None:
        self._host, self._port = _address(listen)
        self._read_vitals = look
        self._registry = CollectorRegistry()
        self._registry.register(_VitalsCollector(look))
        application = web.Application()
        application.router.add_get("/healthz", self._health)
        application.router.add_get("/readyz", self._ready)
        application.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(application, access_log=None)
        self.port = self._port

    async def start(self) -> None:
        """Starts to listen. Unavailable: the port is in use."""
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
        """Stops the server."""
        await self._runner.cleanup()

    async def _health(self, _: web.Request) -> web.Response:
        """Responds if the agent's event loop runs."""
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        """Ready once the agent has reached the control plane since its start, even if it is away
        now.
        """
        vitals = self._read_vitals()
        if vitals.state_error:
            return web.Response(status=503, text=f"{vitals.state_error}\n")
        if vitals.joining:
            return web.Response(status=503, text="the cluster has not joined yet\n")
        if not vitals.has_been_linked:
            return web.Response(status=503, text="has not reached the control plane yet\n")
        return web.Response(text="ok\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        page = generate_latest(self._registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


class _VitalsCollector:
    """Collects the metrics on each scrape."""

    def __init__(self, look: Look) -> None:
        self._read_vitals = look

    def collect(self) -> Iterator[Metric]:
        vitals = self._read_vitals()
        for name, what, value in (
            (
                "connected",
                "1 if the agent is connected to the control plane, else 0.",
                vitals.linked,
            ),
            ("services", "Number of services with a stored desired state.", vitals.services),
            (
                "waiting_reports",
                "Number of reports that the control plane has not acknowledged.",
                vitals.waiting_reports,
            ),
            ("running_jobs", "Number of unfinished jobs.", vitals.running_jobs),
            (
                "disk_failing",
                "1 if the agent cannot write its state directory, else 0.",
                bool(vitals.state_error),
            ),
        ):
            yield GaugeMetricFamily(f"towline_agent_{name}", what, value=float(value))


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise Invalid(f"{listen!r} is not an address to listen on, such as 0.0.0.0:8080")
    return host.strip("[]"), int(port)
