"""Creates the simulated fleet: clusters, a repository, a service in each cluster."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from core.errors import TowlineError
from core.json_object import JsonObject
from towline.client import GraphQLClient
from towline.demo.git_server import GitServer, ServedRepository

GROUPS = 3
_BATCH_SIZE = 25
_MAX_CONCURRENT_REQUESTS = 4
_REPOSITORY = """mutation ($url: String!) {
  createGitRepository(attributes: {url: $url}) { id } }"""
_SYNC = "mutation ($id: ID!) { syncGitRepository(id: $id) { id } }"
_CLUSTER = 'c{n}: createCluster(attributes: {{name: "{name}"}}) {{ id handle deployToken }}'
_SERVICE = """s{n}: createServiceDeployment(clusterId: "{cluster}", attributes: {{
  name: "simulated", namespace: "simulated", repositoryId: "{repository}",
  git: {{ref: "main", folder: "{folder}"}}}}) {{ id }}"""
_DETACH = 'd{n}: detachCluster(id: "{id}") {{ id }}'


class SimulatedFleet:
    """Clusters named `<prefix>-<number>`; creates them through the API, `remove` deletes them."""

    def __init__(self, client: GraphQLClient, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self.clusters: list[JsonObject] = []
        self.repository: ServedRepository | None = None
        self.repository_id = ""

    def register(self, count: int) -> list[JsonObject]:
        """Registers `count` clusters; returns their id, handle and deployToken."""
        first = len(self.clusters)
        names = [f"{self._prefix}-{first + number}" for number in range(count)]
        created = self._run_mutations(names, lambda n, name: _CLUSTER.format(n=n, name=name))
        self.clusters += created
        return created

    def connect(self, git: GitServer) -> None:
        """Creates a repository with a folder for each of `GROUPS` groups of clusters."""
        self.repository = git.create_repository(self._prefix)
        self.commit(0)
        created = self._client.ask(_REPOSITORY, url=self.repository.url)
        self.repository_id = created["createGitRepository"]["id"]

    def deploy(self, clusters: Sequence[JsonObject]) -> list[str]:
        """Creates a service in each of these clusters; returns the ids of the services."""

        def service(number: int, cluster: JsonObject) -> str:
            folder = folder_of(self.clusters.index(cluster))
            id, repository = cluster["id"], self.repository_id
            return _SERVICE.format(n=number, cluster=id, repository=repository, folder=folder)

        return [created["id"] for created in self._run_mutations(clusters, service)]

    def commit(self, version: int) -> str:
        """Commits a change to the folder of every group; returns the SHA."""
        assert self.repository is not None
        files = {f"g{group}/app.yaml": _manifests(group, version) for group in range(GROUPS)}
        return self.repository.commit(files)

    def request_poll(self) -> None:
        """Makes the control plane poll the repository now, as a webhook would."""
        self._client.ask(_SYNC, id=self.repository_id)

    def remove(self) -> None:
        """Detaches all clusters of this fleet."""
        self._run_mutations(self.clusters, lambda n, cluster: _DETACH.format(n=n, id=cluster["id"]))
        self.clusters.clear()

    def _run_mutations(
        self, items: Sequence[object], line: Callable[[int, Any], str]
    ) -> list[JsonObject]:
        """Runs one mutation for each item, many per request; returns the results in order."""

        def ask(batch: Sequence[object]) -> list[JsonObject]:
            lines = [line(number, item) for number, item in enumerate(batch)]
            answer = self._client.ask(f"mutation {{ {' '.join(lines)} }}")
            if any(part is None for part in answer.values()):
                raise TowlineError("the control plane returned an incomplete response")
            return list(answer.values())

        with ThreadPoolExecutor(_MAX_CONCURRENT_REQUESTS) as threads:
            return [answer for answers in threads.map(ask, _batches(items)) for answer in answers]


def folder_of(number: int) -> str:
    """Folder of the cluster with this number."""
    return f"g{number % GROUPS}"


def _batches(items: Sequence[object]) -> Iterator[Sequence[object]]:
    return (items[start : start + _BATCH_SIZE] for start in range(0, len(items), _BATCH_SIZE))


def _manifests(group: int, version: int) -> str:
    documents = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: g{group}-{number}}}\n"
        f"data: {{version: '{version}'}}\n"
        for number in range(5)
    )
    return "---\n".join(documents)
