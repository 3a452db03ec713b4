"""Changes to the head of a response."""

from core.mux.codec import Buffer


def add_connection_close(data: Buffer, status: int) -> Buffer:
    """Adds `Connection: close`, to a final head only."""
    text = bytes(data)
    line, end, rest = text.partition(b"\r\n")
    if line[9:12] != b"%d" % status:
        return data
    return line + end + b"Connection: close\r\n" + rest


def after_upgrade_head(data: Buffer) -> bytes:
    """The bytes that follow the head of a 101 in the same buffer."""
    text = bytes(data)
    return text[text.find(b"\r\n\r\n", text.find(b"HTTP/1.1 101")) + 4 :]
