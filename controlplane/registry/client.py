"""Tags, digests and build times of images, by the OCI distribution specification 1.1.

Requests go through the port `GuardedClient`, which blocks forbidden addresses. Responses and pages
are limited; 429 is passed on with its retry time.
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urljoin

import orjson

from controlplane.domain.pipelines.triggers import is_tag, split_repository
from controlplane.ports import GuardedClient, HttpReply, RegistryAccount
from controlplane.registry.tokens import RegistryTokens, is_local
from core.errors import Invalid, NotFound, Unavailable
from core.runtime.clock import Clock

MAX_PAGES = 50
MAX_TAGS = 20_000
_PAGE = 1_000
_MAX_CACHED = 10_000
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
_ALIASES = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}


class RegistryClient:
    """Implements the port `Registries`."""

    def __init__(self, outward: GuardedClient, clock: Clock) -> None:
        self._outward = outward
        self._tokens = RegistryTokens(outward, clock)
        self._made: OrderedDict[str, datetime] = OrderedDict()

    async def tags(self, image: str, account: RegistryAccount | None) -> list[str]:
        """See `controlplane.ports.Registries`."""
        place = _RegistryRepository(image)
        found: list[str] = []
        url = f"{place.base}/tags/list?n={_PAGE}"
        for _ in range(MAX_PAGES):
            reply = await self._get(place, url, account, "application/json")
            listed = _json(reply).get("tags")
            found += [tag for tag in _list(listed) if isinstance(tag, str) and is_tag(tag)]
            if len(found) > MAX_TAGS:
                raise Invalid(f"{image} has more than {MAX_TAGS:,} tags", field="image")
            further = _NEXT.search(reply.headers.get("link", ""))
            if further is None:
                return found
            url = place.within(_joined(url, further[1]))
        raise Invalid(f"{image} has more than {MAX_PAGES} pages of tags", field="image")

    async def digest(self, image: str, tag: str, account: RegistryAccount | None) -> str:
        """See `controlplane.ports.Registries`."""
        place = _RegistryRepository(image)
        reply = await self._get(place, place.manifest(tag), account, _MANIFESTS, method="HEAD")
        told = reply.headers.get("docker-content-digest", "")
        if not _DIGEST.fullmatch(told):
            raise Unavailable(f"{place.host} sent no digest of {image}:{tag}")
        return told

    async def made(self, image: str, tag: str, account: RegistryAccount | None) -> datetime:
        """See `controlplane.ports.Registries`; the build time of a digest is requested once."""
        place = _RegistryRepository(image)
        digest = await self.digest(image, tag, account)
        # Per repository: a registry is not trusted about another registry's images.
        key = f"{place.base}@{digest}"
        if key not in self._made:
            self._made[key] = await self._created(place, digest, account)
            if len(self._made) > _MAX_CACHED:
                self._made.popitem(last=False)
        return self._made[key]

    async def _created(
        self, place: "_RegistryRepository", digest: str, account: RegistryAccount | None
    ) -> datetime:
        """Returns the build time from the image's config; of an index, that of its first image."""
        manifest = _json(await self._get(place, place.manifest(digest), account, _MANIFESTS))
        if isinstance(manifest.get("manifests"), list):
            first = _digest_of(manifest["manifests"][0] if manifest["manifests"] else None)
            manifest = _json(await self._get(place, place.manifest(first), account, _MANIFESTS))
        config = _digest_of(manifest.get("config"))
        told = _json(await self._get(place, f"{place.base}/blobs/{config}", account, "*/*"))
        try:
            made = datetime.fromisoformat(str(told["created"]))
        except (KeyError, ValueError):
            raise Unavailable(f"{place.host} sent no build time of {place.name}") from None
        return made if made.tzinfo else made.replace(tzinfo=UTC)

    async def _get(
        self,
        place: "_RegistryRepository",
        url: str,
        account: RegistryAccount | None,
        accept: str,
        *,
        method: str = "GET",
    ) -> HttpReply:
        headers = {"accept": accept}
        signed = self._tokens.known(place.host, place.name, account)
        reply = await self._outward.ask(method, url, headers | signed)
        if reply.status == 401:
            challenge = reply.headers.get("www-authenticate", "")
            signed = await self._tokens.sign_in(place.host, place.name, account, challenge)
            reply = await self._outward.ask(method, url, headers | signed)
        if reply.status in (301, 302, 303, 307, 308) and "location" in reply.headers:
            # Blobs are elsewhere, often behind a signed URL: our credentials must not be sent
            # there.
            reply = await self._outward.ask(
                method, _joined(url, reply.headers["location"]), headers
            )
        return check_reply(place.host, reply)


class _RegistryRepository:
    """One repository of a registry. Plain HTTP is allowed only to localhost."""

    def __init__(self, image: str) -> None:
        self.host, self.name = split_repository(image)
        self.host = _ALIASES.get(self.host, self.host)
        scheme = "http" if is_local(self.host) else "https"
        self._origin = f"{scheme}://{self.host}"
        self.base = f"{self._origin}/v2/{self.name}"

    def manifest(self, reference: str) -> str:
        return f"{self.base}/manifests/{quote(reference, safe=':')}"

    def within(self, url: str) -> str:
        """Resolves a registry's URL of the next page. Raises Unavailable if it points elsewhere."""
        if not url.startswith(f"{self.base}/tags/list?"):
            raise Unavailable(
                f"{self.host} redirects to another host for the next page of tags: refused"
            )
        return url


def check_reply(host: str, reply: HttpReply) -> HttpReply:
    """Returns the reply if it is successful. Else raises Unavailable (with the retry time) or
    NotFound.
    """
    if reply.status == 429 or reply.status >= 500:
        told = reply.headers.get("retry-after", "")
        seconds = float(told) if told.isdecimal() and len(told) < 7 else None
        raise Unavailable(f"{host} answered with status {reply.status}", retry_after=seconds)
    if reply.status in (401, 403):
        raise Unavailable(f"{host} denied access: add credentials for the registry")
    if reply.status == 404:
        raise NotFound(f"{host} has no such image or tag")
    if reply.status != 200:
        raise Unavailable(f"{host} answered with status {reply.status}")
    return reply


def _json(reply: HttpReply) -> dict[str, Any]:
    try:
        told = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        told = None
    if not isinstance(told, dict):
        raise Unavailable("the registry's response is too long, or violates the specification")
    return told


def _list(told: object) -> list[Any]:
    """Returns the value if it is a list, else an empty one."""
    return told if isinstance(told, list) else []


def _joined(url: str, reference: str) -> str:
    """Resolves a registry's redirect. Raises Unavailable for an invalid URL."""
    try:
        return urljoin(url, reference)
    except ValueError:
        raise Unavailable("the registry redirects to an invalid URL") from None


def _digest_of(descriptor: object) -> str:
    told = str(descriptor.get("digest")) if isinstance(descriptor, Mapping) else ""
    if not _DIGEST.fullmatch(told):
        raise Unavailable("the registry's manifest names no config")
    return told
