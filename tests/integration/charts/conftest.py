"""Releases of our charts on a real API server, and the programs that their pods would run."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.unit.charts.rendering import Json, helm, pod_of, render
from tests.unit.charts.resources import DEFINITIONS
from towline.demo.clusters.access import ClusterAccess
from towline.demo.clusters.cluster import LocalCluster

TOWLINE = str(Path(sys.executable).parent / "towline")


@dataclass
class Release:
    """A chart rendered for a namespace; `apply` installs it."""

    chart: str
    cluster: LocalCluster
    namespace: str
    values: Json
    objects: list[Json] = field(init=False)

    def __post_init__(self) -> None:
        # Helm allows 53 characters; the number at the namespace's end is the test's own.
        name = f"{self.chart}-{self.namespace.rpartition('-')[2]}"
        self.objects = render(self.chart, self.values, name=name, namespace=self.namespace)

    @property
    def container(self) -> Json:
        """The only container of its pod."""
        return pod_of(self.objects)["containers"][0]

    @property
    def account(self) -> str:
        """The service account of its pod."""
        return pod_of(self.objects)["serviceAccountName"]

    def apply(self, *flags: str) -> str:
        """What kubectl says; unknown fields are errors."""
        return self._kubectl("apply", "--validate=strict", *flags)

    def delete(self) -> None:
        """Take away all of it."""
        self._kubectl("delete", "--ignore-not-found", "--wait=false")

    def _kubectl(self, *command: str) -> str:
        manifests = {"apiVersion": "v1", "kind": "List", "items": self.objects}
        return self.cluster.kubectl(*command, "-f", "-", stdin=json.dumps(manifests))


@pytest.fixture
def releases(cluster: LocalCluster, namespace: str) -> Iterator[Any]:
    """Helm's connection to the cluster."""
    with helm.Config(kubeconfig_path=cluster.kubeconfig, namespace=namespace) as connection:
        yield connection


@pytest.fixture(scope="session")
def operators(cluster: LocalCluster) -> None:
    """The resources of operators that the charts may use; they stay for other tests."""
    cluster.kubectl("apply", "-f", str(DEFINITIONS))
    cluster.kubectl("wait", "--for=condition=established", "-f", str(DEFINITIONS), "--timeout=30s")


def listed(cluster: LocalCluster, kinds: str, *flags: str) -> list[Json]:
    """What kubectl gets."""
    return json.loads(cluster.kubectl("get", kinds, *flags, "-o=json"))["items"]


Install = Callable[[str, Json], Release]


@pytest.fixture
def install(cluster: LocalCluster, namespace: str) -> Iterator[Install]:
    """Installs a chart in the test's namespace; it goes with the test."""
    installed: list[Release] = []

    def apply(chart: str, values: Json) -> Release:
        release = Release(chart, cluster, namespace, values)
        installed.append(release)
        release.apply()
        return release

    yield apply
    for release in installed:
        release.delete()


@dataclass(frozen=True, slots=True)
class Account:
    """kubectl in the hands of a release's service account."""

    access: ClusterAccess
    program: str

    def kubectl(self, *words: str) -> str:
        """What kubectl prints. Unavailable: it was refused; with what the server said."""
        return self.access.kubectl(*words, program=self.program)


@pytest.fixture
def account_of(kubernetes: Path, tmp_path: Path) -> Callable[[Release], Account]:
    """Signs in as the service account of a release, by a token of its own."""

    def sign_in(release: Release) -> Account:
        config = json.loads(
            release.cluster.kubectl("config", "view", "--minify", "--raw", "--flatten", "-o=json")
        )
        token = release.cluster.kubectl(
            "create", "token", release.account, "--namespace", release.namespace
        )
        config["users"][0]["user"] = {"token": token.strip()}
        path = tmp_path / "account.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return Account(ClusterAccess(path, config["current-context"]), str(kubernetes / "kubectl"))

    return sign_in


@asynccontextmanager
async def running(
    release: Release, places: dict[str, str], *flags: str, log: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """The program of the release's pod, with its arguments and variables, on this machine.

    `places` says what takes the place of a path or an address. It has to end well when terminated.
    """
    container = release.container
    places = {"0.0.0.0:8081": "127.0.0.1:0", **places}
    argv = [_replaced(one, places) for one in container["args"]]
    given = {one["name"]: _replaced(one["value"], places) for one in container["env"]}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            TOWLINE,
            *argv,
            *flags,
            env={"PATH": os.environ["PATH"], **given},
            stdout=output,
            stderr=output,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            grace = pod_of(release.objects)["terminationGracePeriodSeconds"]
            try:
                code = await asyncio.wait_for(process.wait(), grace)
            except TimeoutError:
                process.kill()
                code = await process.wait()
            # pytest shows this where the test fails.
            print(log.read_text())
    assert code == 0


def _replaced(text: str, places: dict[str, str]) -> str:
    return re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], text)
