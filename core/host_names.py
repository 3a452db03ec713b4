"""Names in Host headers, read in one way by everything that decides by them."""

from urllib.parse import urlsplit


def hostname(authority: str) -> str:
    """Returns the name in `name:port`, in lower case, without brackets or a trailing dot."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_below(name: str, domain: str) -> bool:
    """Reports whether a name, as `hostname` returns it, is below a domain. No name is below ""."""
    return bool(domain) and name.endswith(f".{domain}")
