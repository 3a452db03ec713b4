"""The message that opens the stream of a request to its agent."""

from core.errors import Forbidden
from core.identity import token_kind
from core.mux.codec import (
    FEATURE_PROOF,
    FLAG_HEAD,
    FLAG_NOBODY,
    FLAG_PASSTHROUGH,
    FLAG_UPGRADE,
    MAX_PROOF,
    Open,
    add_proof,
    split_proof,
)
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
        if authorized.agent.features & FEATURE_PROOF and (proof := _proof(parsed, authorized)):
            block = add_proof(block, proof)
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


def tenant_of(message: Open, authorized: AuthorizedRequest) -> bytes:
    """The unit of fair queueing: the user, with any number of tokens."""
    return split_proof(message.identity)[0] or authorized.identity.name.encode()


def _proof(parsed: ParsedRequest, authorized: AuthorizedRequest) -> bytes:
    """The user's own ID token, for the agent to verify; empty: the request has none.

    A request that names another user (`kubectl --as`) has none: the token proves its owner only.
    """
    credential = parsed.read_credential()
    if credential is None or credential.kind is not CredentialKind.BEARER:
        return b""
    is_jwt = token_kind(credential.secret) is None and credential.secret.count(".") == 2
    is_short_jwt = is_jwt and len(credential.secret) <= MAX_PROOF
    is_own = authorized.acting_as == authorized.grant.impersonate
    return credential.secret.encode("latin-1") if is_short_jwt and is_own else b""


def _check_passthrough(parsed: ParsedRequest) -> None:
    """Checks the token for passthrough. Forbidden: it is one of our credentials."""
    credential = parsed.credential
    is_foreign = credential is not None and token_kind(credential.secret) is None
    if credential is None or credential.kind is not CredentialKind.BEARER or not is_foreign:
        raise Forbidden(
            f'cluster "{parsed.route.handle}" accepts only tokens of your identity provider'
        )


def _flags(head: RequestHead) -> int:
    flags = FLAG_HEAD if head.method == b"HEAD" else 0
    if head.upgrade is not None:
        return flags | FLAG_UPGRADE
    return flags if head.has_body else flags | FLAG_NOBODY
