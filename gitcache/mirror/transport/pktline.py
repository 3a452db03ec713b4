"""The pkt-line framing of git's wire protocol (gitprotocol-common(5), gitprotocol-v2(5))."""

from collections.abc import Iterable, Iterator

from gitcache.domain.refs import is_sha

FLUSH = b"0000"
DELIMITER = b"0001"
MAX_PAYLOAD = 65_516

_LENGTH = 4
_HEX = frozenset(b"0123456789abcdefABCDEF")


class Malformed(ValueError):
    """Bytes that are not a sequence of pkt-lines."""


def encode(payload: bytes) -> bytes:
    """Encodes one data packet. Raises ValueError beyond the maximum length."""
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"{len(payload)} bytes in one packet; the limit is {MAX_PAYLOAD}")
    return b"%04x" % (len(payload) + _LENGTH) + payload


def encode_command(name: str, capabilities: Iterable[str], arguments: Iterable[str]) -> bytes:
    """Encodes a protocol version 2 request."""
    lines = [encode(f"command={name}\n".encode())]
    lines += [encode(f"{capability}\n".encode()) for capability in capabilities]
    lines.append(DELIMITER)
    lines += [encode(f"{argument}\n".encode()) for argument in arguments]
    return b"".join([*lines, FLUSH])


def decode(data: bytes) -> Iterator[bytes | None]:
    """Yields the packets of a response; None for flush, delimiter and response end."""
    position = 0
    while position < len(data):
        prefix = data[position : position + _LENGTH]
        if len(prefix) < _LENGTH or not set(prefix) <= _HEX:
            raise Malformed(f"no packet length at byte {position}")
        length = int(prefix, 16)
        if length < _LENGTH:
            if length == 3:
                raise Malformed(f"packet length 3 at byte {position}")
            yield None
            position += _LENGTH
            continue
        if position + length > len(data):
            raise Malformed(f"the packet at byte {position} is cut off")
        yield data[position + _LENGTH : position + length]
        position += length


def parse_refs(data: bytes) -> dict[str, str]:
    """Parses the response to `ls-refs` to ref name and object id, tags peeled. Malformed."""
    refs: dict[str, str] = {}
    ended = False
    for packet in decode(data):
        if packet is None:
            ended = True
            continue
        fields = packet.rstrip(b"\n").decode("utf-8", "surrogateescape").split(" ")
        if fields[0] == "ERR" or len(fields) < 2 or ended:
            raise Malformed("not a list of refs")
        peeled = (field[7:] for field in fields[2:] if field.startswith("peeled:"))
        refs[fields[1]] = _object_id(next(peeled, fields[0]))
    if not ended:
        raise Malformed("the list of refs is cut off")
    return refs


def _object_id(text: str) -> str:
    if not is_sha(text):
        raise Malformed("a ref has no object id")
    return text
