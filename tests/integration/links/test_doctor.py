"""What the doctor says of a control plane that is not to be trusted, or of words that are none."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import NotFound, Unavailable
from core.mux import codec
from core.mux.codec import Hello
from core.native import data_link_version
from core.rpc.calls import Call, CallFailed
from core.rpc.implementations import GrpcImplementation
from core.rpc.methods import FETCH, TUNNEL
from core.runtime.clock import SystemClock
from syncagent.compose import control_plane_access
from syncagent.settings import HubSettings
from syncagent.upkeep.doctor import diagnose
from tests.fakes.links import server_of
from tests.fakes.tls import TestAuthority
from tests.planes import needs_native


class Unasked:
    """The API server is not looked at."""

    async def request(self, *_: object, **__: object) -> dict[str, Any]:
        raise Unavailable("none here")


async def failure(hub: HubSettings, folder: Path) -> tuple[str, str]:
    """The first step that fails, and why."""
    found = [one async for one in diagnose(control_plane_access(hub), Unasked(), folder)]
    failed = next(one for one in found if not one.good)
    return failed.step, failed.text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"host": "localhost", "until": datetime(2021, 1, 1, tzinfo=UTC)}, "has expired"),
        ({"host": "another"}, "not valid for 'localhost'"),
    ],
    ids=["expired", "of another name"],
)
async def test_why_a_certificate_is_not_good(options: dict, text: str, tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path, **options)
    server = server_of(GrpcImplementation.HTTP2, {}, SystemClock())
    port = await server.start(("127.0.0.1", 0), authority)
    hub = HubSettings(f"https://localhost:{port}", "twa_x", authority.ca)
    step, why = await failure(hub, tmp_path)
    await server.stop()
    assert step == "speaks tls" and text in why


async def test_a_trust_file_that_is_no_pem_is_a_finding(tmp_path: Path) -> None:
    server = server_of(GrpcImplementation.HTTP2, {}, SystemClock())
    port = await server.start(("127.0.0.1", 0), None)
    file = tmp_path / "ca.der"
    file.write_bytes(b"\x30\x82\x01")
    step, _ = await failure(HubSettings(f"https://127.0.0.1:{port}", "twa_x", file), tmp_path)
    await server.stop()
    assert step == "speaks tls"


async def test_a_name_that_cannot_be_one_is_a_finding(tmp_path: Path) -> None:
    assert (await failure(HubSettings("https://a..b:1", "twa_x"), tmp_path))[0] == "resolves"


class Api:
    """An API server that answers."""

    async def request(self, *_: object, **__: object) -> dict[str, Any]:
        return {"gitVersion": "v1.36.3"}


async def no_file(call: Call) -> None:
    """The control plane knows the token, and not the file."""
    raise NotFound("no such file")


@needs_native
@pytest.mark.parametrize("further", [0, 1])
async def test_a_data_link_of_another_version_is_named(further: int, tmp_path: Path) -> None:
    """The tunnel works without one, so nothing is wrong."""
    own = data_link_version()
    hello = Hello(b"p" * 16, 1 << 20, data_link=own + further).pack()

    async def tunnel(call: Call) -> None:
        await call.write(codec.header(0, codec.HELLO, len(hello)) + hello)
        with suppress(CallFailed):
            await call.read()

    authority = TestAuthority(tmp_path)
    handlers = {FETCH.path: no_file, TUNNEL: tunnel}
    server = server_of(GrpcImplementation.HTTP2, handlers, SystemClock())
    port = await server.start(("127.0.0.1", 0), authority)
    hub = HubSettings(f"https://localhost:{port}", "twa_x", authority.ca)
    found = {one.step: one async for one in diagnose(control_plane_access(hub), Api(), tmp_path)}
    await server.stop()
    tunnel_result = found["tunnel"]
    assert tunnel_result.good
    assert ("data link" in tunnel_result.text) == bool(further)
    assert (f"version {own + 1}, that of the agent version {own}" in tunnel_result.text) == bool(
        further
    )
