"""TCP connections of event loops."""

import asyncio


def half_close(transport: asyncio.WriteTransport) -> None:
    """Ends sending, if the transport supports it (TLS does not).

    Aborts a connection that the peer has just reset: until the event loop has read the reset, the
    socket refuses to shut down with ENOTCONN (shutdown(2)).
    """
    if not transport.can_write_eof():
        return
    try:
        transport.write_eof()
    except OSError:
        transport.abort()
