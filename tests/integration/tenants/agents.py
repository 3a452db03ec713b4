"""An agent of the cluster with the audit log, which a control plane of the test sends orders."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from syncagent.compose import build
from syncagent.settings import HubSettings, KubernetesSettings, Settings, StateSettings
from tests.fakes.hub import TOKEN, FakeHub
from tests.integration.tenants.conftest import AuditedCluster


@asynccontextmanager
async def agent_of(hub: FakeHub, audited: AuditedCluster, folder: Path) -> AsyncGenerator[None]:
    settings = Settings(
        HubSettings(hub.address, TOKEN),
        KubernetesSettings(audited.cluster.kubeconfig),
        StateSettings(folder),
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(build(settings).run(stop))
        try:
            yield
        finally:
            stop.set()
