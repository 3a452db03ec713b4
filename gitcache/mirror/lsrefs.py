"""Lists refs over http(s) with one protocol version 2 request on a warm connection."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import aiohttp

from fleet.errors import Invalid, Unavailable
from fleet.remotes import Remote, parse_remote
from fleet.source import RepositorySpec
from gitcache.mirror import pktline
from gitcache.mirror.access import authorization
from gitcache.mirror.admission import Admission

_AGENT = "towline"
_MAX_ANSWER = 16 << 20
_RESULT = "application/x-git-upload-pack-result"
_HEADERS = {
    "Git-Protocol": "version=2",
    "Content-Type": "application/x-git-upload-pack-request",
    "Accept": _RESULT,
    "User-Agent": f"git/{_AGENT}",
}


class NotVersion2(Exception):
    """The server does not answer in protocol version 2."""


class HttpRefLister:
    """One POST per repository and poll; connections are kept alive and shared per host."""

    def __init__(self, admission: Admission, *, seconds: float, per_host: int) -> None:
        self._admission = admission
        self._timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(5.0, seconds))
        self._per_host = per_host
        self._session: aiohttp.ClientSession | None = None

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """As `RefLister.list_refs`. NotVersion2: ask in another way."""
        remote = parse_remote(spec.url)
        self._admission.check_literal(remote)
        body = pktline.command(
            "ls-refs", [f"agent={_AGENT}"], ["peel", *(f"ref-prefix {one}" for one in prefixes)]
        )
        headers = dict(_HEADERS)
        if value := authorization(spec.credentials):
            headers["Authorization"] = value
        try:
            data = await self._post(remote, body, headers)
            return pktline.parse_refs(data)
        except pktline.Malformed as error:
            raise NotVersion2 from error

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _post(self, remote: Remote, body: bytes, headers: Mapping[str, str]) -> bytes:
        url = f"{remote.text}/git-upload-pack"
        try:
            async with self._open().post(
                url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                _check(answer, remote)
                return await _read(answer)
        except TimeoutError as error:
            raise Unavailable(f"{remote.host} did not answer in time") from error
        except aiohttp.ClientError as error:
            _raise_refused(error)
            raise Unavailable(f"{remote.host} cannot be reached: {_reason(error)}") from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0, limit_per_host=self._per_host, resolver=self._admission
            )
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session


def _check(answer: aiohttp.ClientResponse, remote: Remote) -> None:
    if answer.status == 200 and answer.content_type == _RESULT:
        return
    if answer.status in {401, 403}:
        raise Unavailable(f"{remote.host} refused the credentials ({answer.status})")
    if answer.status == 404:
        raise Unavailable(f"{remote.host} has no such repository, or not for these credentials")
    if 300 <= answer.status < 400:
        target = urlsplit(answer.headers.get("Location", ""))._replace(query="", fragment="")
        raise Unavailable(f"the repository has moved to {target.hostname}{target.path}: use that")
    if answer.status == 429 or answer.status >= 500:
        raise Unavailable(
            f"{remote.host} answered {answer.status}", retry_after=_retry_after(answer)
        )
    raise NotVersion2


def _retry_after(answer: aiohttp.ClientResponse) -> float | None:
    text = answer.headers.get("Retry-After", "")
    return min(float(text), 3600.0) if text.isdecimal() and len(text) < 8 else None


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in answer.content.iter_any():
        data += chunk
        if len(data) > _MAX_ANSWER:
            raise Unavailable("the server's list of refs is too long")
    return bytes(data)


def _raise_refused(error: BaseException) -> None:
    """An address that Admission refused comes wrapped in the client's own error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Invalid):
            raise cause
        cause = cause.__cause__ or cause.__context__


def _reason(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "its TLS certificate is not trusted"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError):
        return _os_reason(error.os_error)
    return "the connection broke"


def _os_reason(error: OSError) -> str:
    return (error.strerror or "connection failed").partition("[")[0].lower().strip()
