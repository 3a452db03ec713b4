"""Tells requests of our own pages from requests of foreign pages.

Pages can forge neither `Sec-Fetch-Site` nor `Origin`. Browsers send `Sec-Fetch-Site` over TLS and
to this machine, but not for WebSockets. `Origin` accompanies forms, scripts and WebSockets.
"""

_SAFE_SITES = frozenset({"same-origin", "none"})
_PORTS = {"http": 80, "https": 443}


def is_foreign(site: str | None, origin: str | None, host: str, public_url: str = "") -> bool:
    """Returns true if a page of another origin sent the request.

    `site` and `origin` are the values of `Sec-Fetch-Site` and `Origin`, None if they are absent.
    `host` is the value of `Host`. A reverse proxy may replace it; then the origin must be that of
    `public_url`, the URL of this installation for browsers.
    """
    if site is not None:
        return site.lower() not in _SAFE_SITES
    if origin is None:
        return False
    scheme, authority = _scheme_and_authority(origin)
    own_origins = [(scheme, _authority(host, scheme))]
    if public_url:
        own_origins.append(_scheme_and_authority(public_url))
    return not authority or (scheme, authority) not in own_origins


def _scheme_and_authority(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    return scheme.lower(), _authority(rest.partition("/")[0], scheme.lower())


def _authority(text: str, scheme: str) -> str:
    """Returns host and port in lower case, without the default port of the scheme."""
    return text.strip().lower().removesuffix(f":{_PORTS.get(scheme, 0)}")
