"""Follows the first steps of the README as a new user: its commands, in its order."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import Unavailable
from towline.cli.shell.polling import poll_until
from towline.demo.clusters import binaries
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer, ServedRepository
from towline.demo.process_group import ProcessGroup

ROOT = Path(__file__).parents[2]
EXAMPLE_URL = "https://git.example.org/shop.git"
_CLONE_URL = "https://git.example.org/towline.git"
_SECTION = re.compile(r"^## Get started\n(.*?)^## ", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_STARTED = ("serve.ready", "starting: ")
_SECONDS = 1800
_MANIFEST = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n"
    "  selector: {matchLabels: {app: web}}\n"
    "  template:\n    metadata: {labels: {app: web}}\n"
    "    spec: {containers: [{name: web, image: 'shop:1'}]}\n"
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the README."""

    command: str
    stays: bool
    """The README says that it runs until Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Result:
    """A finished or started command, with its output so far."""

    step: Step
    seconds: float
    output: str


def steps(number: int) -> list[Step]:
    """Reads the commands of a shell block in the section "Get started", from 0."""
    section = _SECTION.search((ROOT / "README.md").read_text())
    if section is None:
        raise Unavailable("README.md has no section `Get started`")
    lines = _BLOCK.findall(section[1])[number].replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        command, _, comment = line.partition("  # ")
        found.append(Step(" ".join(command.split()), comment.strip().startswith("runs")))
    return found


def repository(server: GitServer) -> ServedRepository:
    """Creates the repository that stands for the example of the README."""
    shop = server.create_repository("shop")
    shop.commit({"deploy/dev/web.yaml": _MANIFEST})
    return shop


class NewUser:
    """A user with an empty home, who runs commands in a checkout."""

    def __init__(
        self,
        checkout: Path,
        home: Path,
        environment: Mapping[str, str],
        replaced: Mapping[str, str],
    ) -> None:
        self._checkout = checkout
        self._home = home
        self._environment = {**environment, "HOME": str(home)}
        self._replaced = replaced
        self._group = ProcessGroup()

    def run(self, step: Step) -> Result:
        """Runs a command; one that stays is left running. Unavailable: it failed."""
        command = step.command
        for example, own in self._replaced.items():
            command = command.replace(example, own)
        started = time.monotonic()
        output = self._start(command) if step.stays else self._finish(command)
        return Result(step, time.monotonic() - started, output)

    def follow(self, block: int) -> Iterator[Result]:
        """Runs the commands of a shell block one after the other."""
        for step in steps(block):
            yield self.run(step)

    def close(self) -> None:
        """Stops all commands that stay."""
        self._group.stop()

    def _finish(self, command: str) -> str:
        # The next commands see exported variables, as in the user's own shell.
        variables = self._home / "variables"
        script = f'{command}\nenv -0 > "{variables}"'
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self._checkout,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        if done.returncode:
            raise Unavailable(f"{command}: exit {done.returncode}: {done.stdout}{done.stderr}")
        pairs = (entry.split("=", 1) for entry in variables.read_text().split("\0") if entry)
        self._environment = dict(pairs)
        return done.stdout + done.stderr

    def _start(self, command: str) -> str:
        log = self._home / f"{len(list(self._home.glob('*.log')))}.log"
        program = self._group.spawn(
            ["bash", "-euc", f"exec {command}"],
            log=log,
            cwd=self._checkout,
            env=self._environment,
        )
        said = poll_until(
            log.read_text,
            lambda text: any(mark in text for mark in _STARTED) or program.poll() is not None,
            120,
            every=0.1,
        )
        if program.poll() is not None:
            raise Unavailable(f"{command}: ended with {program.returncode}: {said}")
        return said


def measure() -> list[Result]:
    """Follows the README in a fresh clone with an empty home; only the cluster is there before."""
    programs = binaries.ensure()
    with (
        tempfile.TemporaryDirectory(prefix="towline-first-hour-") as folder,
        LocalCluster("first-hour", programs) as cluster,
        GitServer(Path(folder) / "git") as server,
    ):
        home = Path(folder) / "home"
        home.mkdir()
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "TOWLINE_", "VIR"))
        }
        environment = kept | {"KUBECONFIG": str(cluster.kubeconfig)}
        beginner = NewUser(Path(folder), home, environment, {_CLONE_URL: ROOT.as_uri()})
        results = [beginner.run(Step(f"git clone --quiet {_CLONE_URL} towline", stays=False))]
        replaced = {EXAMPLE_URL: repository(server).url}
        user = NewUser(Path(folder) / "towline", home, environment, replaced)
        try:
            for result in user.follow(0):
                print(f"{result.seconds:.1f} s: {result.step.command}", flush=True)
                results.append(result)
        finally:
            user.close()
            beginner.close()
    return results


def table(results: Iterable[Result]) -> str:
    """Returns the seconds of each command as Markdown."""
    found = list(results)
    lines = ["| command | seconds |", "|---|---|"]
    lines += [f"| `{result.step.command}` | {result.seconds:.0f} |" for result in found]
    total = sum(result.seconds for result in found)
    return "\n".join([*lines, f"| in all | {total:.0f} |"])
