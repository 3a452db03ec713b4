"""Read-only client of OCI registries (OCI Distribution Specification 1.1)."""

import re
from collections.abc import Mapping
from urllib.parse import quote, urljoin, urlsplit

import orjson

from core.errors import AccessDenied, Invalid, NotFound, Unavailable
from core.json_object import JsonObject
from core.outbound.credentials import RegistryAccount
from core.outbound.oci_tokens import RegistryTokens
from core.outbound.reply import HttpClient, HttpReply, retry_after
from core.runtime.clock import Clock
from core.spec.bundle import digest_of
from core.spec.images import OciRepository, is_tag

MAX_TAGS = 20_000
TAGS_PER_PAGE = 1_000
_MAX_PAGES = 50
_MAX_JSON = 4 << 20
_MAX_REDIRECTS = 5
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NEXT = re.compile(r'<([^<>]{1,2000})>\s*;\s*rel="?next"?')


class OciRegistryClient:
    """Reads tags, manifests and blobs; verifies the digest of all content that it asks by digest.

    All methods raise Unavailable if the registry does not answer or denies access (with
    `retry_after` if it gives a time), and NotFound for missing content.
    """

    def __init__(
        self, http: HttpClient, clock: Clock, *, tags_per_page: int = TAGS_PER_PAGE
    ) -> None:
        self._http = http
        self._clock = clock
        self._tokens = RegistryTokens(http, clock)
        self._tags_per_page = tags_per_page

    async def tags(self, repository: OciRepository, account: RegistryAccount | None) -> list[str]:
        """Lists all valid tags. Raises Invalid for more than 20,000."""
        all_tags: list[str] = []
        url = f"{repository.url}/tags/list?n={self._tags_per_page}"
        for _ in range(_MAX_PAGES):
            reply = await self._request(repository, url, account, "application/json")
            entries = _json_object(repository, reply).get("tags")
            tags = entries if isinstance(entries, list) else []
            all_tags += [tag for tag in tags if isinstance(tag, str) and is_tag(tag)]
            if len(all_tags) > MAX_TAGS:
                raise Invalid(f"{repository.name} has more than {MAX_TAGS:,} tags", field="image")
            next_link = _NEXT.search(reply.headers.get("link", ""))
            if next_link is None:
                return all_tags
            url = _next_page(repository, url, next_link[1])
        raise Invalid(f"{repository.name} has more than {_MAX_PAGES} pages of tags", field="image")

    async def digest(
        self, repository: OciRepository, tag: str, account: RegistryAccount | None
    ) -> str:
        """Returns the current digest of a tag."""
        url = _manifest_url(repository, tag)
        reply = await self._request(repository, url, account, _MANIFESTS, method="HEAD")
        digest = reply.headers.get("docker-content-digest", "")
        if not _DIGEST.fullmatch(digest):
            raise Unavailable(f"{repository.registry} sent no digest of {repository.name}:{tag}")
        return digest

    async def manifest(
        self, repository: OciRepository, reference: str, account: RegistryAccount | None
    ) -> JsonObject:
        """Returns the manifest or index of a tag or a digest."""
        return _json_object(repository, await self._manifest(repository, reference, account))

    async def manifest_bytes(
        self, repository: OciRepository, reference: str, account: RegistryAccount | None
    ) -> bytes:
        """Returns the bytes of a manifest, whose sha256 is its digest."""
        reply = await self._manifest(repository, reference, account)
        _json_object(repository, reply)
        return reply.body

    async def referrers(
        self, repository: OciRepository, digest: str, account: RegistryAccount | None
    ) -> JsonObject:
        """Returns the index of the artifacts that refer to a manifest. NotFound also if the
        registry has no such API.
        """
        url = f"{repository.url}/referrers/{digest}"
        return _json_object(repository, await self._request(repository, url, account, _MANIFESTS))

    async def _manifest(
        self, repository: OciRepository, reference: str, account: RegistryAccount | None
    ) -> HttpReply:
        url = _manifest_url(repository, reference)
        reply = await self._request(repository, url, account, _MANIFESTS, max_bytes=_MAX_JSON)
        if _DIGEST.fullmatch(reference):
            _verify(repository, reply, reference)
        return reply

    async def blob(
        self,
        repository: OciRepository,
        digest: str,
        account: RegistryAccount | None,
        max_bytes: int = _MAX_JSON,
    ) -> bytes:
        """Returns a blob. Raises Invalid if it is longer than `max_bytes`."""
        url = f"{repository.url}/blobs/{digest}"
        reply = await self._request(repository, url, account, "*/*", max_bytes=max_bytes)
        if reply.truncated:
            raise Invalid(
                f"{repository.registry} sent more than the limit of {max_bytes:,} bytes "
                f"for {repository.name}"
            )
        _verify(repository, reply, digest)
        return reply.body

    async def _request(
        self,
        repository: OciRepository,
        url: str,
        account: RegistryAccount | None,
        accept: str,
        *,
        method: str = "GET",
        max_bytes: int = _MAX_JSON,
    ) -> HttpReply:
        host, name, headers = repository.registry, repository.name, {"accept": accept}
        authorization = self._tokens.cached_headers(host, name, account)
        reply = await self._http.request(method, url, headers | authorization, max_bytes=max_bytes)
        if reply.status == 401:
            challenge = reply.headers.get("www-authenticate", "")
            authorization = await self._tokens.sign_in(host, name, account, challenge)
            reply = await self._http.request(
                method, url, headers | authorization, max_bytes=max_bytes
            )
        if reply.status in (301, 302, 303, 307, 308) and "location" in reply.headers:
            # Blobs are elsewhere, often behind a signed URL: our credentials must not be sent
            # there.
            target = _resolve_target(repository, url, reply.headers["location"])
            reply = await self._http.request(
                method, target, headers, max_bytes=max_bytes, redirects=_MAX_REDIRECTS
            )
        return self._check_status(repository, reply)

    def _check_status(self, repository: OciRepository, reply: HttpReply) -> HttpReply:
        host = repository.registry
        if reply.status in (401, 403):
            raise AccessDenied(
                f"{host} denied access to {repository.name}: add credentials for the registry"
            )
        if reply.status == 404:
            raise NotFound(f"{host} has no such image or tag of {repository.name}")
        if reply.status != 200:
            raise Unavailable(
                f"{host} answered with status {reply.status}",
                retry_after=retry_after(reply.headers, self._clock.now()),
            )
        return reply


def descriptor_digest(repository: OciRepository, descriptor: object) -> str:
    """Returns the digest of a descriptor in a manifest. Raises Unavailable without a valid one."""
    digest = str(descriptor.get("digest")) if isinstance(descriptor, Mapping) else ""
    if not _DIGEST.fullmatch(digest):
        raise Unavailable(f"{repository.registry} sent a manifest without a valid digest")
    return digest


def _manifest_url(repository: OciRepository, reference: str) -> str:
    return f"{repository.url}/manifests/{quote(reference, safe=':')}"


def _verify(repository: OciRepository, reply: HttpReply, digest: str) -> None:
    if digest_of(reply.body) != digest:
        raise Unavailable(
            f"{repository.registry} sent content that does not match the digest {digest}"
        )


def _json_object(repository: OciRepository, reply: HttpReply) -> dict[str, object]:
    try:
        value = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise Unavailable(
            f"the response of {repository.registry} is too long, or violates the specification"
        )
    return value


def _next_page(repository: OciRepository, url: str, reference: str) -> str:
    """Resolves the URL of the next page. Raises Unavailable if it is of another repository."""
    target = _resolve_target(repository, url, reference)
    if not target.startswith(f"{repository.url}/tags/list?"):
        raise Unavailable(
            f"{repository.registry} redirects to another host for the next page of tags: refused"
        )
    return target


def _resolve_target(repository: OciRepository, url: str, reference: str) -> str:
    try:
        target = urljoin(url, reference)
        is_downgrade = url.startswith("https:") and urlsplit(target).scheme != "https"
    except ValueError:
        raise Unavailable(f"{repository.registry} redirects to an invalid URL") from None
    if is_downgrade:
        raise Unavailable(f"{repository.registry} redirects to a URL without TLS: refused")
    return target
