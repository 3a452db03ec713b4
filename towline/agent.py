"""The agent's process from start to end, and the questions that its doctor asks."""

import gc
from collections.abc import Callable, Mapping

from fleet.runtime.clock import SystemClock
from fleet.runtime.process import stop_on_signal
from syncagent import compose
from syncagent.domain.objects import ObjectRef
from syncagent.kube.cluster import KubeCluster
from syncagent.settings import KubernetesSettings, from_environment
from syncagent.upkeep.doctor import examine as examine_steps
from syncagent.upkeep.upgrade import replace_image
from towline.cli.lazy import load

_COLLECT_AFTER = (5_000, 20, 20)

Show = Callable[[bool, bool, str, str], None]


async def run(environ: Mapping[str, str]) -> None:
    """Run an agent until SIGTERM or SIGINT. Invalid: its settings cannot work."""
    settings, clock = from_environment(environ), SystemClock()
    defines = settings.autonomy.defines
    # Most agents need no git: what they do not import they do not hold in memory.
    repositories = load("towline.agentgit").build(settings, clock) if defines else None
    renders = load("towline.agentrenders").build(settings, clock) if settings.git.renders else None
    agent = compose.build(settings, clock, repositories, renders)
    # What has been imported stays: it need not be looked through again and again.
    gc.freeze()
    # Objects on their way are no garbage: a sync of many looks through them less often.
    gc.set_threshold(*_COLLECT_AFTER)
    async with stop_on_signal() as stop:
        await agent.run(stop)


async def examine(environ: Mapping[str, str], show: Show) -> bool:
    """Show each finding as it is made; whether all that is needed is there."""
    settings, well = from_environment(environ), True
    client = compose.client_of(settings.kubernetes, SystemClock())
    try:
        folder = settings.state.directory
        async for step in examine_steps(compose.way_of(settings.hub), client, folder):
            show(step.good, step.needed, step.step, step.text)
            well = well and (step.good or not step.needed)
    finally:
        await client.close()
    return well


async def replace(namespace: str, deployment: str, image: str, old: str) -> str:
    """Put an image in the place of this cluster's agent; what was done. Invalid: it is not."""
    clock = SystemClock()
    client = compose.client_of(KubernetesSettings(), clock)
    try:
        home = ObjectRef("apps", "v1", "Deployment", namespace, deployment)
        return await replace_image(KubeCluster(client, clock), home, image, old, clock)
    finally:
        await client.close()
