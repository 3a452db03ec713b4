"""Proof of a user's identity that the control plane cannot make: the user's own ID token.

With an issuer pinned by the cluster's operator, the agent impersonates only the user whom the
token names. A request without a token is sent as an unproven user, in one group without further
groups, and never reaches a Secret.
"""

import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote

from core.errors import Unauthenticated
from core.mux.codec import Open, split_proof
from syncagent.tunnel.guard import ForwardingRefused, Guard

UNPROVEN = "towline:unproven"
UNPROVEN_WARNING = (
    b'Warning: 299 towline "this request has no proof of identity, so the cluster treats its user '
    b'as unproven; see Proof of identity in the documentation of Towline"\r\n'
)
_CLAIMED = re.compile(rb"Impersonate-User: ([^\r\n]+)\r\n")


class ProofVerifier(Protocol):
    """Verifies tokens; each identity block has the header lines `Impersonate-*`."""

    def cached_block(self, token: bytes) -> bytes | None:
        """Returns the identity block of a token that was verified recently."""
        ...

    async def verify(self, token: bytes) -> bytes:
        """Returns the identity block of a token. Raises Unauthenticated, naming the failed check
        with the expected value. Unavailable: the issuer's keys cannot be fetched.
        """
        ...


@dataclass(frozen=True, slots=True)
class Admitted:
    """Admission of a request: the lines to add to its response, and the proof to verify first."""

    response_fields: bytes = b""
    proof: bytes = b""


ADMITTED = Admitted()
UNPROVEN_REQUEST = Admitted(UNPROVEN_WARNING)


class RequestIdentity:
    """Sets the identity of each request: the proven one, or that of an unproven user.

    Without `proofs`, the agent accepts the identity that the control plane sends, within the policy
    of the guard.
    """

    def __init__(self, guard: Guard, proofs: ProofVerifier | None) -> None:
        self._guard, self.proofs = guard, proofs

    def admit(self, request: Open) -> Admitted:
        """Checks a request and replaces its identity. ForwardingRefused: it may not be sent."""
        if self.proofs is None:
            self._guard.check(request.identity, request.head)
            return ADMITTED
        claimed, token = split_proof(request.identity)
        self._guard.check_head(request.head)
        if not token:
            self._guard.check(claimed, request.head)
            request.identity = unproven_block(claimed)
            if names_secrets(request.head):
                raise ForwardingRefused("Secrets need a proof of identity, such as an ID token")
            return UNPROVEN_REQUEST
        block = self.proofs.cached_block(token)
        request.identity = block or b""
        return ADMITTED if block is not None else Admitted(proof=token)

    async def prove(self, token: bytes) -> bytes:
        """Returns the proven identity; see `ProofVerifier.verify`."""
        if self.proofs is None:
            raise Unauthenticated("this cluster has no issuer for proofs of identity")
        return await self.proofs.verify(token)


def unproven_block(claimed: bytes) -> bytes:
    """Encodes the identity of an unproven user; the name says whom the control plane claims."""
    match = _CLAIMED.search(claimed)
    name = match[1] if match is not None else b"unknown"
    group = UNPROVEN.encode()
    return b"Impersonate-User: %s:%s\r\nImpersonate-Group: %s\r\n" % (group, name, group)


def names_secrets(head: bytes) -> bool:
    """Reports whether the path of a request leads to Secrets of any API group."""
    target = head.split(b" ", 2)[1].decode("latin-1")
    segments = [segment for segment in unquote(target.partition("?")[0]).split("/") if segment]
    resource_path = segments[2:] if segments[:1] == ["api"] else segments[3:]
    if resource_path[:1] in (["watch"], ["proxy"]):
        resource_path = resource_path[1:]
    resource = (
        resource_path[2:3]
        if resource_path[:1] == ["namespaces"] and len(resource_path) > 2
        else resource_path[:1]
    )
    return resource == ["secrets"]
