"""Connections of this process are counted and cut from outside of whatever uses them."""

import socket
import time
from collections.abc import Iterator

import pytest

from core.rpc.methods import TUNNEL
from core.runtime.clock import SystemClock
from towline.simulate.agent import BalancedEndpoint
from towline.simulate.connections import cut, traffic

SENT = 100_000
PATIENCE = 10.0


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one


def port_of(one: socket.socket) -> int:
    return one.getsockname()[1]


def test_bytes_are_counted_of_connections_to_the_port_only(listener: socket.socket) -> None:
    """As TCP counts them, once they are acknowledged."""
    port = port_of(listener)
    with socket.create_connection(("127.0.0.1", port)) as client, listener.accept()[0] as server:
        client.sendall(b"x" * SENT)
        left = SENT
        while left:
            left -= len(server.recv(left))
        until = time.monotonic() + PATIENCE
        while traffic([port])[0] < SENT and time.monotonic() < until:
            time.sleep(0.01)
        assert SENT <= traffic([port])[0] <= SENT + 2
        assert traffic([port])[1] == 0
        assert traffic([port + 1]) == (0, 0)


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (1.0, 1)])
def test_a_cut_connection_ends_at_both_ends(
    listener: socket.socket, share: float, count: int
) -> None:
    port = port_of(listener)
    with socket.create_connection(("127.0.0.1", port)) as client, listener.accept()[0] as server:
        assert cut([port], share) == count
        if count:
            server.settimeout(PATIENCE)
            assert server.recv(1) == b""
        else:
            client.sendall(b"x")
            assert server.recv(1) == b"x"


async def test_an_agent_is_led_to_an_address_that_listens(listener: socket.socket) -> None:
    """As by a load balancer that looks after its targets."""
    with socket.create_server(("127.0.0.1", 0)) as closing:
        dead = port_of(closing)
    addresses = (f"http://127.0.0.1:{dead}", f"http://127.0.0.1:{port_of(listener)}")
    listener.settimeout(PATIENCE)
    for _ in range(5):
        channel = BalancedEndpoint(addresses[0], "twa_x", addresses=addresses).connect(
            SystemClock()
        )
        await channel.call(TUNNEL, ())
        listener.accept()[0].close()
        await channel.close()
