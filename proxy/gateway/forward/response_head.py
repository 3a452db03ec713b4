"""The end of a response's head."""

from core.mux.codec import Buffer


def after_upgrade_head(data: Buffer) -> bytes:
    """The bytes that follow the head of a 101 in the same buffer."""
    text = bytes(data)
    return text[text.find(b"\r\n\r\n", text.find(b"HTTP/1.1 101")) + 4 :]
