"""Manages local clusters for developers.

python -m towline.demo.clusters build       build the programs; `up` does this too
python -m towline.demo.clusters up NAME     start a cluster, print its kubeconfig
python -m towline.demo.clusters down NAME   stop a cluster and delete its state
python -m towline.demo.clusters list        print the kubeconfigs of running clusters
"""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from core.errors import Conflict, NotFound, TowlineError, Unavailable
from towline.demo.clusters import binaries
from towline.demo.clusters.cluster import LocalCluster

_PATIENCE = 120.0
_STOP = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Runs one command; returns exit code 0 for success, 1 for failure."""
    arguments = _parser().parse_args()
    try:
        arguments.run(arguments)
    except TowlineError as error:
        print(f"towline.demo.clusters: {error.message}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m towline.demo.clusters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("build", help="build the programs").set_defaults(run=_build)
    commands.add_parser("list", help="print the kubeconfigs of running clusters").set_defaults(
        run=_list
    )
    for name, run, text in (
        ("up", _up, "start a cluster in the background"),
        ("down", _down, "stop a cluster and delete its state"),
        ("hold", _hold, "run a cluster in the foreground until SIGINT or SIGTERM"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("name")
        command.set_defaults(run=run)
        if run is not _down:
            command.add_argument("--nodes", type=int, default=1)
            command.add_argument("--local-ports", action="store_true")
    return parser


def _build(_: argparse.Namespace) -> None:
    print(binaries.ensure())


def _up(arguments: argparse.Namespace) -> None:
    binaries.ensure()
    folder = _state_folder(arguments.name)
    if _holder_pid(folder) is not None:
        raise Conflict(
            f"cluster {arguments.name} is already running: KUBECONFIG={folder / 'kubeconfig'}"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "towline.demo.clusters", "hold", *sys.argv[2:]]
    with (folder / "hold.log").open("wb") as log:
        holder = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    while _holder_pid(folder) is None:
        if holder.poll() is not None:
            raise Unavailable((folder / "hold.log").read_text().strip())
        time.sleep(0.1)
    print(folder / "kubeconfig")


def _hold(arguments: argparse.Namespace) -> None:
    folder = _state_folder(arguments.name)
    cluster = LocalCluster(
        arguments.name,
        binaries.ensure(),
        nodes=arguments.nodes,
        local_ports=arguments.local_ports,
        folder=folder,
    )
    with cluster, (folder / "pid").open("w") as pid_file:
        # The lock lasts as long as the process, so that a reused process id is not mistaken for it.
        fcntl.flock(pid_file, fcntl.LOCK_EX)
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
        pid_file.write(str(os.getpid()))
        pid_file.flush()
        signal.sigwait(_STOP)
    shutil.rmtree(folder)


def _down(arguments: argparse.Namespace) -> None:
    folder = _state_folder(arguments.name)
    if not folder.is_dir():
        raise NotFound(f"could not find cluster {arguments.name}")
    holder = _holder_pid(folder)
    if holder is not None:
        os.kill(holder, signal.SIGTERM)
        _wait_stopped(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _wait_stopped(folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while _holder_pid(folder) is not None:
        if time.monotonic() > deadline:
            raise Unavailable(f"the cluster in {folder} did not stop within {_PATIENCE:.0f} s")
        time.sleep(0.05)


def _list(_: argparse.Namespace) -> None:
    for folder in sorted(_state_folder("").glob("*")):
        if _holder_pid(folder) is not None:
            print(folder / "kubeconfig")


def _state_folder(name: str) -> Path:
    return binaries.cache_folder() / "clusters" / name


def _holder_pid(folder: Path) -> int | None:
    """Id of the process that runs the cluster; None if it ended."""
    try:
        with (folder / "pid").open() as pid_file:
            fcntl.flock(pid_file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return int((folder / "pid").read_text() or 0) or None
    return None


if __name__ == "__main__":
    sys.exit(main())
