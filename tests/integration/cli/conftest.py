"""A control plane started by the command line, and the command line beside it."""

import os
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest

from tests import migrated
from towline.cli.shell.polling import poll_until
from towline.demo.ports import free_ports
from towline.demo.process_group import ProcessGroup

PROGRAMS = Path(sys.executable).parent
TOWLINE = str(PROGRAMS / "towline")


@dataclass
class Installation:
    """A running `towline serve` with its own home directory for clients."""

    folder: Path
    group: ProcessGroup
    environment: dict[str, str]
    ports: list[int] = field(default_factory=lambda: free_ports(2))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.ports[0]}"

    @property
    def ca(self) -> Path:
        return self.data / "tls" / "ca.crt"

    @property
    def token(self) -> str:
        return (self.data / "admin.token").read_text().strip()

    def start(self) -> None:
        """Run the control plane and wait until it has said that it is ready."""
        log = self.folder / "serve.log"
        settings = self.folder / "serve.toml"
        settings.write_text("[git.poll]\nseconds = 0.3\n")
        listen = [f"127.0.0.1:{port}" for port in self.ports]
        argv = [TOWLINE, "serve", "--config", str(settings), "--data", str(self.data)]
        argv += ["--listen", listen[0], "--listen-agents", listen[1]]
        argv += ["--listen-http", "off", "--listen-metrics", "off"]
        program = self.group.spawn(argv, log=log, env=self.environment)
        poll_until(
            lambda: log.read_text(),
            lambda text: "serve.ready" in text or program.poll() is not None,
            180,
            every=0.1,
        )
        assert program.poll() is None, log.read_text()

    def run(
        self,
        *words: str,
        code: int = 0,
        stdin: str | None = None,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.CompletedProcess[str]:
        """A finished command, which has to end with `code`."""
        done = subprocess.run(
            [TOWLINE, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=self.folder,
            env={**self.environment, **environ},
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def sign_in(self) -> None:
        self.run(
            "login", self.url, "--ca-file", str(self.ca), "--token-stdin", stdin=self.token + "\n"
        )


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A control plane of the module's own, signed in to as its first administrator."""
    with new_installation(tmp_path_factory.mktemp("installation")) as made:
        yield made


@contextmanager
def new_installation(folder: Path, key: bytes = b"") -> Generator[Installation]:
    """An empty control plane in a folder, signed in to as its first administrator.

    `key` is the encryption key of an earlier one.
    """
    group = ProcessGroup()
    # PYTHONPATH selects the code of the tests in a second checkout.
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    environment = {**kept, "HOME": str(folder / "home")}
    made = Installation(folder, group, environment)
    try:
        migrated.put_sqlite(made.data)
        if key:
            (made.data / "encryption.key").write_bytes(key)
        made.start()
        made.sign_in()
        yield made
    finally:
        group.stop()
