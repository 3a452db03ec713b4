"""The agent's data link, whose requests native code forwards. The agent checks each of them first,
or has admitted one with the same head before.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.errors import TowlineError
from core.mux.codec import FLAG_NOBODY, FLAG_PASSTHROUGH, FLAG_UPGRADE, Open
from core.mux.stream import TunnelStream
from core.native import NativeAgent, NativeAgentLink, is_available, native_agent
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from syncagent.tunnel.upstream import TOKEN_SECONDS, Upstream, UpstreamPool

ADMITTED_SECONDS = 60.0
POLL_SECONDS = 1.0
QUESTIONS_AT_ONCE = 100
_REPEATABLE = (b"GET ", b"HEAD ")


@dataclass(frozen=True, slots=True)
class ControlPlaneHost:
    """Host of the control plane, without its port. `authorities` (DER): None means no TLS."""

    host: str
    authorities: Sequence[bytes] | None

    @classmethod
    def of(cls, direct: tuple[str, ssl.SSLContext | None] | None) -> "ControlPlaneHost | None":
        """Describes the host of `syncagent.link.channel.Endpoint.direct_host`."""
        return cls(direct[0], trusted_authorities(direct[1])) if direct is not None else None


def trusted_authorities(tls: ssl.SSLContext | None) -> list[bytes] | None:
    """Lists the certificates (DER) that a context trusts; None for no TLS."""
    return None if tls is None else tls.get_ca_certs(binary_form=True)


def native_upstream(upstream: Upstream) -> NativeAgent | None:
    """Creates the native end for an API server; None: the module is not installed, or cannot serve
    this one, such as with a client certificate, without verification or through a proxy. Reads
    the authorities once: after their rotation, requests go through Python until a restart.
    """
    tls = upstream.tls() if upstream.tls else None
    verifies = tls is None or (tls.check_hostname and bool(tls.get_ca_certs()))
    is_direct = not upstream.trusts_connections and not upstream.proxy and not upstream.server_name
    if not is_direct or not verifies or not is_available():
        return None
    return native_agent(upstream.host, upstream.port, trusted_authorities(tls))


class DataLink:
    """The data link beside one control link. Requests that were checked are admitted, for the next
    ones with the same identity and head. `allows` checks a request as on the control link.
    """

    def __init__(
        self,
        native: NativeAgent,
        control_plane: ControlPlaneHost,
        pool: UpstreamPool,
        clock: Clock,
        tasks: Tasks,
        allows: Callable[[Open], bool],
    ) -> None:
        self._native, self._control_plane = native, control_plane
        self._pool, self._clock, self._tasks = pool, clock, tasks
        self._allows = allows
        self._link: NativeAgentLink | None = None

    def open(self, stream: TunnelStream, request: Open) -> None:
        """Dials the control plane with the ticket of a stream."""
        port, _, ticket = request.head.decode("ascii", "replace").partition(" ")
        stream.reset()
        self.close()
        if port.isdecimal() and 0 < int(port) < 65536:
            host, authorities = self._control_plane.host, self._control_plane.authorities
            link = self._link = self._native.open_link(host, int(port), authorities, ticket)
            loop = asyncio.get_running_loop()
            loop.add_reader(self._native.questions(), self._answer_questions)
            self._tasks.spawn("data link", self._keep_credential_fresh(link))

    def admit(self, request: Open) -> None:
        """Admits the repetitions of a request that the guard has admitted."""
        repeatable = request.head.startswith(_REPEATABLE) and request.flags & FLAG_NOBODY
        if (
            self._link is None
            or not repeatable
            or request.flags & (FLAG_UPGRADE | FLAG_PASSTHROUGH)
        ):
            return
        if (parts := request.split_at_audit_id()) is not None:
            before, after = parts
            self._native.admit(
                request.identity,
                before,
                after,
                self._pool.prefixed_head(before),
                after[:-2] + request.identity,
                ADMITTED_SECONDS,
            )

    @property
    def is_busy(self) -> bool:
        """Reports whether requests are open."""
        return self._link is not None and self._link.is_busy

    def clear(self) -> None:
        """Drops all admissions, and ends all open requests."""
        self._native.clear()

    def close(self) -> None:
        """Ends the link."""
        link, self._link = self._link, None
        if link is not None:
            asyncio.get_running_loop().remove_reader(self._native.questions())
            link.close()

    def _answer_questions(self) -> None:
        """Checks requests that were not admitted."""
        for number, identity, head, id, upgrade in self._native.take_questions(QUESTIONS_AT_ONCE):
            request = Open(head, identity, id, FLAG_UPGRADE if upgrade else FLAG_NOBODY)
            if not self._allows(request):
                self._native.answer(number, None)
            elif (fields := self._pool.fields) is not None:
                self._answer(number, request, fields)
            else:
                self._tasks.spawn("question", self._answer_with_new_token(number, request))

    def _answer(self, number: int, request: Open, fields: bytes) -> None:
        self.admit(request)
        self._native.answer(number, self._pool.complete_head(request, fields))

    async def _answer_with_new_token(self, number: int, request: Open) -> None:
        try:
            self._answer(number, request, await self._pool.refresh())
        except (TowlineError, OSError):
            # The control plane repeats it over the control link, where the user gets the reason.
            self._native.answer(number, None)

    async def _keep_credential_fresh(self, link: NativeAgentLink) -> None:
        """Renews the credential until the link ends."""
        renewed_at = float("-inf")
        while link.is_open and link is self._link:
            if self._clock.monotonic() >= renewed_at + TOKEN_SECONDS / 2:
                renewed_at = self._clock.monotonic()
                await self._renew_credential()
            await self._clock.sleep(POLL_SECONDS)

    async def _renew_credential(self) -> None:
        try:
            self._native.set_credential(await self._pool.refresh(), TOKEN_SECONDS)
        except (TowlineError, OSError):
            # The old one expires; a request over the control link gets the reason.
            return
