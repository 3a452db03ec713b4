"""TLS towards API servers of Kubernetes, verified like kubectl does."""

import ssl
from pathlib import Path


def api_server_tls(*, file: Path | str | None = None, text: str | None = None) -> ssl.SSLContext:
    """Returns a context that trusts the authorities of a PEM file or text, else the system's.

    Raises OSError for an unreadable file, and ssl.SSLError for a text that is not PEM.
    """
    context = ssl.create_default_context(cafile=str(file) if file else None, cadata=text)
    # Many clusters have certificates without the key identifiers of RFC 5280, which Python 3.13
    # requires by default. Clients in Go and rustls accept them; all other checks stay.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
