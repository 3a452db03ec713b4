"""Key-encryption keys behind the operator's own hook: a command or a URL.

Hooks integrate any cloud's key management. Both kinds receive the JSON `{"operation": "wrap" or
"unwrap", "context": …, "data": base64}`, and answer with `{"data": base64}`.
"""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from pathlib import Path

import orjson

from controlplane.secrets.backends.http import JsonClient
from core.errors import Unavailable
from core.json_object import JsonValue

_MAX_BYTES = 64 << 10
_SECONDS = 20.0


class CommandKek:
    """Implements `KeyEncryption` with a command that receives the request on its standard input."""

    def __init__(self, argv: Sequence[str], seconds: float = _SECONDS) -> None:
        self.name = f"command:{' '.join(argv)}"[:255]
        self._argv = tuple(argv)
        self._seconds = seconds

    async def wrap(self, key: bytes, context: str) -> bytes:
        return await self._run_command(_request_body("wrap", key, context))

    async def unwrap(self, wrapped: bytes, context: str) -> bytes:
        return await self._run_command(_request_body("unwrap", wrapped, context))

    async def close(self) -> None:
        """Does nothing: there are no connections."""

    async def _run_command(self, request: dict[str, str]) -> bytes:
        title = f"the key command {self._argv[0]}"
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
            )
        except OSError as error:
            raise Unavailable(f"{title} cannot be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(self._seconds):
                output, _ = await process.communicate(orjson.dumps(request))
        except TimeoutError:
            raise Unavailable(f"{title} did not end in {self._seconds:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise Unavailable(f"{title} ended with code {process.returncode}")
        return _decode_answer(title, _parse_output(output))


class HttpKek:
    """Implements `KeyEncryption` with a URL that receives the request."""

    def __init__(self, url: str, token: str = "", ca_file: Path | None = None) -> None:
        self.name = f"http:{url}"[:255]
        self._title = f"the key hook {url}"
        self._client = JsonClient(self._title, url, ca_file)
        self._headers = {"content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    async def wrap(self, key: bytes, context: str) -> bytes:
        return await self._post(_request_body("wrap", key, context))

    async def unwrap(self, wrapped: bytes, context: str) -> bytes:
        return await self._post(_request_body("unwrap", wrapped, context))

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.close()

    async def _post(self, request: dict[str, str]) -> bytes:
        return _decode_answer(
            self._title, await self._client.ask("POST", "", self._headers, request)
        )


def _request_body(operation: str, data: bytes, context: str) -> dict[str, str]:
    return {"operation": operation, "context": context, "data": base64.b64encode(data).decode()}


def _parse_output(output: bytes) -> object:
    try:
        return orjson.loads(output) if len(output) <= _MAX_BYTES else None
    except orjson.JSONDecodeError:
        return None


def _decode_answer(title: str, answer: object) -> bytes:
    data: JsonValue = answer.get("data") if isinstance(answer, dict) else None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Unavailable(f'{title} did not answer with {{"data": base64}}') from None
