"""Data links: a second connection of an agent, over which the native hub sends requests.
The control link carries a ticket; the agent dials the users' port with it. An agent that cannot
reach that port has no data link, and all of its requests go over the control link. Agents without
requests have none either, so that they cost no memory.
"""

import secrets

from core.mux.codec import KIND_DATA_LINK, Open, ProtocolError
from core.mux.mux import Mux
from core.mux.stream import NO_OWNER
from core.native import NativeHub
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.ports import AgentRoute

TENANT = b"data link"
RETRY_SECONDS = 30.0


class DataLinks:
    """Offers data links to agents with requests. `port`: the users' HTTPS port. `version`: that of
    this control plane's data links; agents with another one get none.
    """

    def __init__(self, hub: NativeHub, clock: Clock, version: int) -> None:
        self.port, self.version = 0, version
        self._hub, self._clock = hub, clock
        self._numbers: dict[Mux, int] = {}
        self.tasks = Tasks("data links")

    def start(self) -> None:
        """Starts to replace data links that have ended."""
        self.tasks.forever("retry", self._offer_again())

    def find_or_offer(self, route: AgentRoute) -> int:
        """Returns the number of an open data link to an agent. 0: there is none; the first call
        offers one.
        """
        if not isinstance(route, Mux):
            return 0
        if route not in self._numbers:
            self._offer(route)
        return self._open_number(route)

    def _open_number(self, link: Mux) -> int:
        number = self._numbers.get(link, 0)
        return number if self._hub.link_is_open(number) else 0

    def _offer(self, link: Mux) -> None:
        """Offers a data link beside a control link."""
        peer = link.peer
        is_compatible = peer is not None and peer.data_link == self.version
        if not self.port or not link.accepts_streams or not is_compatible:
            return
        number, ticket = self._hub.offer_link()
        self._hub.close_link(self._numbers.get(link, 0))
        self._numbers[link] = number
        request = Open(
            f"{self.port} {ticket}".encode(), b"", secrets.token_bytes(16), kind=KIND_DATA_LINK
        )
        try:
            link.open(NO_OWNER, request, tenant=TENANT)
        except ProtocolError:
            self.forget(link)

    def forget(self, link: Mux) -> None:
        """Closes the data link of a control link that has ended."""
        self._hub.close_link(self._numbers.pop(link, 0))

    async def _offer_again(self) -> None:
        while True:
            await self._clock.sleep(RETRY_SECONDS)
            for link in [link for link in self._numbers if not self._open_number(link)]:
                self._offer(link)
