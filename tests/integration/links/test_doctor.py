"""What the doctor says of a control plane that is not to be trusted, or of words that are none."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import Unavailable
from core.rpc.implementations import GrpcImplementation
from core.runtime.clock import SystemClock
from syncagent.compose import control_plane_access
from syncagent.settings import HubSettings
from syncagent.upkeep.doctor import diagnose
from tests.fakes.links import server_of
from tests.fakes.tls import TestAuthority


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
