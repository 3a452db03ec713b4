"""Small GraphQL client: one request at a time, always verifies TLS."""

import http.client
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import TypedDict, TypeVar, cast, overload
from urllib.parse import urlencode, urlsplit

from core import __version__
from core.errors import (
    Code,
    Conflict,
    Forbidden,
    Invalid,
    LimitExceeded,
    NotFound,
    TowlineError,
    Unauthenticated,
    Unavailable,
)
from core.json_object import JsonObject
from core.tls import client_context
from towline.contexts import ControlPlaneTarget
from towline.operations import GraphQLDocument

TIMEOUT_SECONDS = 30.0
MAX_RESPONSE_BYTES = 64 << 20
_MAX_OAUTH_BYTES = 64 << 10

Data = TypeVar("Data")


class OAuthResponse(TypedDict, total=False):
    """Answer of the token or device endpoint: a grant or an error (RFC 6749, RFC 8628)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    interval: float
    expires_in: float
    access_token: str
    refresh_token: str
    error: str
    error_description: str


class _Extensions(TypedDict, total=False):
    code: str


class _Error(TypedDict, total=False):
    message: str
    extensions: _Extensions | None


class _Response(TypedDict, total=False):
    data: object
    errors: list[_Error]


_ERRORS: dict[str, type[TowlineError]] = {
    error.code.value: error
    for error in (
        Conflict,
        Forbidden,
        Invalid,
        LimitExceeded,
        NotFound,
        Unauthenticated,
        Unavailable,
    )
}
_UNKNOWN_IN_SCHEMA = re.compile(
    r"Cannot query field |Unknown (?:argument|type|fragment|directive) |\w+ has no field '"
)
# OpenSSL's codes of a certificate that is not valid yet, or has expired.
_WRONG_TIME = (9, 10)
_VERSION = GraphQLDocument[JsonObject]("{ installation { version } }")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Unsupported(TowlineError):
    """The control plane has another version, and does not know the operation."""


class GraphQLClient:
    """Client for one control plane and one user."""

    def __init__(self, target: ControlPlaneTarget, timeout: float = TIMEOUT_SECONDS) -> None:
        self._base = target.url
        self._url = f"{target.url}/gql"
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": f"towline/{__version__}",
        }
        if target.token:
            self._headers["Authorization"] = f"Bearer {target.token}"
        self._opener = opener(target)
        self._timeout = timeout

    @overload
    def ask(self, document: GraphQLDocument[Data], /, **variables: object) -> Data: ...

    @overload
    def ask(self, document: str, /, **variables: object) -> JsonObject: ...

    def ask(self, document: str, /, **variables: object) -> object:
        """Returns `data` of the response; raises the error that matches its first error.

        Unavailable: no response, or a response that is not from a control plane.
        """
        body = json.dumps({"query": document, "variables": variables}).encode()
        request = urllib.request.Request(self._url, body, self._headers)
        answer = self._parse(*self._send(request))
        if errors := answer.get("errors"):
            error = _parse_error(errors[0])
            if isinstance(error, Invalid) and _UNKNOWN_IN_SCHEMA.search(error.message):
                raise self._older_server(error, document) from None
            raise error
        return answer["data"]

    def _older_server(self, error: Invalid, document: str) -> TowlineError:
        """Explains an operation that the server does not know, if its version is another one."""
        if document == _VERSION:
            return error
        try:
            server = self.ask(_VERSION)["installation"]["version"]
        except TowlineError:
            server = ""
        if server == __version__:
            return error
        return Unsupported(
            f"this towline is version {__version__}, and the control plane {self._base} is "
            f"{f'version {server}' if server else 'of another version'}, which does not support "
            f"this command ({error.message}); upgrade the control plane, or use towline "
            f"{server or 'of its version'}"
        )

    def lines(self, path: str, **query: str) -> Iterator[bytes]:
        """Yields the lines of a streamed response. Unavailable: the connection failed."""
        url = f"{self._base}{path}?{urlencode(query)}"
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                yield from response
        except urllib.error.HTTPError as error:
            with error:
                raise _parse_refusal(error.code, error.read(MAX_RESPONSE_BYTES)) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(_unreachable_message(url, error)) from None

    def post(self, path: str, **fields: str) -> OAuthResponse:
        """Posts a form; returns the JSON object of the response or of the error (RFC 6749)."""
        headers = {**self._headers, "Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode(fields).encode()
        request = urllib.request.Request(f"{self._base}{path}", body, headers)
        status, content = self._send(request, _MAX_OAUTH_BYTES)
        if (answer := _parse_object(content)) is None:
            raise Unavailable(_not_towline_message(f"{self._base}{path}", status))
        return cast(OAuthResponse, answer)

    def _send(
        self, request: urllib.request.Request, limit: int = MAX_RESPONSE_BYTES
    ) -> tuple[int, bytes]:
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return response.status, response.read(limit)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(limit)
        except urllib.error.URLError as error:
            raise Unavailable(_unreachable_message(self._url, error.reason)) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(_unreachable_message(self._url, error)) from None

    def _parse(self, status: int, body: bytes) -> _Response:
        answer = _parse_object(body)
        if answer is None or not _is_response(answer):
            raise Unavailable(_not_towline_message(self._url, status))
        return cast(_Response, answer)


def opener(target: ControlPlaneTarget) -> urllib.request.OpenerDirector:
    """Opens URLs of a control plane. Invalid: it would send the token over plain HTTP."""
    parts = urlsplit(target.url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise Invalid("refusing to send a token over plain HTTP except to localhost", field="url")
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if parts.scheme == "https":
        handlers.append(urllib.request.HTTPSHandler(context=_trust(target.ca)))
    return urllib.request.build_opener(*handlers)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Rejects redirects: they would send the token to another server."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _trust(ca: str) -> ssl.SSLContext:
    try:
        return client_context(text=ca)
    except ssl.SSLError:
        raise Invalid("the file is not a certificate in PEM format", field="ca-file") from None


def _parse_object(body: bytes) -> JsonObject | None:
    """Parses a JSON object; None for anything else."""
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _is_response(answer: JsonObject) -> bool:
    """Reports whether a JSON object has the form of a GraphQL response."""
    if errors := answer.get("errors"):
        return isinstance(errors, list) and isinstance(errors[0], dict)
    return bool(answer.get("data")) and isinstance(answer["data"], dict)


def _parse_error(error: _Error) -> TowlineError:
    code = (error.get("extensions") or {}).get("code", Code.INTERNAL.value)
    message = str(error.get("message", "unknown error"))
    return _ERRORS.get(code, TowlineError)(message)


def _parse_refusal(status: int, body: bytes) -> TowlineError:
    """Converts an error response to an exception."""
    try:
        answer = json.loads(body)
        return _ERRORS.get(answer["code"], TowlineError)(str(answer["error"]))
    except (ValueError, KeyError, TypeError):
        return Unavailable(_not_towline_message("the server", status))


def _not_towline_message(url: str, status: int) -> str:
    return f"got {status} from {url}: is this a Towline control plane?"


def connection_error_text(reason: object) -> str:
    """Describes a failed connection without the number of the error."""
    return (isinstance(reason, OSError) and reason.strerror) or str(reason)


def _unreachable_message(url: str, reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError) and reason.verify_code in _WRONG_TIME:
        return (
            f"the certificate of {url} is not valid now ({reason.verify_message}): renew it on the "
            "control plane, whose expiry `towline admin doctor` shows there, or correct the clock "
            "of this machine"
        )
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {url} is not trusted ({reason.verify_message}): sign in with "
            "--ca-file; the control plane's own CA is tls/ca.crt in its data directory"
        )
    if isinstance(reason, http.client.HTTPException | ssl.SSLError):
        scheme = "TLS" if isinstance(reason, ssl.SSLError) else "HTTP"
        return (
            f"{url} does not answer over {scheme}: check the scheme and the port; agents use "
            "another port than people and the API"
        )
    text = connection_error_text(reason)
    return f"cannot reach {url}: {text}; check the address, and that the control plane runs"
