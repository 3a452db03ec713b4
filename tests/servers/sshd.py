"""A real ssh server for one user with one key, on this machine only."""

import getpass
import os
import pwd
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

_CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv GIT_PROTOCOL
"""
_SECONDS = 10.0


def find_sshd() -> str | None:
    """Path of the program; None: not here, or not usable by this user."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None or os.getuid() != 0:
        return found
    try:
        pwd.getpwnam("sshd")
    except KeyError:
        return None
    return found


class Sshd:
    """Runs while its `with` does. `port` is where, `known_hosts` the line that trusts it."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self.user = getpass.getuser()
        self._program = program
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.new_host_key()

    def new_host_key(self) -> None:
        """Be another host from the next start on."""
        for name in ("host", "host.pub"):
            (self.folder / name).unlink(missing_ok=True)
        command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "host"))
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)

    @property
    def known_hosts(self) -> str:
        kind, key = (self.folder / "host.pub").read_text().split()[:2]
        return f"[127.0.0.1]:{self.port} {kind} {key}\n"

    @property
    def fingerprint(self) -> str:
        command = ("ssh-keygen", "-lf", str(self.folder / "host.pub"))
        return subprocess.run(command, check=True, capture_output=True).stdout.decode().split()[1]

    def admit(self, public_key: str) -> None:
        """Let this key in, and no other."""
        (self.folder / "authorized").write_text(public_key + "\n")

    def signed_in(self) -> int:
        """Number of logins since the server was made."""
        return (self.folder / "log").read_text().count("Accepted publickey")

    def connections(self) -> int:
        """Number of open connections: each has a process."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return len(children.read_text().split())

    def __enter__(self) -> Self:
        config = self.folder / "sshd_config"
        config.write_text(_CONFIG.format(port=self.port, folder=self.folder))
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self._log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            [self._program, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stderr=self._log,
        )
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def _wait(self) -> None:
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError((self.folder / "log").read_text())
