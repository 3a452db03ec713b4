"""The head of a request: strict parsing, validation, and rebuilding from scratch.
The proxy passes on no bytes of the client unchanged. It parses method, target and each field and
writes them again, so that the API server reads the request that was authorized.
"""

import re
from dataclasses import dataclass, field

import httptools

from proxy.domain.limits import HeadLimits
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.subprotocols import without_credential

END_OF_HEAD = b"\r\n\r\n"
METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
UPGRADES = frozenset({b"websocket", b"spdy/3.1"})
DROPPED = frozenset({
    b"authorization", b"cookie", b"forwarded", b"via", b"keep-alive", b"te", b"trailer",
    b"audit-id", b"connection", b"upgrade", b"host", b"transfer-encoding",
})  # fmt: skip
IMPERSONATE = b"impersonate-"
_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32} /")
_UNSUPPORTED_METHOD = "unsupported request method"
_NOTHING: frozenset[bytes] = frozenset()
_AUTHORIZATION = frozenset({b"authorization"})
_EXTENSIONS = frozenset({b"sec-websocket-extensions"})
DROPPED_PREFIXES = (b"proxy-", b"x-remote-", b"x-forwarded-", b"x-towline-", IMPERSONATE)


@dataclass(slots=True)
class RequestHead:
    """A parsed head; do not modify it after parsing. `length` None: no Content-Length.
    `fields` are (lower-case name, original name, value) in order; `index` holds their values by
    lower-case name. `impersonation` holds the client's own `Impersonate-*` fields with lower-case
    names.
    """

    method: bytes = b""
    target: bytes = b""
    version: str = "1.1"
    fields: list[tuple[bytes, bytes, bytes]] = field(default_factory=list, repr=False)
    impersonation: list[tuple[str, str]] = field(default_factory=list)
    keep_alive: bool = True
    upgrade: bytes | None = None
    length: int | None = None
    chunked: bool = False

    @property
    def has_body(self) -> bool:
        return self.chunked or bool(self.length)

    def values(self, name: bytes) -> list[bytes]:
        """Returns the values of a field by its lower-case name."""
        return [value for lower, _, value in self.fields if lower == name]


class _HeadParser:
    """httptools callbacks for exactly one head."""

    def __init__(self) -> None:
        self.head = RequestHead()
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.head.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        lower, value = name.lower(), value.strip(b" \t")
        self.head.fields.append((lower, name, value))
        if lower.startswith(IMPERSONATE):
            self.head.impersonation.append((lower.decode(), value.decode(errors="replace")))

    def on_headers_complete(self) -> None:
        self.complete = True


def parse_head(data: bytes, limits: HeadLimits) -> RequestHead:
    """Parses the head in `data`, which ends with the empty line. BadHead: refused."""
    collector = _HeadParser()
    parser = httptools.HttpRequestParser(collector)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserInvalidMethodError:
        status = 405 if _METHOD.match(data) else 400
        raise BadHead(status, _UNSUPPORTED_METHOD) from None
    except httptools.HttpParserError as error:
        raise BadHead(400, f"not an HTTP/1.1 request: {error}") from None
    if not collector.complete:
        raise BadHead(400, "not an HTTP/1.1 request")
    head = collector.head
    head.method, head.version = parser.get_method(), parser.get_http_version()
    line = b"%s %s HTTP/%s\r\n" % (head.method, head.target, head.version.encode())
    # The parser skips spaces where others do not.
    if not data.startswith(line):
        raise BadHead(400, "the first line must be a method, a path and a version, one space apart")
    _check_sizes(head, limits)
    _read_framing(head)
    _read_connection(head)
    return head


def validate_head(head: RequestHead) -> None:
    """Refuses heads that the parser accepts but no Kubernetes client sends. BadHead: refused."""
    if head.method not in METHODS:
        raise BadHead(405, _UNSUPPORTED_METHOD)
    if not head.target.startswith(b"/") or b"#" in head.target:
        raise BadHead(400, "the target of a request must be a path")
    if len(head.values(b"host")) != 1:
        raise BadHead(400, "a request needs exactly one Host field")
    expectations = head.values(b"expect")
    if expectations and [expectation.lower() for expectation in expectations] != [b"100-continue"]:
        raise BadHead(417, "unsupported Expect field: only 100-continue is supported")
    if head.upgrade is not None and head.upgrade.lower() not in UPGRADES:
        raise BadHead(400, "unsupported upgrade: only websocket and SPDY/3.1 are supported")
    if head.upgrade is not None and head.has_body:
        raise BadHead(400, "an upgrade request must not have a body")


def rebuild(
    head: RequestHead,
    target: bytes,
    audit_id: str,
    *,
    passthrough: bool = False,
    recorded: bool = False,
) -> bytes:
    """Builds the head to send, without Host and identity, which the agent adds.
    `passthrough`: keep the user's own Authorization field. `recorded`: drop WebSocket extensions,
    so that the recorder can read the messages.
    """
    also_kept = _AUTHORIZATION if passthrough else _NOTHING
    also_dropped = _EXTENSIONS if recorded else _NOTHING
    lines = [b"%s %s HTTP/%s\r\n" % (head.method, target, head.version.encode())]
    for lower, name, value in head.fields:
        if (lower in DROPPED and lower not in also_kept) or lower in also_dropped:
            continue
        if lower.startswith(DROPPED_PREFIXES):
            continue
        if lower == b"sec-websocket-protocol":
            value = without_credential(value)
            if not value:
                continue
        lines.append(b"%s: %s\r\n" % (name, value))
    lines.append(b"Audit-ID: %s\r\n" % audit_id.encode())
    if head.chunked:
        lines.append(b"Transfer-Encoding: chunked\r\n")
    if head.upgrade is not None:
        lines.append(b"Connection: Upgrade\r\nUpgrade: %s\r\n" % head.upgrade)
    lines.append(b"\r\n")
    return b"".join(lines)


def _check_sizes(head: RequestHead, limits: HeadLimits) -> None:
    if len(head.target) > limits.target:
        raise BadHead(431, f"the request target exceeds {limits.target} bytes")
    if len(head.fields) > limits.fields:
        raise BadHead(431, f"more than {limits.fields} header fields")
    if any(len(name) + len(value) > limits.field for _, name, value in head.fields):
        raise BadHead(431, f"a header field exceeds {limits.field} bytes")


def _read_framing(head: RequestHead) -> None:
    if head.version not in {"1.0", "1.1"}:
        raise BadHead(400, "unsupported HTTP version: only HTTP/1.1 is supported")
    encodings = head.values(b"transfer-encoding")
    if encodings:
        if [encoding.lower() for encoding in encodings] != [b"chunked"] or head.version == "1.0":
            raise BadHead(400, "unsupported transfer encoding: only chunked is supported")
        head.chunked = True
    lengths = head.values(b"content-length")
    if lengths:
        if len(lengths) > 1 or not lengths[0].isdigit() or head.chunked:
            raise BadHead(400, "the length of the body is ambiguous")
        head.length = int(lengths[0])


def _read_connection(head: RequestHead) -> None:
    options = _connection_options(head)
    if options - {b"close", b"keep-alive", b"upgrade"}:
        raise BadHead(400, "Connection may name close, keep-alive and upgrade only")
    upgrades = head.values(b"upgrade")
    if len(upgrades) > 1 or bool(upgrades) != (b"upgrade" in options):
        raise BadHead(400, "Upgrade and Connection: upgrade must come together, and once")
    head.upgrade = upgrades[0] if upgrades else None
    head.keep_alive = head.version == "1.1" and b"close" not in options


def _connection_options(head: RequestHead) -> set[bytes]:
    values = head.values(b"connection")
    return {option.strip().lower() for value in values for option in value.split(b",")} - {b""}
