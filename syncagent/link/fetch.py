"""Transfer of bundles: downloads from the control plane, resumed after a broken link, and uploads
to it.
"""

import asyncio
from contextlib import aclosing

from core.errors import Invalid, NotFound, TowlineError
from core.rpc.calls import CallChannel, CallFailed, CallStatus, Metadata
from core.rpc.methods import FETCH, UPLOAD
from core.spec.bundle import MAX_BUNDLE_BYTES, digest_of, open_bundle
from core.wire.limits import check
from core.wire.v1 import agent_pb2 as pb
from syncagent.ports import LinkDown

_MAX_CONCURRENT = 8
_PARTS_KEPT = 16
_PART_BYTES = 64 << 10
_OFFERED_BYTES = 16 << 20


class BundleTransfer:
    """Implements `ports.BundleFetcher` and `ports.Uploader` while a link exists."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._channel: CallChannel | None = None
        self._turn = asyncio.Semaphore(_MAX_CONCURRENT)
        self._parts: dict[str, bytearray] = {}
        self._offered: dict[str, bytes] = {}
        self._offered_bytes = 0

    def use(self, channel: CallChannel | None) -> None:
        """Sets the link for transfers from now on; None: there is none."""
        self._channel = channel

    def offer(self, digest: str, data: bytes) -> None:
        """Keeps a bundle that the control plane has pushed, for the next fetch of its digest."""
        self._take_offered(digest)
        self._offered[digest] = data
        self._offered_bytes += len(data)
        while self._offered_bytes > _OFFERED_BYTES:
            self._take_offered(next(iter(self._offered)))

    async def fetch(self, digest: str, size: int) -> bytes:
        if size > MAX_BUNDLE_BYTES:
            raise Invalid(
                f"the bundle has {size:,} bytes, more than the limit of {MAX_BUNDLE_BYTES:,}"
            )
        offered = self._take_offered(digest)
        if offered is not None and digest_of(offered) == digest:
            return offered
        async with self._turn:
            data = self._parts.pop(digest, bytearray())
            try:
                await self._receive(digest, data)
            except LinkDown:
                self._keep_part(digest, data)
                raise
        whole = bytes(data)
        open_bundle(digest, whole)
        return whole

    async def upload(self, command_id: str, digest: str, data: bytes) -> None:
        """Implements `ports.Uploader`."""
        if self._channel is None:
            raise LinkDown("cannot send a bundle: not connected to the control plane")
        try:
            kept = await self._send(self._channel, command_id, data)
        except CallFailed as error:
            raise _upload_error(error) from error
        if kept != digest:
            raise Invalid(f"the control plane stored digest {kept}, but the agent sent {digest}")

    async def _send(self, channel: CallChannel, command_id: str, data: bytes) -> str:
        """Sends a bundle and returns the digest that the control plane stored."""
        stream = await UPLOAD.begin(channel, self._metadata)
        try:
            for offset in range(0, max(len(data), 1), _PART_BYTES):
                part = data[offset : offset + _PART_BYTES]
                await stream.write(pb.Part(command_id=command_id, data=part))
            await stream.done()
            uploaded = await stream.read()
        finally:
            stream.cancel()
        if uploaded is None:
            raise CallFailed(
                CallStatus.INTERNAL, "the control plane did not return the stored digest"
            )
        return uploaded.digest

    async def _receive(self, digest: str, data: bytearray) -> None:
        if self._channel is None:
            raise LinkDown("cannot fetch the bundle: not connected to the control plane")
        request = pb.FetchRequest(digest=digest, offset=len(data))
        try:
            async with aclosing(
                FETCH.stream_responses(self._channel, self._metadata, request)
            ) as chunks:
                async for chunk in chunks:
                    _append(digest, data, chunk)
        except CallFailed as error:
            raise _fetch_error(digest, error) from error

    def _take_offered(self, digest: str) -> bytes | None:
        data = self._offered.pop(digest, None)
        self._offered_bytes -= len(data or b"")
        return data

    def _keep_part(self, digest: str, data: bytearray) -> None:
        """Keeps the received part of a bundle, for a few bundles."""
        self._parts[digest] = data
        while len(self._parts) > _PARTS_KEPT:
            del self._parts[next(iter(self._parts))]


def _append(digest: str, data: bytearray, chunk: pb.Chunk) -> None:
    check(chunk)
    if chunk.offset != len(data) or chunk.total > MAX_BUNDLE_BYTES:
        raise Invalid(f"bundle {digest} arrived in parts that do not match")
    data += chunk.data
    if len(data) > chunk.total:
        raise Invalid(f"bundle {digest} is longer than announced")


def _upload_error(error: CallFailed) -> TowlineError:
    detail = error.message
    if error.status is CallStatus.NOT_FOUND:
        return NotFound(detail)
    if error.status is CallStatus.INVALID_ARGUMENT:
        return Invalid(detail)
    return LinkDown(f"a bundle cannot be sent: {detail}")


def _fetch_error(digest: str, error: CallFailed) -> TowlineError:
    detail = error.message
    if error.status is CallStatus.NOT_FOUND:
        return NotFound(f"the control plane does not have bundle {digest}: {detail}")
    return LinkDown(f"bundle {digest} cannot be fetched: {detail}")
