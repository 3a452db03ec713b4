"""Names of targets that people have given, which change their mind between two looks."""

from ipaddress import ip_address

import pytest
from aiohttp import web

from controlplane.notify.addresses import Address, AddressGuard
from controlplane.notify.client import GuardedHttpClient
from core.errors import Unavailable


class Names(AddressGuard):
    """Gives one answer after the other; only 127.0.0.0/8 may be reached."""

    def __init__(self, *answers: str) -> None:
        super().__init__(("127.0.0.0/8",))
        self.left = list(answers)

    async def _ask(self, host: str, port: int) -> list[Address]:
        return [ip_address(self.left.pop(0))]


async def test_a_target_is_connected_to_where_it_was_judged() -> None:
    """A name that leads to a private place at the second look (DNS rebinding) gains nothing."""

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello", headers={"Connection": "close"})

    app = web.Application()
    app.router.add_get("/", hello)
    running = web.AppRunner(app)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", 0).start()
    names = Names("127.0.0.1", "169.254.169.254")
    client = GuardedHttpClient(names)
    url = f"http://hooks.test:{running.addresses[0][1]}/"
    try:
        assert (await client.ask("GET", url, {})).status == 200
        assert names.left == ["169.254.169.254"]
        other = GuardedHttpClient(names)
        with pytest.raises(Unavailable, match="private address"):
            await other.ask("GET", url, {})
        await other.close()
    finally:
        await client.close()
        await running.cleanup()
