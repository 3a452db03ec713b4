"""Ports that another program takes, before a start or during one."""

import asyncio
import socket
from pathlib import Path

import pytest

from controlplane.agents.operations.tunnels import TunnelClaims
from core.errors import Unavailable
from proxy.kube_proxy import KubeProxy
from tests.fakes.operations import operations_over_memory
from tests.integration.serve.conftest import running
from tests.integration.serve.test_start import refused
from towline.serve.replicas import ReplicaMembership
from towline.settings import ServeSettings


class ListeningProxy(KubeProxy):
    """Only listens for replicas."""

    def __init__(self) -> None:
        """Makes none of the parts."""

    async def listen_for_replicas(self, host: str, port: int) -> int:
        await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
        raise AssertionError("the port was free")


async def test_a_taken_agents_port_is_named_in_one_line(tmp_path: Path) -> None:
    """No word of gRPC's own about what it was made for."""
    async with running(tmp_path / "first") as hub:
        said = refused(
            tmp_path / "second", "--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0",
            "--listen-agents", hub.addresses.agents,
        )  # fmt: skip
        assert f"cannot listen on {hub.addresses.agents} for agents: Address already in use" in said
        assert (
            "stop the program that uses this port, or set another one with --listen-agents" in said
        )


async def test_a_port_that_is_taken_after_the_check_is_named_with_its_option(
    tmp_path: Path,
) -> None:
    """The listener for replicas starts late, and says the same as the check before the start."""
    world = operations_over_memory()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = ServeSettings(data=tmp_path, listen_replicas=address)
        claims = TunnelClaims(world.context)
        replica = ReplicaMembership(settings, claims, world.context.bus, world.clock)
        with pytest.raises(
            Unavailable, match=f"cannot listen on {address} for replicas: .* in use"
        ) as said:
            await replica.start(ListeningProxy())
    assert said.value.message.endswith("set another one with --listen-replicas")
