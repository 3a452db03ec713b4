"""Starts and connects all systems of `bench.tunnel`."""

import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Self

from bench.harness.load_generator import BenchTarget
from bench.harness.programs import Program, running
from towline.demo.environment import DemoEnvironment
from towline.demo.ports import free_ports

PREFIX = "/k8s/clusters"
RELAY_TOKEN = "bench"
_CREATE = """mutation ($name: String!) { createCluster(attributes: {name: $name})
  { id deployToken } }"""


class TunnelHarness:
    """Control plane, real cluster with an agent, backend with an agent, and relay."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """`variables`: more environment variables of the control plane."""
        self._closing = ExitStack()
        https, http, agents = free_ports(3)
        self.http_port, self.agents_port = http, agents
        self.https_port = https
        self.connected_in = 0.0
        self.stage = self._closing.enter_context(
            DemoEnvironment(
                lambda text: print(text, file=sys.stderr),
                (https, http, agents),
                ["dev"],
                variables,
            )
        )

    def __enter__(self) -> Self:
        self.stage.start()
        _, self.backend = self._closing.enter_context(running("backend"))
        self.agent: Program = self._closing.enter_context(self.agents(["bench"]))
        self.token = self.stage.token_file.read_text().strip()
        self.direct = BenchTarget("direct", self.backend)
        self.proxy = self.through("bench", self.agent)
        self.relay = self._start_relay()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def hub_pid(self) -> int:
        """Process id of the control plane."""
        return self.stage.control_plane_pid

    def through(self, cluster: str, agent: Program) -> BenchTarget:
        """System that reaches a cluster through the Kubernetes proxy."""
        pids = (self.hub_pid, agent.pid)
        return BenchTarget("proxy", self.http_port, f"{PREFIX}/{cluster}", self.token, pids)

    @contextmanager
    def agents(
        self,
        names: Sequence[str],
        hub_port: int | None = None,
        pipe: str | None = None,
        data_port: int = 0,
    ) -> Generator[Program]:
        """Starts agents of new clusters in one process, and waits until all are connected."""
        with self.agents_with(self.deploy_tokens(names), hub_port, pipe, data_port) as program:
            yield program

    @contextmanager
    def agents_over_line(self, name: str, rate: float, delay: float) -> Generator[Program]:
        """Starts an agent, both of whose links have one line; see `bench.harness.shaper`."""
        control, data = free_ports(2)
        routes = f"{control}={self.agents_port}", f"{data}={self.https_port}"
        with (
            running("shaper", rate, delay, *routes),
            self.agents([name], control, data_port=data) as program,
        ):
            yield program

    def deploy_tokens(self, names: Sequence[str]) -> list[str]:
        """Creates clusters; returns their deploy tokens."""
        made = [self.stage.ask(_CREATE, name=name)["createCluster"] for name in names]
        return [cluster["deployToken"] for cluster in made]

    @contextmanager
    def agents_with(
        self,
        tokens: Sequence[str],
        hub_port: int | None = None,
        pipe: str | None = None,
        data_port: int = 0,
    ) -> Generator[Program]:
        """Starts agents for tokens in one process, and waits; sets `connected_in` (seconds)."""
        given = {
            "hub": f"127.0.0.1:{hub_port or self.agents_port}",
            "ca": self.stage.authority.read_text(),
            "tokens": list(tokens),
            "upstream": self.backend,
            "pipe": pipe,
            "data_port": data_port,
        }
        with running("agents", stdin=json.dumps(given)) as (program, milliseconds):
            self.connected_in = milliseconds / 1000
            yield program

    def _start_relay(self) -> BenchTarget:
        tls = self.stage.data / "tls"
        (port,) = free_ports(1)
        hub, agents = self._closing.enter_context(
            running("relay", "hub", tls / "server.crt", tls / "server.key", port)
        )
        agent, _ = self._closing.enter_context(
            running("relay", "agent", agents, self.stage.authority, self.backend)
        )
        return BenchTarget("relay", port, f"{PREFIX}/bench", RELAY_TOKEN, (hub.pid, agent.pid))
