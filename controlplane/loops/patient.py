"""Retries steps of loops until they succeed, for example while the store does not answer."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from controlplane.loops.keyed import RETRY_SECONDS
from fleet.errors import TowlineError
from fleet.runtime.clock import Clock

log = structlog.get_logger(__name__)

T = TypeVar("T")


async def patiently(name: str, step: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Returns the result of `step`; retries every 5 s while it fails."""
    while True:
        try:
            return await step()
        except TowlineError as error:
            log.warning("will try again", work=name, error=error.message)
            await clock.sleep(RETRY_SECONDS)
