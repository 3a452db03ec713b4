"""Client side of requests between replicas."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import structlog
from pydantic import TypeAdapter, ValidationError

from core.errors import NotFound, TowlineError, Unavailable
from core.mux.codec import END, FEATURE_REPLICA_REQUESTS, KIND_REPLICA_REQUEST, Buffer, Open
from core.mux.mux import Mux
from core.mux.stream import TunnelStream
from core.open_streams import FoundStreams, RecordingPart, StreamFilter, sort_longest_open
from proxy.domain.limits import Load
from proxy.ports import TunnelRegistry
from proxy.replicas.links import ReplicaLinks
from proxy.replicas.messages import (
    ENDED,
    LOADS,
    MAX_ANSWER,
    PART,
    QUESTION,
    STREAMS,
    EndStream,
    ListLoads,
    ListStreams,
    Question,
    ReadRecording,
)

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 3.0
_ASKER = b"replica"

Answer = TypeVar("Answer")


class ReplicaClient:
    """Asks the other replicas over the links that carry requests; names those that do not answer in
    time.
    """

    def __init__(self, registry: TunnelRegistry, peers: ReplicaLinks) -> None:
        self._registry, self._peers = registry, peers

    async def streams(self, stream_filter: StreamFilter) -> FoundStreams:
        """Lists the open requests of the other replicas."""
        answers, silent = await self._ask_all_replicas(ListStreams(stream_filter), STREAMS)
        found = [replace(stream, replica=at) for at, streams in answers for stream in streams]
        return FoundStreams(sort_longest_open(found), silent)

    async def loads(self) -> list[Mapping[str, Load]]:
        """Returns the loads of each replica that answers."""
        answers, _ = await self._ask_all_replicas(ListLoads(), LOADS)
        return [loads for _, loads in answers]

    async def end(self, replica: str, id: str, by: str) -> bool:
        """Ends a request in the replica at this address. Unavailable: it does not answer."""
        return await self._send_question(replica, EndStream(id, by), ENDED)

    async def recording(self, id: str, offset: int, max_bytes: int) -> RecordingPart:
        """Reads a part of a recording from the replica that stores it.
        NotFound: no replica has it. Unavailable: a replica that may have it does not answer.
        """
        answers, silent = await self._ask_all_replicas(ReadRecording(id, offset, max_bytes), PART)
        for _, part in answers:
            if part is not None:
                return part
        if silent:
            raise Unavailable(
                "no recording of this request was found, but these replicas did not answer: "
                + ", ".join(silent)
            )
        raise NotFound("no recording of this request exists, or it was deleted")

    async def _ask_all_replicas(
        self, question: Question, kind: TypeAdapter[Answer]
    ) -> tuple[list[tuple[str, Answer]], tuple[str, ...]]:
        """Asks all other replicas; returns the answers by address, and the addresses without an
        answer.
        """
        addresses = [replica.address for replica in await self._registry.other_replicas()]
        results = await asyncio.gather(
            *(self._ask_replica(address, question, kind) for address in addresses)
        )
        answers = [result for result in results if result is not None]
        attempts = zip(addresses, results, strict=True)
        return answers, tuple(address for address, result in attempts if result is None)

    async def _ask_replica(
        self, address: str, question: Question, kind: TypeAdapter[Answer]
    ) -> tuple[str, Answer] | None:
        try:
            return address, await self._send_question(address, question, kind)
        except TowlineError as error:
            log.warning("a replica does not answer", at=address, reason=error.message)
            return None

    async def _send_question(
        self, address: str, question: Question, kind: TypeAdapter[Answer]
    ) -> Answer:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                link = await self._peers.link(address)
                return kind.validate_json(await _answer(link, question))
        except TimeoutError:
            raise Unavailable(
                f"the replica at {address} did not answer within {ANSWER_SECONDS:g} s"
            ) from None
        except ValidationError:
            raise Unavailable(f"the replica at {address} sent an invalid answer") from None


async def _answer(link: Mux, question: Question) -> bytes:
    """Sends a request and waits for the response. Unavailable: the link broke, or the replica's
    version does not support requests.
    """
    if not link.features & FEATURE_REPLICA_REQUESTS:
        raise Unavailable("its version does not support requests between replicas")
    answer = _AnswerStream()
    request = Open(b"", b"", secrets.token_bytes(16), kind=KIND_REPLICA_REQUEST)
    stream = answer.stream = link.open(answer, request, tenant=_ASKER)
    stream.send(QUESTION.dump_json(question), END)
    try:
        return await answer.complete
    finally:
        stream.reset()


class _AnswerStream:
    """Owner of the stream of one outgoing request; collects the response."""

    def __init__(self) -> None:
        self.complete: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.stream: TunnelStream
        self._data = bytearray()

    def on_data(self, data: Buffer) -> None:
        self._data += data
        self.stream.consumed(len(data))
        if len(self._data) > MAX_ANSWER:
            self._set_error("its answer is too long")

    def on_end(self, close: bool) -> None:
        if not self.complete.done():
            self.complete.set_result(bytes(self._data))

    def on_writable(self) -> None:
        """Does nothing: the request is sent in one piece."""

    def on_reset(self, code: int, text: str) -> None:
        self._set_error(text or "it interrupted its answer")

    def _set_error(self, reason: str) -> None:
        if not self.complete.done():
            self.complete.set_exception(Unavailable(reason))
