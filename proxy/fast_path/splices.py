"""Requests that the gateway has authorized, and whose bytes the native hub moves to their end."""

import asyncio
from dataclasses import dataclass

from core.mux.codec import FLAG_HEAD, FLAG_NOBODY, FLAG_UPGRADE, Open
from core.native import NativeHub, Report
from proxy.domain.audit import EndReason
from proxy.fast_path.hub_request import HubRequest
from proxy.fast_path.repeats import END_REASONS, ENDED
from proxy.gateway.forward.agent_request import tenant_of
from proxy.gateway.forward.proxied_request import ProxiedRequest
from proxy.gateway.forward.splice import SpliceEnd
from proxy.tunnel.data_links import DataLinks

REPORTS_AT_ONCE = 200
# Round trip of a line within one data center.
NEAR_SECONDS = 0.005
_DECLINED, _LOST, _BEGUN = 5, 6, 7


@dataclass(frozen=True, slots=True)
class ConnectionPosition:
    """A connection of the hub, and its position: the numbers of bytes read and written."""

    connection: int
    read: int
    written: int


class SplicedRequests:
    """Hands requests over to the hub, and follows them to their end. `served` counts those whose
    response the hub has begun.
    """

    def __init__(self, hub: NativeHub, links: DataLinks) -> None:
        self._hub, self._links = hub, links
        self._requests: dict[int, ProxiedRequest] = {}
        # Python serves a request after all if the hub reports that it cannot.
        self._messages: dict[int, Open] = {}
        self.served = 0

    def start(self) -> None:
        """Starts handling the reports of the hub."""
        asyncio.get_running_loop().add_reader(self._hub.reports(), self.take_reports)

    def stop(self) -> None:
        """Ends the open requests; the hub serves nothing any more."""
        asyncio.get_running_loop().remove_reader(self._hub.reports())
        self.take_reports()
        for request in tuple(self._requests.values()):
            request.on_splice_over(SpliceEnd(0, 0, 0, EndReason.DRAINED))
        self._requests.clear()
        self._messages.clear()

    def requests(self) -> list[ProxiedRequest]:
        """Lists the open requests whose response has begun, with their present sizes."""
        for number, bytes_in, bytes_out in self._hub.spliced():
            if (request := self._requests.get(number)) is not None:
                request.record.bytes_in, request.record.bytes_out = bytes_in, bytes_out
        return [request for request in self._requests.values() if request.detached]

    def hand_over(
        self, position: ConnectionPosition, request: ProxiedRequest, message: Open
    ) -> bool:
        """Hands a request over; False: the gateway has to forward it."""
        authorized = request.authorized
        if authorized is None or not _can_move(request, message):
            return False
        link = self._links.find_or_offer(authorized.agent)
        head_parts = message.split_at_audit_id() if link else None
        runs_long = _runs_long(request, message)
        if head_parts is None or not runs_long and self._compression_helps(request, link):
            return False
        number = self._hub.splice(
            position.connection,
            position.read,
            position.written,
            link,
            message.identity,
            *head_parts,
            message.request_id,
            bool(message.flags & FLAG_UPGRADE),
            runs_long,
            request.keeps_alive,
            tenant_of(message, authorized),
        )
        if not number:
            return False
        self._requests[number], self._messages[number] = request, message
        request.splice = HubRequest(self._hub, number)
        return True

    def _compression_helps(self, request: ProxiedRequest, link: int) -> bool:
        """Reports whether a read may need the compression of the control link: the API server does
        not compress its response, and a far line is likely to be a slow one.
        """
        return not (request.accepts_gzip or 0 < self._hub.link_round_trip(link) < NEAR_SECONDS)

    def take_reports(self) -> None:
        """Handles the reports about requests."""
        for report in self._hub.take_reports(REPORTS_AT_ONCE):
            self._on_report(report)

    def _on_report(self, report: Report) -> None:
        number, state, status, bytes_in, bytes_out = report
        request = self._requests.get(number)
        if request is None:
            return
        if state == _BEGUN:
            self.served += 1
            del self._messages[number]
            request.on_splice_begun(status)
            return
        del self._requests[number]
        message = self._messages.pop(number, None)
        if state in {_DECLINED, _LOST} and message is not None:
            request.take_back(message, unsent=state == _DECLINED)
        else:
            reason = None if state == ENDED else END_REASONS[state]
            request.on_splice_over(SpliceEnd(status, bytes_in, bytes_out, reason))


def _can_move(request: ProxiedRequest, message: Open) -> bool:
    """Reports whether native code can serve a request: a read without content, or an upgrade that
    is not recorded.
    """
    attributes, flags = request.record.attributes, message.flags & ~FLAG_HEAD
    if flags == FLAG_UPGRADE:
        return not request.record.recorded
    return attributes is not None and not attributes.writes and flags == FLAG_NOBODY


def _runs_long(request: ProxiedRequest, message: Open) -> bool:
    """Reports whether a request is an upgrade, a watch or a log that is followed."""
    attributes = request.record.attributes
    is_stream = attributes is not None and attributes.long_running
    return is_stream or bool(message.flags & FLAG_UPGRADE)
