"""Charts in OCI registries (OCI distribution specification 1.1, pull and tags)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from yarl import URL

from core.errors import Invalid, Unavailable
from core.spec.bundle import digest_of
from gitcache.charts.http_client import ChartHttpClient, ChartHttpResponse, is_loopback_host

_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_MAX_JSON = 4 << 20
_MAX_PAGES = 20
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_NAME = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")


@dataclass(frozen=True, slots=True)
class ChartLayer:
    """The single layer of a chart artifact: digest and size in bytes."""

    digest: str
    size: int


class OciChartRepository:
    """One repository of a registry, authenticated with the registry's bearer tokens.

    `authorization` is the header for token requests; without it, tokens are anonymous.
    """

    def __init__(
        self, fetcher: ChartHttpClient, url: str, name: str, authorization: str = ""
    ) -> None:
        place = URL(url)
        self._name = "/".join(part for part in (place.path.strip("/"), name) if part)
        if not place.host or not _NAME.fullmatch(self._name):
            raise Invalid(f"{self._name[:120]!r} is not a valid chart name", field="chart")
        scheme = "http" if is_loopback_host(place.host) else "https"
        self._base = f"{scheme}://{place.authority}/v2/{self._name}"
        self._fetcher = fetcher
        self._authorization = authorization
        self._signed = ""

    async def tags(self) -> list[str]:
        """Lists all versions of the chart. Raises Invalid for an unknown chart, Unavailable."""
        found: list[str] = []
        path = "/tags/list?n=1000"
        for _ in range(_MAX_PAGES):
            answer = await self._get(path, _MAX_JSON)
            listed = _json(answer).get("tags")
            found += [str(tag) for tag in listed] if isinstance(listed, list) else []
            if "Link" not in answer.headers or not found:
                break
            path = f"/tags/list?n=1000&last={found[-1]}"
        return [tag.replace("_", "+") for tag in found]

    async def layer(self, version: str) -> ChartLayer:
        """Finds the archive of a version. Raises Invalid for an unknown version or a non-chart."""
        manifest = _json(await self._get(f"/manifests/{version.replace('+', '_')}", _MAX_JSON))
        layers = manifest.get("layers")
        for layer in layers if isinstance(layers, list) else []:
            if isinstance(layer, dict) and layer.get("mediaType") == _LAYER:
                digest = str(layer.get("digest"))
                if _DIGEST.fullmatch(digest):
                    return ChartLayer(digest, int(layer.get("size") or 0))
        raise Invalid(f"{self._name}:{version} is not a Helm chart")

    async def blob(self, layer: ChartLayer, max_bytes: int) -> bytes:
        """Downloads the archive. Raises Invalid beyond the limit, Unavailable for a bad digest."""
        if layer.size > max_bytes:
            raise Invalid(f"the chart has {layer.size:,} bytes; the limit is {max_bytes:,}")
        answer = await self._get(f"/blobs/{layer.digest}", max_bytes)
        if digest_of(answer.body) != layer.digest:
            raise Unavailable(
                f"the registry sent content that does not match the digest {layer.digest}"
            )
        return answer.body

    async def _get(self, path: str, max_bytes: int) -> ChartHttpResponse:
        url = self._base + path
        answer = await self._fetcher.get(url, max_bytes=max_bytes, headers=self._headers())
        if answer.status == 401 and not self._signed:
            self._signed = await self._sign_in(answer.headers)
            answer = await self._fetcher.get(url, max_bytes=max_bytes, headers=self._headers())
        if answer.status in (401, 403):
            refused = "with these credentials" if self._authorization else "without credentials"
            raise Unavailable(f"the registry refused access to {self._name} {refused}")
        if answer.status != 200:
            raise Invalid(f"not found in the registry: {self._name}{path.partition('?')[0]}")
        return answer

    def _headers(self) -> dict[str, str]:
        signed = {"Authorization": self._signed} if self._signed else {}
        return {"Accept": f"{_MANIFEST}, application/json, */*", **signed}

    async def _sign_in(self, headers: Mapping[str, str]) -> str:
        """Makes the Authorization header that the registry requires (RFC 6750 or RFC 7617)."""
        challenge = headers.get("WWW-Authenticate", "")
        if challenge.lower().startswith("basic") and self._authorization:
            return self._authorization
        fields = dict(_CHALLENGE.findall(challenge))
        if not challenge.lower().startswith("bearer") or "realm" not in fields:
            raise Unavailable("the registry requires an unsupported authentication scheme")
        asked = {key: fields[key] for key in ("service", "scope") if key in fields}
        url = URL(fields["realm"]).update_query(asked)
        if url.scheme != "https" and not is_loopback_host(url.host or ""):
            raise Unavailable(
                f"refusing to authenticate at {url.host} without TLS, as the registry requests"
            )
        own = {"Authorization": self._authorization} if self._authorization else None
        answer = await self._fetcher.get(str(url), max_bytes=_MAX_JSON, headers=own)
        if answer.status != 200:
            raise Unavailable(f"the registry refused a token for {self._name}")
        given = _json(answer)
        return f"Bearer {given.get('token') or given.get('access_token') or ''}"


def _json(answer: ChartHttpResponse) -> dict:
    try:
        value = orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        raise Unavailable("the registry's answer is not JSON") from error
    if not isinstance(value, dict):
        raise Unavailable("the registry's answer does not follow the specification")
    return value
