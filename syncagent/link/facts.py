"""Reports facts about the cluster: with the greeting, and again after changes."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.spec.facts import ClusterFacts

log = structlog.get_logger(__name__)

Look = Callable[[], Awaitable[ClusterFacts]]

_TIMEOUT_S = 3.0
_EVERY_S = 300.0


class FactReports(Protocol):
    """Receiver of facts."""

    def facts(self, facts: ClusterFacts) -> None: ...


class ClusterFactsCache:
    """The last known facts; reads them every five minutes and reports only changes."""

    def __init__(self, look: Look, clock: Clock) -> None:
        self._read_facts = look
        self._clock = clock
        self._reported = ClusterFacts()

    async def known(self) -> ClusterFacts:
        """Reads the facts without a long wait; falls back to the last known ones."""
        found = await self._collect()
        if found is not None:
            self._reported = found
        return self._reported

    async def watch(self, reports: FactReports) -> None:
        """Reports changed facts until cancelled."""
        while True:
            await self._clock.sleep(_EVERY_S * random.uniform(0.8, 1.2))
            found = await self._collect()
            if found is None or found == self._reported:
                continue
            try:
                reports.facts(found)
                self._reported = found
            except TowlineError as error:
                log.error("facts cannot be reported", error=error.message)

    async def _collect(self) -> ClusterFacts | None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await self._read_facts()
        except (TowlineError, TimeoutError) as error:
            log.warning("cluster cannot be described", error=str(error) or "no answer in time")
            return None
