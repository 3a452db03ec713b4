"""Published metadata of an issuer: its endpoints and keys, fetched and cached."""

import asyncio
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import jwt
import orjson

from core.errors import Invalid, Unauthenticated, Unavailable
from core.id_tokens import choose_key, missing_key, parse_keys
from core.json_object import JsonObject
from core.outbound.addresses import EVERYWHERE, AddressGuard
from core.outbound.client import OutboundClient, OutboundRoute, client_tls
from core.outbound.reply import HttpReply
from core.remotes import is_loopback_host
from core.runtime.clock import Clock

MAX_BYTES = 256 << 10
CACHE_SECONDS = 3600.0
RETRY_SECONDS = 10.0
_WELL_KNOWN = "/.well-known/openid-configuration"


class IssuerHttpClient:
    """HTTP client for issuers: verified TLS, without redirects; plain HTTP only to localhost."""

    def __init__(self, ca_file: Path | None = None) -> None:
        self._http = OutboundClient(AddressGuard(EVERYWHERE), OutboundRoute(client_tls(ca_file)))

    async def get(self, url: str) -> JsonObject:
        """Returns a JSON object. Raises Unavailable."""
        return await self._request("GET", url, {})

    async def post(self, url: str, form: dict[str, str]) -> JsonObject:
        """Posts a form and returns the JSON object of the response."""
        headers = {"content-type": "application/x-www-form-urlencoded"}
        return await self._request("POST", url, headers, urlencode(form).encode())

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.close()

    async def _request(
        self, method: str, url: str, headers: dict[str, str], body: bytes = b""
    ) -> JsonObject:
        check_url(url)
        host = urlsplit(url).netloc
        accept_header = {"accept": "application/json"}
        try:
            reply = await self._http.request(
                method, url, accept_header | headers, body, max_bytes=MAX_BYTES
            )
        except Unavailable as error:
            raise Unavailable(
                f"the identity provider {host} is unavailable: {error.message}"
            ) from None
        return _json_object(host, reply)


def check_url(url: str) -> None:
    """Raises Invalid unless the URL is https or on localhost."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (
        parts.scheme == "http" and is_loopback_host(parts.hostname or "")
    ):
        return
    raise Invalid(f"an identity provider needs an https URL: {url[:200]}", field="issuer")


def _json_object(host: str, reply: HttpReply) -> JsonObject:
    if reply.status == 200 and not reply.truncated:
        try:
            document = orjson.loads(reply.body)
        except orjson.JSONDecodeError:
            document = None
        if isinstance(document, dict):
            return document
    raise Unavailable(
        f"the identity provider {host} sent an unexpected response (status {reply.status})"
    )


class IssuerMetadata:
    """Endpoints and keys of one issuer.

    An unknown key id triggers a refresh at once, but at most every 10 s. This finds new keys
    quickly, while forged ones cause no load. While the issuer is unavailable, it is asked every
    10 s too, and the known keys remain.
    """

    def __init__(self, issuer: str, fetcher: IssuerHttpClient, clock: Clock) -> None:
        self.issuer = issuer
        self._fetcher = fetcher
        self._clock = clock
        self._lock = asyncio.Lock()
        self._document: JsonObject = {}
        self._document_at = -CACHE_SECONDS
        self._keys: list[jwt.PyJWK] = []
        self._keys_at = -CACHE_SECONDS
        self._failure = ""
        self._retry_at = 0.0

    async def endpoint(self, name: str) -> str:
        """Returns the URL of an endpoint. Raises Unavailable if the issuer does not publish it."""
        async with self._lock:
            url = (await self._discover()).get(name)
        if not isinstance(url, str):
            raise Unavailable(f"{self.issuer} publishes no {name}")
        check_url(url)
        return url

    async def sends_issuer_parameter(self) -> bool:
        """Returns whether each reply of the issuer has the parameter `iss` (RFC 9207)."""
        async with self._lock:
            document = await self._discover()
        return document.get("authorization_response_iss_parameter_supported") is True

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK:
        """Returns the key with this id for this algorithm. Raises Unauthenticated if the issuer has
        none. Unavailable: the issuer cannot be asked.
        """
        key_for_id = choose_key(self._keys, kid, algorithm)
        if key_for_id is not None and not self._are_keys_stale(CACHE_SECONDS):
            return key_for_id
        async with self._lock:
            key_for_id = choose_key(self._keys, kid, algorithm)
            if self._are_keys_stale(RETRY_SECONDS if key_for_id is None else CACHE_SECONDS):
                await self._refresh_keys(has_key=key_for_id is not None)
                key_for_id = choose_key(self._keys, kid, algorithm)
        if key_for_id is None:
            raise Unauthenticated(missing_key(self.issuer, self._keys, kid, algorithm))
        return key_for_id

    def _are_keys_stale(self, seconds: float) -> bool:
        return self._clock.monotonic() - self._keys_at >= seconds

    async def _refresh_keys(self, *, has_key: bool) -> None:
        """Fetches the keys; if the issuer is unreachable, the known keys remain."""
        now = self._clock.monotonic()
        try:
            document = await self._discover()
            self._keys = parse_keys(await self._fetch(str(document.get("jwks_uri", ""))))
        except Unavailable:
            if not has_key:
                raise
        else:
            self._keys_at = now

    async def _fetch(self, url: str) -> JsonObject:
        """Fetches a document. After a failure it does not ask again for 10 s. Unavailable."""
        if self._clock.monotonic() < self._retry_at:
            raise Unavailable(self._failure)
        try:
            return await self._fetcher.get(url)
        except Unavailable as error:
            self._failure = error.message
            self._retry_at = self._clock.monotonic() + RETRY_SECONDS
            raise

    async def _discover(self) -> JsonObject:
        now = self._clock.monotonic()
        if now - self._document_at >= CACHE_SECONDS:
            document = await self._fetch(self.issuer.rstrip("/") + _WELL_KNOWN)
            if document.get("issuer") != self.issuer:
                raise Unavailable(
                    f"{self.issuer} calls itself {str(document.get('issuer'))[:200]!r}: "
                    "the setting must be exactly what it says"
                )
            self._document, self._document_at = document, now
        return self._document
