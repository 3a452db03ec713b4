"""TLS contexts of clients."""

import ssl
from pathlib import Path


def client_context(*, file: Path | str | None = None, text: str | None = None) -> ssl.SSLContext:
    """Returns a context that trusts the authorities of a PEM file or text, else the system's.

    Raises OSError for an unreadable file, and ssl.SSLError for a text that is not PEM.
    """
    context = ssl.create_default_context(cafile=str(file) if file else None, cadata=text or None)
    # Python 3.13 requires key identifiers (RFC 5280) by default. Many private authorities, also
    # those of Kubernetes clusters, issue certificates without; kubectl, curl and grpcio accept
    # them. All other checks stay.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
