"""Baseline relay built from standard libraries: `python -m bench.harness.relay hub|agent`.

Starlette on uvicorn sends requests as protobuf messages over one gRPC stream to an agent, which
uses an aiohttp client. It has one fixed token, no authorization, no audit, no upgrades, and one
queue per response. `hub CERTIFICATE KEY HTTP_PORT` prints the port for its agent. Usage of the
agent: `agent HUB_PORT CA BACKEND_PORT`.
"""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import aiohttp
import grpc
import uvicorn
import uvloop
from google.protobuf.any_pb2 import Any as Frame
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from bench.harness.programs import announce
from core.runtime.tasks import Tasks

TOKEN = "Bearer bench"
METHOD = "/bench.Relay/Tunnel"
MAX_WAITING_PARTS = 64


def serialize(message: Frame) -> bytes:
    """Encodes a message."""
    return message.SerializeToString()


def make_frame(number: int, kind: str, value: bytes = b"") -> Frame:
    """Builds a message from request number, kind and bytes."""
    return Frame(type_url=f"{number}:{kind}", value=value)


def parse_frame(message: Frame) -> tuple[int, str, bytes]:
    """Request number, kind and bytes of a message."""
    number, _, kind = message.type_url.partition(":")
    return int(number), kind, message.value


class RelayHub:
    """The hub's side of the relay."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Queue[tuple[str, bytes]]] = {}
        self._out: asyncio.Queue[Frame] = asyncio.Queue(1024)
        self.connected = asyncio.Event()

    async def tunnel(self, messages: AsyncIterator[Frame], _: Any) -> AsyncIterator[Frame]:
        """Serves the agent's stream."""
        tasks = Tasks("relay")
        tasks.spawn("answers", self._receive_responses(messages))
        self.connected.set()
        while True:
            yield await self._out.get()

    async def _receive_responses(self, messages: AsyncIterator[Frame]) -> None:
        async for message in messages:
            number, kind, value = parse_frame(message)
            if (answer := self._answers.get(number)) is not None:
                await answer.put((kind, value))

    async def serve(self, request: Request) -> Response:
        """Serves one request of a user."""
        if request.headers.get("authorization") != TOKEN:
            return Response(status_code=401)
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.Queue(MAX_WAITING_PARTS)
        target = "/" + request.path_params["path"]
        if request.url.query:
            target += "?" + request.url.query
        await self._out.put(make_frame(number, request.method, target.encode()))
        status, value = await answer.get()
        length = {"content-length": value.decode()} if value else {}
        return StreamingResponse(self._body(number, answer), int(status), length)

    async def _body(
        self, number: int, answer: asyncio.Queue[tuple[str, bytes]]
    ) -> AsyncIterator[bytes]:
        try:
            while (item := await answer.get())[0] == "data":
                yield item[1]
        finally:
            del self._answers[number]


async def run_hub(certificate: bytes, key: bytes, port: str) -> None:
    """Serves users and the agent until killed."""
    hub = RelayHub()
    handler = grpc.stream_stream_rpc_method_handler(
        hub.tunnel,
        request_deserializer=Frame.FromString,
        response_serializer=serialize,
    )
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    service = grpc.method_handlers_generic_handler("bench.Relay", {"Tunnel": handler})
    server.add_generic_rpc_handlers((service,))
    agents = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)])
    )
    await server.start()
    app = Starlette(routes=[Route("/k8s/clusters/bench/{path:path}", hub.serve)])
    config = uvicorn.Config(
        app, port=int(port), log_config=None, access_log=False, lifespan="off", loop="none"
    )
    announce(agents)
    await uvicorn.Server(config).serve()


async def run_agent(port: str, ca: bytes, backend: str) -> None:
    """Forwards the hub's requests to the backend until killed."""
    credentials = grpc.ssl_channel_credentials(ca)
    channel = grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials)
    call = channel.stream_stream(METHOD, serialize, Frame.FromString)()
    write_lock, tasks = asyncio.Lock(), Tasks("relay agent")

    async def send(message: Frame) -> None:
        async with write_lock:
            await call.write(message)

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        announce(0)
        while True:
            number, method, target = parse_frame(cast(Frame, await call.read()))
            url = f"http://127.0.0.1:{backend}{target.decode()}"
            tasks.spawn("request", _forward_request(session, method, url, number, send))


async def _forward_request(
    session: aiohttp.ClientSession, method: str, url: str, number: int, send: Callable[[Frame], Any]
) -> None:
    timeout = aiohttp.ClientTimeout(total=None)
    async with session.request(method, url, timeout=timeout) as answer:
        length = answer.headers.get("content-length", "")
        await send(make_frame(number, str(answer.status), length.encode()))
        async for data in answer.content.iter_any():
            await send(make_frame(number, "data", data))
    await send(make_frame(number, "end"))


def main(role: str, *arguments: str) -> None:
    """Runs one side."""
    if role == "hub":
        certificate, key, port = arguments
        uvloop.run(run_hub(Path(certificate).read_bytes(), Path(key).read_bytes(), port))
    else:
        port, ca, backend = arguments
        uvloop.run(run_agent(port, Path(ca).read_bytes(), backend))


if __name__ == "__main__":
    main(*sys.argv[1:])
