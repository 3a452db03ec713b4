"""Retries steps of loops until they succeed, for example while the store does not answer."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock

log = structlog.get_logger(__name__)

T = TypeVar("T")

RETRY_SECONDS = 5.0


async def retry_forever(name: str, step: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Returns the result of `step`; retries every 5 s while it fails."""
    while True:
        try:
            return await step()
        except TowlineError as error:
            log.warning("retrying", work=name, error=error.message)
            await clock.sleep(RETRY_SECONDS)
