"""Foreign software that forwards requests to the same backend: konnectivity and nginx.

konnectivity (https://github.com/kubernetes-sigs/apiserver-network-proxy) is the tunnel that
Kubernetes installations know. Its server and agent forward bytes: users have a client certificate,
and keep a CONNECT tunnel alive. `KONNECTIVITY` is a folder with its programs `proxy-server` and
`proxy-agent`; without it, they are built from the Go module in `konnectivity/`. Two nginx with one
worker each forward requests, with TLS on both hops. Neither authorizes nor audits a request.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harness.compiled_client import TlsTarget
from bench.harness.go_programs import go_program
from bench.harness.programs import child_pids
from core.errors import Unavailable
from core.runtime.clock import SystemClock
from towline.certificate_authority import CertificateAuthority
from towline.demo.environment import wait_until
from towline.demo.ports import free_ports

PEERS = KONNECTIVITY, NGINX = "konnectivity", "nginx"
_MODULE = "sigs.k8s.io/apiserver-network-proxy"
_NGINX = """
daemon off; worker_processes 1; pid {folder}/{name}.pid; error_log stderr error;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};
  fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
  keepalive_requests 1000000000; http2_max_concurrent_streams 1024;
  upstream next {{ server 127.0.0.1:{next}; keepalive 256; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {folder}/server.crt; ssl_certificate_key {folder}/server.key;
    location / {{
      proxy_pass {scheme}://next; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffers 16 64k; proxy_max_temp_file_size 0;
    }}
  }}
}}
"""


def _same_port(port: int) -> int:
    return port


@contextmanager
def peers(
    backend: int, names: Sequence[str] = PEERS, relayed_port: Callable[[int], int] = _same_port
) -> Generator[list[TlsTarget]]:
    """Starts the peers that can be had here; says on standard error why others are missing.
    `relayed_port`: returns the port through which konnectivity's agent reaches its server's port.
    """
    with TemporaryDirectory(prefix="towline-bench-") as folder_name:
        folder, now = Path(folder_name), SystemClock().now()
        authority = CertificateAuthority.create(folder, "bench", now)
        hosts = ["localhost", "127.0.0.1"]
        authority.sign("server", "server", now, names=hosts)
        authority.sign("client", "client", now)
        running: list[subprocess.Popen[bytes]] = []
        starts: dict[str, Callable[[], TlsTarget]] = {
            KONNECTIVITY: lambda: _konnectivity(folder, backend, running, relayed_port),
            NGINX: lambda: _nginx(folder, backend, running),
        }
        try:
            yield list(_start_available([starts[name] for name in names]))
        finally:
            for process in running:
                # Not killed: the workers of nginx would stay.
                process.terminate()
            for process in running:
                _wait(process)


def _start_available(starts: Sequence[Callable[[], TlsTarget]]) -> Iterator[TlsTarget]:
    for start in starts:
        try:
            yield start()
        except Unavailable as error:
            print(f"peers: {error.message}", file=sys.stderr)


def _konnectivity(
    folder: Path,
    backend: int,
    running: list[subprocess.Popen[bytes]],
    relayed_port: Callable[[int], int],
) -> TlsTarget:
    server, agent = _konnectivity_programs()
    users, agents, *others = free_ports(6)
    admin, health, agent_admin, agent_health = map(str, others)
    tls = [f"--server-{n}={folder}/{f}" for n, f in _certificate_options("cert", "key", "ca-cert")]
    tls += [
        f"--cluster-{n}={folder}/{f}" for n, f in _certificate_options("cert", "key", "ca-cert")
    ]
    hub = [
        server, "--mode=http-connect", f"--server-port={users}", f"--agent-port={agents}",
        f"--admin-port={admin}", f"--health-port={health}", *tls,
    ]  # fmt: skip
    far = [
        agent, f"--ca-cert={folder}/ca.crt", f"--agent-cert={folder}/client.crt",
        f"--agent-key={folder}/client.key", "--proxy-server-host=127.0.0.1",
        f"--proxy-server-port={relayed_port(agents)}", f"--admin-server-port={agent_admin}",
        f"--health-server-port={agent_health}",
    ]  # fmt: skip
    pids = _start(folder, [hub, far], running)
    connect = f"127.0.0.1:{backend}"
    target = TlsTarget(
        KONNECTIVITY, users, folder / "ca.crt", pids=pids, connect=connect,
        certificate=(folder / "client.crt", folder / "client.key"),
    )  # fmt: skip
    wait_until("konnectivity", target.answers)
    return target


def _certificate_options(*names: str) -> list[tuple[str, str]]:
    return list(zip(names, ("server.crt", "server.key", "ca.crt"), strict=True))


def _konnectivity_programs() -> tuple[Path, Path]:
    if given := os.environ.get("KONNECTIVITY"):
        return Path(given) / "proxy-server", Path(given) / "proxy-agent"
    return (
        go_program("konnectivity", f"{_MODULE}/cmd/server"),
        go_program("konnectivity", f"{_MODULE}/cmd/agent"),
    )


def _nginx(folder: Path, backend: int, running: list[subprocess.Popen[bytes]]) -> TlsTarget:
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise Unavailable("nginx is not installed: install the package nginx of the system")
    near, far = free_ports(2)
    commands = []
    for name, port, scheme, next in (("far", far, "http", backend), ("near", near, "https", far)):
        config = folder / f"{name}.conf"
        config.write_text(
            _NGINX.format(folder=folder, name=name, port=port, scheme=scheme, next=next)
        )
        commands.append([program, "-p", folder, "-c", config, "-e", "stderr"])
    masters = _start(folder, commands, running)
    target = TlsTarget(NGINX, near, folder / "ca.crt", pids=masters)
    wait_until("nginx", target.answers)
    return replace(target, pids=[pid for master in masters for pid in child_pids(master)])


def _start(
    folder: Path, commands: Sequence[Sequence[object]], running: list[subprocess.Popen[bytes]]
) -> list[int]:
    """Starts programs, with their messages in a file of the folder; returns their process IDs."""
    pids = []
    for command in commands:
        with (folder / "messages").open("ab") as messages:
            process = subprocess.Popen(
                list(map(str, command)), stdout=messages, stderr=messages, cwd=folder
            )
        running.append(process)
        pids.append(process.pid)
    return pids


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
