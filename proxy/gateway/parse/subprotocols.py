"""Bearer credentials among a WebSocket's subprotocols, in the format of the Kubernetes API
server.
"""

import base64
import binascii

from proxy.gateway.parse.bad_head import BadHead

BEARER_PROTOCOL = b"base64url.bearer.authorization.k8s.io."


def credentials_in(value: bytes) -> list[str]:
    """Lists the credentials in a Sec-WebSocket-Protocol field. BadHead: one is not base64url."""
    return [
        _decode_credential(protocol)
        for protocol in _protocols(value)
        if protocol.startswith(BEARER_PROTOCOL)
    ]


def without_credential(value: bytes) -> bytes:
    """Removes the credentials from the field; drop the field if the result is empty."""
    return b", ".join(
        protocol for protocol in _protocols(value) if not protocol.startswith(BEARER_PROTOCOL)
    )


def _protocols(value: bytes) -> list[bytes]:
    return [protocol.strip() for protocol in value.split(b",")]


def _decode_credential(protocol: bytes) -> str:
    encoded = protocol[len(BEARER_PROTOCOL) :]
    try:
        return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadHead(401, "the bearer subprotocol is not base64url") from None
