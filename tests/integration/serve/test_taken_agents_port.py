"""A start that finds the agents' port taken."""

from pathlib import Path

from tests.integration.serve.conftest import running
from tests.integration.serve.test_start import refused


async def test_a_taken_agents_port_is_named_in_one_line(tmp_path: Path) -> None:
    """No word of gRPC's own about what it was made for."""
    async with running(tmp_path / "first") as hub:
        said = refused(
            tmp_path / "second", "--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0",
            "--listen-agents", hub.addresses.agents,
        )  # fmt: skip
        assert f"cannot listen on {hub.addresses.agents} for agents: Address already in use" in said
