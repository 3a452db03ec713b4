"""An open request, from the point of view of the gateway."""

from typing import Protocol

from proxy.domain.audit import EndReason, RequestRecord
from proxy.gateway.authorize.authorizer import AuthorizedRequest
from proxy.gateway.error_response import ErrorResponse


class OpenRequest(Protocol):
    """A request that can be listed, authorized again and ended."""

    @property
    def record(self) -> RequestRecord: ...

    @property
    def authorized(self) -> AuthorizedRequest | None: ...

    @property
    def ready(self) -> bool:
        """Reports whether the request was forwarded."""
        ...

    @property
    def age(self) -> float:
        """Seconds since the request head arrived."""
        ...

    def end(self, response: ErrorResponse, reason: EndReason) -> None:
        """Ends the request: with a response if none has begun, otherwise with a reset."""
        ...

    def end_between_events(self) -> bool:
        """Ends a watch cleanly if it is between two events."""
        ...
