"""Key-encryption keys behind the operator's own hook: a command or a URL.

Hooks integrate any cloud's key management. Both kinds receive the JSON `{"operation": "wrap" or
"unwrap", "context": …, "data": base64}`, and answer with `{"data": base64}`.
"""

import asyncio
import base64
import binascii
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from controlplane.secrets.backends.http import JsonClient
from controlplane.secrets.ports import KeyEncryption
from core.errors import Unavailable
from core.json_object import JsonValue

_MAX_BYTES = 64 << 10
_SECONDS = 20.0


class _HookKek(KeyEncryption):
    """Key encryption with a hook; a subclass sends the request."""

    def __init__(self, name: str, title: str) -> None:
        self.name = name[:255]
        self._title = title

    async def wrap(self, key: bytes, context: str) -> bytes:
        return await self._call("wrap", key, context)

    async def unwrap(self, wrapped: bytes, context: str) -> bytes:
        return await self._call("unwrap", wrapped, context)

    async def _call(self, operation: str, data: bytes, context: str) -> bytes:
        encoded = base64.b64encode(data).decode()
        answer = await self._send({"operation": operation, "context": context, "data": encoded})
        result: JsonValue = answer.get("data") if isinstance(answer, dict) else None
        try:
            return base64.b64decode(result, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise Unavailable(f'{self._title} did not answer with {{"data": base64}}') from None

    @abstractmethod
    async def _send(self, request: Mapping[str, str]) -> object:
        """Returns the parsed answer of the hook. Raises Unavailable."""


class CommandKek(_HookKek):
    """Key encryption with a command that receives the request on its standard input."""

    def __init__(self, argv: Sequence[str], seconds: float = _SECONDS) -> None:
        super().__init__(f"command:{' '.join(argv)}", f"the key command {argv[0]}")
        self._argv = tuple(argv)
        self._seconds = seconds

    async def _send(self, request: Mapping[str, str]) -> object:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
            )
        except OSError as error:
            raise Unavailable(f"{self._title} cannot be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(self._seconds):
                output, _ = await process.communicate(orjson.dumps(request))
        except TimeoutError:
            raise Unavailable(f"{self._title} did not end in {self._seconds:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise Unavailable(f"{self._title} ended with code {process.returncode}")
        try:
            return orjson.loads(output) if len(output) <= _MAX_BYTES else None
        except orjson.JSONDecodeError:
            return None


class HttpKek(_HookKek):
    """Key encryption with a URL that receives the request."""

    def __init__(self, url: str, token: str = "", ca_file: Path | None = None) -> None:
        super().__init__(f"http:{url}", f"the key hook {url}")
        self._client = JsonClient(self._title, url, ca_file)
        self._headers = {"content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    async def close(self) -> None:
        await self._client.close()

    async def _send(self, request: Mapping[str, str]) -> object:
        return await self._client.ask("POST", "", self._headers, dict(request))
