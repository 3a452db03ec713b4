"""The message that opens the stream of a request to its agent."""

from core.errors import Forbidden
from core.identity import token_kind
from core.mux.codec import FLAG_HEAD, FLAG_NOBODY, FLAG_PASSTHROUGH, FLAG_UPGRADE, Open
from proxy.domain.access import CredentialKind, identity_block
from proxy.gateway.authorize.authorizer import AuthorizedRequest
from proxy.gateway.parse.head import RequestHead, rebuild
from proxy.gateway.parse.parsed_request import ParsedRequest


def open_message(
    parsed: ParsedRequest, authorized: AuthorizedRequest, request_id: str, *, recorded: bool
) -> Open:
    """Builds the message: the rebuilt head and the identity for the API server.
    Forbidden: the API server would get one of our credentials, or the identity is too long.
    """
    flags, block = _flags(parsed.head), b""
    passthrough = authorized.grant.passthrough
    if passthrough:
        _check_passthrough(parsed)
        flags |= FLAG_PASSTHROUGH
    else:
        block = identity_block(authorized.acting_as)
    if passthrough or recorded:
        head = rebuild(
            parsed.head,
            parsed.route.target,
            request_id,
            passthrough=passthrough,
            recorded=recorded,
        )
    else:
        head = parsed.rebuilt(request_id)
    return Open(head, block, bytes.fromhex(request_id), flags)


def _check_passthrough(parsed: ParsedRequest) -> None:
    """Checks the token for passthrough. Forbidden: it is one of our credentials."""
    shown = parsed.credential
    is_foreign = shown is not None and token_kind(shown.secret) is None
    if shown is None or shown.kind is not CredentialKind.BEARER or not is_foreign:
        raise Forbidden(
            f'cluster "{parsed.route.handle}" accepts only tokens of your identity provider'
        )


def _flags(head: RequestHead) -> int:
    flags = FLAG_HEAD if head.method == b"HEAD" else 0
    if head.upgrade is not None:
        return flags | FLAG_UPGRADE
    return flags if head.has_body else flags | FLAG_NOBODY
