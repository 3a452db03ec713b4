"""When traces are told: every five seconds, of what has ended since."""

from collections.abc import Callable, Sequence

import structlog

from controlplane.domain.ledger import Edge
from controlplane.domain.spans import Span, spans_of
from controlplane.loops.patient import patiently
from controlplane.ports import SpanSink, Store
from fleet.errors import Unavailable
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 5.0
MOST_TRIES = 120
"""Ten minutes of them: what is not taken by then is at fault itself, and keeps the rest waiting."""
_AT_ONCE = 200


class TraceLoop:
    """Follows the ledger from where it stands now; while the collector is away it waits.

    `delivers` tells whether a repository is this process' to tell of, where there are several. A
    process that ends with something untold leaves it untold: traces show, they do not prove.
    """

    def __init__(
        self, store: Store, sink: SpanSink, delivers: Callable[[str], bool], clock: Clock
    ) -> None:
        self._store = store
        self._sink = sink
        self._delivers = delivers
        self._clock = clock
        self._told = self._settled = 0
        self._waiting: Edge | None = None
        self._refused = 0
        self.tasks = Tasks("traces")

    def start(self) -> None:
        """Begin in the background."""
        self.tasks.forever("tell", self._tell())

    async def _tell(self) -> None:
        edge = await patiently("find the ledger's end", self._edge, self._clock)
        self._told = self._settled = edge.last
        while True:
            while await patiently("tell traces", self._tell_some, self._clock):
                pass
            await self._clock.sleep(_LOOK_SECONDS)

    async def _edge(self) -> Edge:
        async with self._store.read() as tx:
            return await tx.deployments.edge()

    async def _tell_some(self) -> bool:
        """Whether there may be more."""
        if self._told == self._settled:
            self._settle(await self._edge())
        async with self._store.read() as tx:
            last, ended = await tx.deployments.ended(self._told, self._settled, _AT_ONCE)
        mine = [
            deployment
            for deployment in ended
            if self._delivers(deployment.repository_id or deployment.deployment.service_id)
        ]
        if mine:
            await self._export([span for deployment in mine for span in spans_of(deployment)])
        more, self._told = last > self._told, last
        return more

    def _settle(self, edge: Edge) -> None:
        """Go on to where no transaction that still runs may add a row.

        Rows are numbered as they are written and seen once they are committed: one with a lower
        number may come later than others.
        """
        waited, self._waiting = self._waiting, None
        if edge.oldest >= edge.newest:
            self._settled = edge.last
        elif waited is None or edge.oldest >= waited.newest:
            self._settled = waited.last if waited is not None else self._settled
            self._waiting = edge
        else:
            self._waiting = waited

    async def _export(self, spans: Sequence[Span]) -> None:
        try:
            await self._sink.export(spans)
        except Unavailable:
            self._refused += 1
            if self._refused < MOST_TRIES:
                raise
            log.warning("traces dropped: the collector never took them", spans=len(spans))
        self._refused = 0
