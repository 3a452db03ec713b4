"""Repository URLs: validation and normal form."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from core.errors import Invalid

_SCP = re.compile(r"(?P<user>[\w.+-]+)@(?P<host>[\w.-]+):(?P<path>(?!//)[^\s]+)")
_NUMERIC_HOST = re.compile(r"(?:[^:]*\.)?(?:\d+|0x[0-9a-f]*)\.?", re.IGNORECASE)
_HOST = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z_.-]*[0-9A-Za-z])?|[0-9a-fA-F:.]+")
_USER = re.compile(r"[\w.+][\w.+-]*")
_SEPARATORS = re.compile(r"[/\\]")
_PORTS = {"http": 80, "https": 443, "ssh": 22}
_MAX_URL = 2000

Id = TypeVar("Id", bound=str)


@dataclass(frozen=True)
class Remote:
    """An allowed repository URL; `text` is its normal form, without a password."""

    scheme: str
    host: str
    port: int
    path: str
    user: str | None = None

    @cached_property
    def text(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        user = f"{self.user}@" if self.user else ""
        return f"{self.scheme}://{user}{host}{port}/{self.path}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port that may receive credentials for this URL."""
        return self.scheme, self.host, self.port

    @property
    def is_http(self) -> bool:
        return self.scheme != "ssh"


@lru_cache(4096)
def parse_remote(url: str) -> Remote:
    """Parses a URL or `user@host:path`.

    Raises Invalid for schemes other than http, https and ssh, for passwords, and for forms that
    git could take for an option or a command.
    """
    _check_text(url)
    if "::" in url.split("/", 1)[0]:
        raise _invalid("remote helpers (`name::…`) are not allowed")
    if "://" not in url and (match := _SCP.fullmatch(url)):
        return _checked_remote("ssh", match["host"], None, match["path"].lstrip("/"), match["user"])
    return _from_parts(url)


def source_url(url: str) -> str:
    """Returns the URL of a repository with folders in the form of signed statements.

    That of an OCI repository stays as it is, others are normalized. Raises Invalid.
    """
    return url if url.startswith("oci://") else parse_remote(url).text


@lru_cache(4096)
def parse_chart_remote(url: str) -> Remote:
    """Parses the URL of a Helm repository, with or without a path, or of an OCI repository.

    An `oci://` URL becomes the URL that requests to the registry use. Raises Invalid for others.
    """
    _check_text(url)
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https", "oci"):
        raise Invalid("a Helm repository needs https://… or oci://…", field="url")
    if scheme == "oci":
        url = f"https://{rest}"
    remote = _from_parts(url, needs_path=False)
    if scheme == "oci" and is_loopback_host(remote.host):
        return _from_parts(f"http://{rest}", needs_path=False)
    return remote


def covering_repositories(url: str, repositories: Mapping[Id, str]) -> list[Id]:
    """Lists the repositories (id to URL) at a URL of the same server or above it, by their ids.

    The longest URL comes first. Of equal URLs, the first id comes first, so that the same
    credentials are used every time. Empty for a URL that `parse_chart_remote` refuses.
    """
    target = _try_chart_remote(url)
    if target is None:
        return []
    lengths = {
        id: len(remote.path)
        for id, text in repositories.items()
        # Parsing thousands of URLs of other servers would take too long.
        if target.host in text.lower()
        and (remote := _try_chart_remote(text)) is not None
        and _covers(remote, target)
    }
    return sorted(lengths, key=lambda id: (-lengths[id], id))


def _try_chart_remote(url: str) -> Remote | None:
    try:
        return parse_chart_remote(url)
    except Invalid:
        return None


def _covers(remote: Remote, target: Remote) -> bool:
    is_above = not remote.path or f"{target.path}/".startswith(f"{remote.path}/")
    return remote.origin == target.origin and is_above


def normalize_oci_url(url: str) -> str:
    """Returns an `oci://` URL in its only allowed form: one name for one repository.

    The host is in lower case, and the default port and slashes at the end are left out. Raises
    Invalid.
    """
    address = parse_chart_remote(url).text.partition("://")[2]
    return "oci://" + address.rstrip("/")


def normalize_proxy_url(url: str) -> str:
    """Normalizes a proxy URL. Raises Invalid unless it is `http://[user:password@]host:port`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid("is not a URL", field="proxy") from None
    is_plain = parts.scheme == "http" and parts.hostname and port and parts.path in {"", "/"}
    if not is_plain or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise Invalid("must be http://[user:password@]host:port", field="proxy")
    return urlunsplit((parts.scheme, parts.netloc, "", "", ""))


@lru_cache(1024)
def is_ambiguous_address(host: str) -> bool:
    """Detects IPv4 addresses in ambiguous forms, such as `127.1` or `0x7f.1`.

    No host name ends in a number (WHATWG URL, 3.5), so such a host is an address or invalid.
    """
    return _NUMERIC_HOST.fullmatch(host) is not None and not _is_dotted_decimal(host)


def is_loopback_host(host: str) -> bool:
    """Returns whether a host is localhost, to which requests may go without TLS."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_dotted_decimal(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _check_text(url: str) -> None:
    if len(url) > _MAX_URL or not url.isprintable() or " " in url or url.startswith("-"):
        raise _invalid("it is too long or contains characters that are not allowed in a URL")


def _from_parts(url: str, *, needs_path: bool = True) -> Remote:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _invalid("it is not a URL") from error
    if parts.scheme not in _PORTS:
        raise _invalid("only http, https and ssh URLs are allowed")
    if parts.query or parts.fragment:
        raise _invalid("it must not have a query or a fragment")
    _check_user(parts)
    path = parts.path.strip("/")
    return _checked_remote(
        parts.scheme, parts.hostname or "", port, path, parts.username, needs_path=needs_path
    )


def _check_user(parts: SplitResult) -> None:
    if parts.password or (parts.username and parts.scheme != "ssh"):
        raise _invalid("it contains credentials; set them as the repository's credentials instead")


def _checked_remote(
    scheme: str,
    host: str,
    port: int | None,
    path: str,
    user: str | None,
    *,
    needs_path: bool = True,
) -> Remote:
    if not _HOST.fullmatch(host) or is_ambiguous_address(host):
        raise _invalid("its host name is missing or invalid")
    if user is not None and not _USER.fullmatch(user):
        raise _invalid("its user name is invalid")
    if (needs_path and not path) or path.startswith("-") or _leaves_its_folder(path):
        raise _invalid("its path is missing or invalid")
    return Remote(scheme, host.lower(), port or _PORTS[scheme], path, user)


def _leaves_its_folder(path: str) -> bool:
    """Returns whether a path has dot segments, also if Git or the server decodes it first.

    A pattern of allowed URLs compares text: it would take such a path for one in its folder.
    """
    return ".." in _SEPARATORS.split(unquote(path))


def _invalid(reason: str) -> Invalid:
    return Invalid(f"the repository URL is not allowed: {reason}", field="url")
