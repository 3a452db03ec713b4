"""What registries have: tags, digests and times, by the OCI distribution specification 1.1.

Requests go through the port `Outward`, so that no address is reached that must not be. Answers
are bounded, pages are counted, and 429 is passed on with when to come again.
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urljoin

import orjson

from controlplane.domain.pipelines.triggers import is_tag, place_of
from controlplane.ports import Outward, RegistryAccount, Reply
from controlplane.registry.tokens import Tokens, is_local
from fleet.errors import Invalid, NotFound, Unavailable
from fleet.runtime.clock import Clock

MOST_PAGES = 50
MOST_TAGS = 20_000
_PAGE = 1_000
_MOST_REMEMBERED = 10_000
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
    """The control plane's port `Registries`."""

    def __init__(self, outward: Outward, clock: Clock) -> None:
        self._outward = outward
        self._tokens = Tokens(outward, clock)
        self._made: OrderedDict[str, datetime] = OrderedDict()

    async def tags(self, image: str, account: RegistryAccount | None) -> list[str]:
        """As `controlplane.ports.Registries`."""
        place = _Place(image)
        found: list[str] = []
        url = f"{place.base}/tags/list?n={_PAGE}"
        for _ in range(MOST_PAGES):
            reply = await self._get(place, url, account, "application/json")
            listed = _json(reply).get("tags")
            found += [one for one in _list(listed) if isinstance(one, str) and is_tag(one)]
            if len(found) > MOST_TAGS:
                raise Invalid(f"{image} has more than {MOST_TAGS:,} tags", field="image")
            further = _NEXT.search(reply.headers.get("link", ""))
            if further is None:
                return found
            url = place.within(_joined(url, further[1]))
        raise Invalid(f"{image} has more than {MOST_PAGES} pages of tags", field="image")

    async def digest(self, image: str, tag: str, account: RegistryAccount | None) -> str:
        """As `controlplane.ports.Registries`."""
        place = _Place(image)
        reply = await self._get(place, place.manifest(tag), account, _MANIFESTS, method="HEAD")
        told = reply.headers.get("docker-content-digest", "")
        if not _DIGEST.fullmatch(told):
            raise Unavailable(f"{place.host} does not tell the digest of {image}:{tag}")
        return told

    async def made(self, image: str, tag: str, account: RegistryAccount | None) -> datetime:
        """As `controlplane.ports.Registries`; what a digest was made at is asked once."""
        place = _Place(image)
        digest = await self.digest(image, tag, account)
        # Of each repository by itself: a registry is believed about nobody else's images.
        key = f"{place.base}@{digest}"
        if key not in self._made:
            self._made[key] = await self._created(place, digest, account)
            if len(self._made) > _MOST_REMEMBERED:
                self._made.popitem(last=False)
        return self._made[key]

    async def _created(
        self, place: "_Place", digest: str, account: RegistryAccount | None
    ) -> datetime:
        """From the image's config; of an index, that of its first image."""
        manifest = _json(await self._get(place, place.manifest(digest), account, _MANIFESTS))
        if isinstance(manifest.get("manifests"), list):
            first = _digest_of(manifest["manifests"][0] if manifest["manifests"] else None)
            manifest = _json(await self._get(place, place.manifest(first), account, _MANIFESTS))
        config = _digest_of(manifest.get("config"))
        told = _json(await self._get(place, f"{place.base}/blobs/{config}", account, "*/*"))
        try:
            made = datetime.fromisoformat(str(told["created"]))
        except (KeyError, ValueError):
            raise Unavailable(f"{place.host} does not tell when {place.name} was made") from None
        return made if made.tzinfo else made.replace(tzinfo=UTC)

    async def _get(
        self,
        place: "_Place",
        url: str,
        account: RegistryAccount | None,
        accept: str,
        *,
        method: str = "GET",
    ) -> Reply:
        headers = {"accept": accept}
        signed = self._tokens.known(place.host, place.name, account)
        reply = await self._outward.ask(method, url, headers | signed)
        if reply.status == 401:
            challenge = reply.headers.get("www-authenticate", "")
            signed = await self._tokens.sign_in(place.host, place.name, account, challenge)
            reply = await self._outward.ask(method, url, headers | signed)
        if reply.status in (301, 302, 303, 307, 308) and "location" in reply.headers:
            # Content lies elsewhere, often signed in the URL: nothing of ours goes there.
            reply = await self._outward.ask(
                method, _joined(url, reply.headers["location"]), headers
            )
        return judged(place.host, reply)


class _Place:
    """One repository of a registry. Plain HTTP is spoken to this machine only."""

    def __init__(self, image: str) -> None:
        self.host, self.name = place_of(image)
        self.host = _ALIASES.get(self.host, self.host)
        scheme = "http" if is_local(self.host) else "https"
        self._origin = f"{scheme}://{self.host}"
        self.base = f"{self._origin}/v2/{self.name}"

    def manifest(self, reference: str) -> str:
        return f"{self.base}/manifests/{quote(reference, safe=':')}"

    def within(self, url: str) -> str:
        """A URL that the registry has given for its next page. Unavailable: of another place."""
        if not url.startswith(f"{self.base}/tags/list?"):
            raise Unavailable(f"{self.host} sends elsewhere for the next page of tags: refused")
        return url


def judged(host: str, reply: Reply) -> Reply:
    """The reply, if it is one. Unavailable (with when to come again), NotFound: why it is none."""
    if reply.status == 429 or reply.status >= 500:
        told = reply.headers.get("retry-after", "")
        seconds = float(told) if told.isdecimal() and len(told) < 7 else None
        raise Unavailable(f"{host} answers {reply.status}", retry_after=seconds)
    if reply.status in (401, 403):
        raise Unavailable(f"{host} does not give that out: connect it with credentials")
    if reply.status == 404:
        raise NotFound(f"{host} has no such image or tag")
    if reply.status != 200:
        raise Unavailable(f"{host} answers {reply.status}")
    return reply


def _json(reply: Reply) -> dict[str, Any]:
    try:
        told = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        told = None
    if not isinstance(told, dict):
        raise Unavailable("the registry's answer is too long, or not what the specification says")
    return told


def _list(told: object) -> list[Any]:
    """What should be a list, and may be anything."""
    return told if isinstance(told, list) else []


def _joined(url: str, reference: str) -> str:
    """Where a registry leads. Unavailable: nowhere."""
    try:
        return urljoin(url, reference)
    except ValueError:
        raise Unavailable("the registry leads to what is no URL") from None


def _digest_of(descriptor: object) -> str:
    told = str(descriptor.get("digest")) if isinstance(descriptor, Mapping) else ""
    if not _DIGEST.fullmatch(told):
        raise Unavailable("the registry's manifest names no config")
    return told
