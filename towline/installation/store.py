"""Access of operator tasks to the store of an installation, beside its control plane."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.foundation import open_engine
from controlplane.settings import ControlPlaneSettings
from towline.settings import ServeSettings


@asynccontextmanager
async def opened_engine(settings: ServeSettings) -> AsyncGenerator[AsyncEngine]:
    """Opens the database for a block, without a migration."""
    engine = open_engine(store_settings(settings))
    try:
        yield engine
    finally:
        await engine.dispose()


def store_settings(settings: ServeSettings) -> ControlPlaneSettings:
    """Settings of a control plane that only uses its store."""
    return ControlPlaneSettings(data_dir=settings.data, database=settings.database)


def is_missing(settings: ServeSettings) -> bool:
    """Returns true if the store is an embedded one that no start has created yet."""
    return settings.database is None and not (settings.data / "towline.db").exists()
