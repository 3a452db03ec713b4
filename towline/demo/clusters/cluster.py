"""A local cluster: start, simulate failures, stop."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from core.errors import Unavailable
from core.runtime.clock import SystemClock
from towline.demo.clusters import components
from towline.demo.clusters.access import ClusterAccess
from towline.demo.clusters.admin import AdminClient
from towline.demo.clusters.certificates import make_certificates, write_kubeconfig
from towline.demo.clusters.components import ClusterLayout, ClusterPorts
from towline.demo.ports import free_ports
from towline.demo.process_group import ProcessGroup

_PATIENCE = 90.0


class LocalCluster:
    """Real API server, etcd, controllers and scheduler, with simulated nodes and pods.

    The cluster ends with this process. A port-forward to a pod returns a small web page; with
    `local_ports`, it connects to the same port of this machine if something listens there.
    """

    def __init__(
        self,
        name: str,
        binaries: Path,
        *,
        nodes: int = 1,
        folder: Path | None = None,
        local_ports: bool = False,
        apiserver_flags: Sequence[str] = (),
    ) -> None:
        """Writes the files of a cluster; `binaries` is the result of `binaries.ensure`.

        State is kept in `folder`; default: a temporary folder that `stop` deletes.
        """
        self.name = name
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"towline-{name}-"))
        self.kubeconfig = self.folder / "kubeconfig"
        self._layout = ClusterLayout(
            binaries=binaries,
            folder=self.folder,
            kubeconfig=self.kubeconfig,
            certificates=make_certificates(self.folder / "certificates", SystemClock().now()),
            ports=ClusterPorts(*free_ports(4)),
        )
        write_kubeconfig(self.kubeconfig, name, self._layout.server, self._layout.certificates)
        self.access = ClusterAccess(self.kubeconfig, name)
        self._nodes = nodes
        self._local_ports = local_ports
        self._apiserver_flags = apiserver_flags
        self.admin = AdminClient(self._layout.server, self._layout.certificates)
        self._group = ProcessGroup()
        self._programs: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> Self:
        """Starts everything and waits until the nodes are Ready, about 3 s.

        Unavailable: a program ended, or was not ready within 90 s; everything is stopped.
        """
        try:
            self._bring_up()
        except BaseException:
            self.stop()
            raise
        return self

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self._layout.server

    def stop(self) -> None:
        """Kills all programs, and deletes the state unless a folder was given."""
        self._group.stop()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def kubectl(self, *args: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Runs kubectl as administrator; returns its output. Raises Unavailable with its error."""
        return self.access.kubectl(
            *args, stdin=stdin, timeout=timeout, program=self._layout.program("kubectl")
        )

    def kill_apiserver(self) -> None:
        """Kills the API server; its port then refuses connections."""
        program = self._programs["kube-apiserver"]
        program.kill()
        program.wait()

    def restart_apiserver(self) -> None:
        """Restarts the API server with the same port and state, and waits until it is ready."""
        self._start_apiserver()
        self._wait("the API server", self.admin.is_ready)

    def pause_apiserver(self) -> None:
        """Makes the API server hang: connections stay open without a response."""
        self._programs["kube-apiserver"].send_signal(signal.SIGSTOP)

    def resume_apiserver(self) -> None:
        """Ends a pause."""
        self._programs["kube-apiserver"].send_signal(signal.SIGCONT)

    def _bring_up(self) -> None:
        self._spawn(components.etcd(self._layout))
        self._start_apiserver()
        self._spawn(components.kubelet(self._layout, local_ports=self._local_ports))
        self._wait("the API server", self.admin.is_ready)
        for argv in (components.controller_manager, components.scheduler, components.kwok):
            self._spawn(argv(self._layout))
        for number in range(self._nodes):
            self.admin.create("/api/v1/nodes", components.node(self.name, number))
        self._wait("its nodes", lambda: self.admin.ready_nodes() == self._nodes)
        self._wait("its controllers", self.admin.has_default_service_account)

    def _start_apiserver(self) -> None:
        self._spawn(components.apiserver(self._layout, self._apiserver_flags))

    def _spawn(self, argv: list[str]) -> None:
        name = Path(argv[0]).name
        self._programs[name] = self._group.spawn(argv, cwd=self.folder, log=self._log(name))

    def _log(self, program: str) -> Path:
        return self.folder / f"{program}.log"

    def _wait(self, component: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not ready():
            self._require_alive()
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"cluster {self.name}: {component} not ready after {_PATIENCE:.0f} s"
                )
            time.sleep(0.05)

    def _require_alive(self) -> None:
        for name, program in self._programs.items():
            if program.poll() is not None:
                text = self._log(name).read_text(errors="replace").strip()
                raise Unavailable(
                    f"cluster {self.name}: {name} exited with code {program.returncode}: "
                    f"{text.rpartition(chr(10))[2]}"
                )


def start_all(clusters: Iterable[LocalCluster]) -> list[LocalCluster]:
    """Starts several clusters in parallel; stops all if one fails."""
    clusters = list(clusters)
    with ThreadPoolExecutor() as pool:
        failures = [
            start.exception() for start in [pool.submit(cluster.start) for cluster in clusters]
        ]
    failure = next(filter(None, failures), None)
    if failure is not None:
        for cluster in clusters:
            cluster.stop()
        raise failure
    return clusters
