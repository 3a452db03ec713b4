"""Runs, diagnoses and upgrades an agent process."""

import asyncio
import gc
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial

from core.runtime.clock import Clock, SystemClock
from core.runtime.process import raise_descriptor_limit, stop_on_signal
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer
from syncagent import compose
from syncagent.kube.client import KubeClient
from syncagent.kube.cluster import KubeCluster
from syncagent.settings import KubernetesSettings, Settings, from_environment
from syncagent.upkeep.credentials import check_token
from syncagent.upkeep.doctor import diagnose as examine_steps
from syncagent.upkeep.upgrade import replace_image
from towline.cli.lazy_import import load

_COLLECT_AFTER = (5_000, 20, 20)

Show = Callable[[bool, bool, str, str], None]


class _NoAnswers:
    """Takes no answers: the doctor executes no commands."""

    def done(self, done: CommandAnswer) -> None:
        """Drops the answer."""


async def run(environ: Mapping[str, str]) -> None:
    """Runs an agent until SIGTERM or SIGINT. Raises Invalid for wrong settings."""
    clock, configured = SystemClock(), from_environment(environ)
    raise_descriptor_limit()
    async with stop_on_signal() as stop:
        settings = await joined_settings(configured, clock, stop)
        if settings is not None:
            await _run(settings, clock, stop)


async def joined_settings(settings: Settings, clock: Clock, stop: asyncio.Event) -> Settings | None:
    """Returns settings with a deploy token; None if the agent is stopped before it has joined.

    Raises Invalid if the control plane refuses the bootstrap token or the cluster.
    """
    joining = asyncio.ensure_future(compose.joined_settings(settings, clock))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((joining, stopping), return_when=asyncio.FIRST_COMPLETED)
        return joining.result() if joining.done() else None
    finally:
        joining.cancel()
        stopping.cancel()
        await asyncio.wait((joining, stopping))


async def _run(settings: Settings, clock: Clock, stop: asyncio.Event) -> None:
    defines = settings.autonomy.defines
    # Most agents need no Git and no issuer: modules that are not imported take no memory.
    repositories = load("towline.agent_repositories").build(settings, clock) if defines else None
    renders = load("towline.agent_renders").build(settings, clock) if settings.git.renders else None
    identity = settings.identity
    opened = (
        load("towline.agent_identity").open_proofs(identity, clock)
        if identity.issuer
        else nullcontext()
    )
    async with opened as proofs:
        agent = compose.build(settings, clock, repositories, renders, proofs)
        # Imported modules stay for ever: the garbage collector need not scan them again.
        gc.freeze()
        # A large sync creates many live objects: collect less often, as few of them are garbage.
        gc.set_threshold(*_COLLECT_AFTER)
        await agent.run(stop)


async def diagnose(environ: Mapping[str, str], show: Show) -> bool:
    """Runs all checks and shows each result; returns true if all required checks passed."""
    settings, clock, is_healthy = from_environment(environ), SystemClock(), True
    kubernetes = settings.kubernetes
    access = compose.access_to(kubernetes, clock)
    client = KubeClient(access, clock, kubernetes.concurrency)
    tunnel_check = partial(compose.tunnel_problem, kubernetes, access, client, clock)
    try:
        if not settings.hub.token:
            settings, join_check = await compose.check_join(settings, client)
            show(join_check.good, join_check.needed, join_check.step, join_check.text)
            if not settings.hub.token:
                return join_check.good
        hub, folder = compose.control_plane_access(settings.hub), settings.state.directory
        async for step in examine_steps(hub, client, folder, tunnel_check):
            show(step.good, step.needed, step.step, step.text)
            is_healthy = is_healthy and (step.good or not step.needed)
        freeze = compose.freeze_switch(settings, clock, _NoAnswers())
        if freeze.enabled:
            show(not freeze.reason, False, "freeze", freeze.reason or "not frozen")
        checks = [compose.signing_key_check(settings)]
        if access.kubeconfig_token:
            checks.append(check_token(access.kubeconfig_token.current, clock.now()))
        for step in checks:
            show(step.good, step.needed, step.step, step.text)
            is_healthy = is_healthy and (step.good or not step.needed)
    finally:
        await client.close()
    return is_healthy


async def replace_agent_image(namespace: str, deployment: str, image: str, old: str) -> str:
    """Replaces the image of this cluster's agent; returns a summary. Raises Invalid on failure."""
    clock = SystemClock()
    client = compose.client_of(KubernetesSettings(), clock)
    try:
        deployment_ref = ObjectRef("apps", "v1", "Deployment", namespace, deployment)
        return await replace_image(KubeCluster(client, clock), deployment_ref, image, old, clock)
    finally:
        await client.close()
