"""The process of `--target gitcache`: one replica of the git cache."""

import gc
from contextlib import AsyncExitStack
from dataclasses import dataclass

import structlog
from prometheus_client import make_asgi_app
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from core.runtime.clock import Clock, SystemClock
from core.runtime.tasks import Tasks
from towline.serve.git_cache import GitCacheComponent
from towline.serve.lifecycle import run_until_stopped, wait_for_failure
from towline.serve.log_level import LogLevelFollower
from towline.serve.metrics import make_registry, metrics_listener
from towline.serve.sockets import OFF, serve
from towline.settings import ServeSettings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GitCacheAddresses:
    """Addresses of the listeners; None for a disabled one."""

    peers: str
    metrics: str | None = None


class GitCacheProcess:
    """Runs the git cache, its internal listener, and a listener for metrics and health."""

    def __init__(self, settings: ServeSettings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._git_cache = GitCacheComponent(settings, self._clock)
        self._tasks = Tasks("serve")
        self._exit_stack = AsyncExitStack()
        self._is_ready = False

    async def start(self) -> GitCacheAddresses:
        """Starts everything; returns the addresses. Raises Unavailable or Invalid on failure."""
        try:
            addresses = await self._start()
        except BaseException:
            await self.stop()
            raise
        gc.collect()
        gc.freeze()
        self._is_ready = True
        return addresses

    async def stop(self) -> None:
        """Hands over repositories to other replicas, then stops."""
        self._is_ready = False
        await self._exit_stack.aclose()

    def parts(self) -> tuple[Tasks, ...]:
        """Background tasks that must not end before `stop`."""
        return (self._tasks, *self._git_cache.parts())

    async def wait_failed(self) -> BaseException:
        """Waits until a background task ends unexpectedly; returns the reason."""
        return await wait_for_failure(self._tasks, self.parts())

    async def _start(self) -> GitCacheAddresses:
        self._settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._exit_stack.push_async_callback(self._tasks.stop)
        levels = LogLevelFollower(self._settings.data, self._settings.log_level, self._clock)
        self._tasks.forever("log level", levels.follow())
        metrics = None
        if self._settings.listen_metrics != OFF:
            metrics = await self._serve_metrics()
        self._exit_stack.push_async_callback(self._git_cache.stop)
        return GitCacheAddresses(await self._git_cache.start() or OFF, metrics)

    async def _serve_metrics(self) -> str:
        routes = [
            Route("/healthz", self._healthy),
            Route("/readyz", self._ready),
            Mount("/", make_asgi_app(make_registry(self._git_cache.meters))),
        ]
        listen_address = self._settings.listen_metrics
        listener = metrics_listener(Starlette(routes=routes), listen_address)
        port = await serve(self._tasks, "metrics", listener)
        self._exit_stack.push_async_callback(listener.drain)
        return f"{listener.config.host}:{port}"

    async def _healthy(self, request: Request) -> Response:
        return PlainTextResponse("ok")

    async def _ready(self, request: Request) -> Response:
        if self._is_ready:
            return PlainTextResponse("ok")
        return PlainTextResponse("starting or stopping", 503)


async def run(settings: ServeSettings) -> None:
    """Serves until SIGTERM or SIGINT; raises if a background task fails."""
    process = GitCacheProcess(settings)

    async def start() -> None:
        addresses = await process.start()
        log.info(
            "ready", action="serve.ready", peers=addresses.peers, metrics=addresses.metrics or OFF
        )

    await run_until_stopped(process, start)
