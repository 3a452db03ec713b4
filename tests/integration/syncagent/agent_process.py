"""An agent in a process of its own, so that a test can kill it.

python agent_process.py HUB KUBECONFIG STATE
"""

import asyncio
import sys
from pathlib import Path

from core.runtime.logs import configure
from core.runtime.process import stop_on_signal
from syncagent.compose import build
from syncagent.settings import HubSettings, KubernetesSettings, Settings, StateSettings
from tests.fakes.hub import TOKEN


async def run(hub: str, kubeconfig: str, state: str) -> None:
    """Run until a signal comes."""
    settings = Settings(
        HubSettings(hub, TOKEN), KubernetesSettings(Path(kubeconfig)), StateSettings(Path(state))
    )
    async with stop_on_signal() as stop:
        await build(settings).run(stop)


if __name__ == "__main__":
    configure(json=True)
    asyncio.run(run(*sys.argv[1:]))
