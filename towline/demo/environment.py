"""Starts and stops the demo's clusters, Git server, control plane and agents."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from core.errors import TowlineError, Unavailable
from core.json_object import JsonObject
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget
from towline.demo.clusters import binaries
from towline.demo.clusters.access import ClusterAccess, contexts_from_environment
from towline.demo.clusters.agent_access import agent_kubeconfig, bind_groups
from towline.demo.clusters.cluster import LocalCluster, start_all
from towline.demo.git_server import GitServer, ServedRepository
from towline.demo.ports import free_ports
from towline.demo.process_group import ProcessGroup

PrintProgress = Callable[[str], None]
STAGES = ("dev", "prod")
_PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()"]
_READY_SECONDS = 180.0


@dataclass(slots=True)
class DemoCluster:
    """A cluster of the demo, with the kubeconfig of its agent and its id in the control plane."""

    name: str
    access: ClusterAccess
    kubectl_program: str | None
    id: str = ""
    kubeconfig: Path | None = None

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Runs kubectl directly against the cluster, not through Towline; returns its output."""
        return self.access.kubectl(*args, stdin=stdin, program=self.kubectl_program)


class DemoEnvironment:
    """The running demo; `close` removes everything that `start` created."""

    def __init__(
        self,
        say: PrintProgress,
        ports: tuple[int, int, int] | None = None,
        names: Sequence[str] = STAGES,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`variables`: more environment variables of control plane and agents."""
        self._print_progress = say
        self._names = names
        self._variables = {**os.environ, "TOWLINE_LOG_LEVEL": "info", **(variables or {})}
        self.closing = ExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="towline-demo-"))
        self.closing.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._https, self._http, self._agents_port = ports or free_ports(3)
        self._programs = ProcessGroup()
        self.closing.callback(self._programs.stop)
        self._control_plane: subprocess.Popen[bytes] | None = None
        self.agent_pids: dict[str, int] = {}
        self.members: dict[str, DemoCluster] = {}
        self.repository: ServedRepository
        self.client: GraphQLClient
        self.kubectl_program: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops agents, control plane and clusters; deletes all files."""
        self._print_progress("stopping")
        if self._control_plane is not None:
            self._control_plane.terminate()
        self.closing.close()

    def start(self) -> None:
        """Starts clusters and control plane in parallel, then registers the clusters."""
        git = self.closing.enter_context(GitServer(self._make_folder("git")))
        self.repository = git.create_repository("shop")
        self.start_control_plane(wait=False)
        self._start_clusters()
        self.wait_ready()
        self._print_progress(f"control plane at {self.url}")
        for member in self.members.values():
            self._join(member)

    @property
    def url(self) -> str:
        """HTTPS URL of the control plane."""
        return f"https://127.0.0.1:{self._https}"

    @property
    def http_url(self) -> str:
        """HTTP URL of the control plane, for this machine."""
        return f"http://127.0.0.1:{self._http}"

    @property
    def token_file(self) -> Path:
        """File with the administrator's token."""
        return self.data / "admin.token"

    @property
    def authority(self) -> Path:
        """CA certificate of the control plane."""
        return self.data / "tls" / "ca.crt"

    @property
    def data(self) -> Path:
        """Data directory of the control plane."""
        return self.folder / "control-plane"

    @property
    def control_plane_pid(self) -> int:
        """Process id of the control plane."""
        if self._control_plane is None:
            raise Unavailable("the control plane was not started")
        return self._control_plane.pid

    def start_control_plane(self, *, wait: bool = True) -> None:
        """Starts or restarts the control plane with the same data."""
        command = [*_PROGRAM, "serve", "--data", str(self.data)]
        command += ["--listen", f"127.0.0.1:{self._https}"]
        command += ["--listen-http", f"127.0.0.1:{self._http}"]
        command += ["--listen-agents", f"127.0.0.1:{self._agents_port}", "--listen-metrics", "off"]
        self._control_plane = self._programs.spawn(
            command, log=self.folder / "control-plane.log", env=self._variables
        )
        if wait:
            self.wait_ready()

    def kill_control_plane(self) -> None:
        """Kills the control plane, as a machine failure would."""
        if self._control_plane is not None:
            self._control_plane.kill()
            self._control_plane.wait()

    def wait_ready(self) -> None:
        """Waits until the control plane responds. Unavailable: it ended, or takes too long."""

        def is_ready() -> bool:
            if self._control_plane is not None and self._control_plane.poll() is not None:
                log = (self.folder / "control-plane.log").read_text()
                raise Unavailable("the control plane has ended:\n" + log[-2000:])
            if not self.token_file.exists() or not self.authority.exists():
                return False
            self.client = GraphQLClient(
                ControlPlaneTarget(
                    self.url, self.token_file.read_text(), self.authority.read_text()
                )
            )
            try:
                self.client.ask("{ me { email } }")
            except Unavailable:
                return False
            return True

        wait_until("the control plane", is_ready, _READY_SECONDS)

    def ask(self, document: str, /, **variables: object) -> JsonObject:
        """Calls the API."""
        return self.client.ask(document, **variables)

    def member_kubeconfig(self) -> Path:
        """Writes a kubeconfig for the clusters through the control plane, as administrator."""
        path = self.folder / "kubeconfig"
        command = [*_PROGRAM, "kubeconfig", "--all", "--embed-token"]
        result = subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise Unavailable(f"towline kubeconfig: {result.stderr.strip()}")
        path.write_text(result.stdout)
        path.chmod(0o600)
        return path

    def environment(self) -> dict[str, str]:
        """Environment variables for the command line."""
        return {
            **os.environ,
            "TOWLINE_URL": self.url,
            "TOWLINE_TOKEN": self.token_file.read_text(),
            "TOWLINE_CA_FILE": str(self.authority),
        }

    def _start_clusters(self) -> None:
        cluster_access = contexts_from_environment()
        if cluster_access:
            self._print_progress(
                "using the contexts of DEMO_KUBECONFIG, the first for " + self._names[0]
            )
            for name, access in zip(self._names, cluster_access, strict=False):
                self.members[name] = DemoCluster(name, access, None)
            return
        programs = binaries.ensure()
        self._print_progress(f"starting Kubernetes clusters: {', '.join(self._names)}")
        clusters = start_all([LocalCluster(name, programs) for name in self._names])
        for cluster in clusters:
            self.closing.callback(cluster.stop)
        self.kubectl_program = str(programs / "kubectl")
        for name, cluster in zip(self._names, clusters, strict=True):
            self.members[name] = DemoCluster(name, cluster.access, self.kubectl_program)

    def _join(self, member: DemoCluster) -> None:
        """Registers a cluster and starts its agent."""
        created = self.ask(
            "mutation ($name: String!) { createCluster(attributes: {name: $name}) "
            "{ id deployToken } }",
            name=member.name,
        )["createCluster"]
        member.id = created["id"]
        folder = self._make_folder(f"agent-{member.name}")
        token_file = folder / "token"
        token_file.touch(mode=0o600)
        token_file.write_text(created["deployToken"])
        bind_groups(member.access)
        member.kubeconfig = agent_kubeconfig(member.access, folder / "kubeconfig")
        command = [*_PROGRAM, "agent", "--url", f"127.0.0.1:{self._agents_port}"]
        command += ["--ca-file", str(self.authority), "--token-file", str(token_file)]
        command += ["--kubeconfig", str(member.kubeconfig), "--data", str(folder / "state")]
        agent = self._programs.spawn(command, log=folder / "agent.log", env=self._variables)
        self.agent_pids[member.name] = agent.pid
        self._print_progress(f"started the agent of cluster {member.name}")

    def _make_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder


def wait_until(description: str, condition: Callable[[], bool], seconds: float = 30.0) -> float:
    """Waits until the condition is true; returns the seconds. Unavailable: timed out.

    An error of the condition counts as false; the message of Unavailable has the last error.
    """
    start = time.monotonic()
    reason = ""
    while time.monotonic() - start < seconds:
        try:
            if condition():
                return time.monotonic() - start
        except TowlineError as error:
            if "has ended" in error.message:
                raise
            reason = f": {error.message}"
        time.sleep(0.05)
    raise Unavailable(f"timed out after {seconds:.0f} s: {description}{reason}")
