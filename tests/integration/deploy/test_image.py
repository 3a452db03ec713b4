"""The image is built here, and runs as an engine would run it: another user, a read-only root."""

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.image.__main__ import build
from deploy.image.oci import unpack
from towline.demo.ports import free_ports

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")

pytestmark = [
    pytest.mark.skipif(
        not ARCHITECTURE or not shutil.which("apt-get") or os.geteuid() != 0,
        reason="platform: needs root, apt and a machine of an architecture that is built",
    ),
    pytest.mark.timeout(600),
    # It is built once for all tests, by one worker.
    pytest.mark.xdist_group("image"),
]

# What apt and pip say where their archives are out of reach: that is no fault of the image.
AWAY = re.compile(
    "Failed to fetch|Unable to locate package|Could not resolve|timed out|versions: none"
)
# What an engine does: devices, a root that cannot be written, /tmp in memory, one folder of data.
START = """
mount --rbind /dev "$1/dev"
mount --bind "$2" "$1/var/lib/towline"
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"
mount -t tmpfs tmpfs "$1/tmp"
mount --bind "$2" "$1/var/lib/towline"
mount --rbind /dev "$1/dev"
root=$1; shift 2
exec chroot --userspec=65532:65532 "$root" "$@"
"""


class Image:
    """An unpacked image, and its configuration."""

    def __init__(self, root: Path, data: Path, config: dict) -> None:
        self.root, self.data, self.config = root, data, config

    def argv(self, *words: str) -> list[str]:
        """The command that runs `words` in it."""
        inside = ["unshare", "--mount", "sh", "-ec", START, "-", str(self.root), str(self.data)]
        return [*inside, *words]

    def env(self) -> dict[str, str]:
        return dict(one.split("=", 1) for one in self.config["Env"]) | {"PATH": os.environ["PATH"]}

    def says(self, *words: str) -> str:
        """Output of a program in it."""
        done = subprocess.run(
            self.argv(*words), env=self.env(), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The image of this machine's architecture."""
    folder = tmp_path_factory.mktemp("image")
    root, data = folder / "root", folder / "data"
    root.mkdir()
    data.mkdir(mode=0o700)
    os.chown(data, 65532, 65532)
    try:
        archive = build([ARCHITECTURE], folder, level=0)
    except SystemExit as error:
        if AWAY.search(str(error)):
            pytest.skip(str(error))
        raise
    config = unpack(archive, ARCHITECTURE, root)["config"]
    yield Image(root, data, config)
    shutil.rmtree(root)


def test_all_that_is_native_finds_what_it_needs(image: Image) -> None:
    """Libraries of Debian that were left out are missed by nobody."""
    modules = (
        "ssl,sqlite3,grpc,cryptography.x509,asyncpg,obstore,uvloop,rjsonnet,pyrage,helm_python"
    )
    assert image.says("/usr/bin/python3", "-I", "-c", f"import {modules}") == ""
    assert image.says("/usr/bin/git", "--version").startswith("git version")
    assert "OpenSSH" in image.says("/usr/bin/ssh", "-V")
    assert "coreutils" in image.says("/usr/bin/nice", "--version")
    helper = subprocess.run(
        image.argv("/usr/lib/git-core/git-remote-https"), env=image.env(), capture_output=True
    )
    assert b"remote-curl: usage" in helper.stderr


@pytest.mark.skipif(not shutil.which("cargo"), reason="cargo is not installed")
def test_the_proxy_runs_on_its_native_data_plane(image: Image) -> None:
    """The module fits the libraries and the Python of the image."""
    assert image.says("/usr/bin/python3", "-I", "-c", "import towline_native") == ""


def test_nothing_in_it_makes_somebody_else(image: Image) -> None:
    modes = [path for path in image.root.rglob("*") if path.lstat().st_mode & 0o6000]
    assert modes == []
    assert not (image.root / "usr/bin/perl").exists()


def test_the_control_plane_starts_in_it(image: Image) -> None:
    """With the image's own command, its ports moved to free ones."""
    ports = dict(zip(image.config["ExposedPorts"], free_ports(3), strict=True))
    words = [*image.config["Entrypoint"], *image.config["Cmd"]]
    for exposed, free in ports.items():
        number = exposed.partition("/")[0]
        words = [one.replace(f"0.0.0.0:{number}", f"127.0.0.1:{free}") for one in words]
    log = image.data.parent / "serve.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            image.argv(f"/usr/bin/{words[0]}", *words[1:]), env=image.env(), stderr=out
        )
    try:
        deadline = time.monotonic() + 90
        while not (image.data / "admin.token").exists():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        assert (image.data / "admin.token").stat().st_uid == 65532
    finally:
        process.terminate()
        process.wait(60)
    assert process.returncode == 0, log.read_text()
