"""The operations of a controller that delivers a folder of Git to a cluster."""

import base64
import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from core.errors import Unavailable
from core.json_object import JsonObject
from towline.demo.clusters.access import ClusterAccess
from towline.demo.environment import wait_until
from towline.demo.git_server import GitServer, ServedRepository
from towline.demo.process_group import ProcessGroup

FOLDER = "app"
_SECONDS = 120.0
_FILES = {
    f"{FOLDER}/map.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sent}\ndata: {k: first}\n"
    ),
    f"{FOLDER}/extra.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n",
    f"{FOLDER}/web.yaml": """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "web:1"}]}
""",
}


@dataclass(frozen=True, slots=True)
class Target:
    """How the controller reaches the cluster; certificates and keys are PEM in base64."""

    server: str
    authority: str
    token: str = ""
    certificate: str = ""
    key: str = ""

    @classmethod
    def read(cls, kubeconfig: Path) -> "Target":
        """Reads the current context of a kubeconfig."""
        content = yaml.safe_load(kubeconfig.read_text())
        context = _named(content["contexts"], content["current-context"])["context"]
        cluster = _named(content["clusters"], context["cluster"])["cluster"]
        user = _named(content["users"], context["user"])["user"]
        return cls(
            cluster["server"],
            _encoded(cluster, "certificate-authority"),
            user.get("token", ""),
            _encoded(user, "client-certificate"),
            _encoded(user, "client-key"),
        )

    def kubeconfig(self) -> str:
        """Returns a kubeconfig without references to files."""
        user = {
            "token": self.token,
            "client-certificate-data": self.certificate,
            "client-key-data": self.key,
        }
        cluster = {"server": self.server, "certificate-authority-data": self.authority}
        context = {"cluster": "target", "user": "target"}
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "target",
                "clusters": [{"name": "target", "cluster": cluster}],
                "users": [{"name": "target", "user": {k: v for k, v in user.items() if v}}],
                "contexts": [{"name": "target", "context": context}],
            }
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """A folder of Git, and the namespace and cluster that the controller delivers it to."""

    access: ClusterAccess
    """Administrator's access to the cluster, without the proxy."""

    kubectl: Callable[..., str]
    target: Target
    namespace: str
    repository: ServedRepository
    folder: Path
    """Temporary files of the controller."""

    def value(self) -> str:
        """Returns the value of the ConfigMap in Git; empty: the cluster has none."""
        asked = ("get", "configmap", "sent", "-o=jsonpath={.data.k}", "--ignore-not-found")
        return self.kubectl("-n", self.namespace, *asked)

    def has_extra(self) -> bool:
        """Reports whether the cluster has the object that Git drops."""
        asked = ("get", "configmap", "extra", "-o=name", "--ignore-not-found")
        return bool(self.kubectl("-n", self.namespace, *asked))

    def edit(self) -> None:
        """Changes an object without Git."""
        patch = ("patch", "configmap", "sent", "--type=merge", '-p={"data":{"k":"edited"}}')
        self.kubectl("-n", self.namespace, *patch)

    def read(self, kind: str, namespace: str) -> JsonObject:
        """Reads an object of the controller that has the name of the delivery."""
        return json.loads(self.kubectl("-n", namespace, "get", kind, self.namespace, "-o=json"))


class DeliveryController(ABC):
    """A controller: its programs, its objects and its status."""

    name: str

    @abstractmethod
    def install(self) -> Path:
        """Returns the folder of its programs, built once. Unavailable: the build failed."""

    @abstractmethod
    def definitions(self, programs: Path) -> Iterable[Path]:
        """Returns the files of its CustomResourceDefinitions."""

    @abstractmethod
    def start(self, programs: Path, delivery: Delivery, group: ProcessGroup) -> None:
        """Starts its programs."""

    @abstractmethod
    def settings(self) -> list[JsonObject]:
        """Returns the objects that its programs need before they start."""

    @abstractmethod
    def objects(self, delivery: Delivery) -> list[JsonObject]:
        """Returns the objects that instruct it."""

    @abstractmethod
    def refresh(self, delivery: Delivery) -> None:
        """Makes it look at Git now."""

    @abstractmethod
    def status(self, delivery: Delivery) -> object:
        """Returns its status without times and revisions; None: it is not done."""

    def run(
        self, programs: Path, access: ClusterAccess, kubectl: Callable[..., str]
    ) -> Callable[[Path, str], JsonObject]:
        """Returns its operations, for a kubeconfig of the target and a namespace."""

        def operations(target: Path, namespace: str) -> JsonObject:
            with (
                tempfile.TemporaryDirectory(prefix="towline-controller-") as folder,
                GitServer(Path(folder) / "git") as server,
            ):
                repository = server.create_repository("app")
                repository.commit(_FILES)
                delivery = Delivery(
                    access, kubectl, Target.read(target), namespace, repository, Path(folder)
                )
                return dict(self._results(programs, delivery))

        return operations

    def _results(self, programs: Path, delivery: Delivery) -> Iterator[tuple[str, object]]:
        for path in self.definitions(programs):
            delivery.kubectl("apply", "--server-side", "-f", str(path))
        _apply(delivery, self.settings())
        with ProcessGroup() as group:
            self.start(programs, delivery, group)
            objects = self.objects(delivery)
            _apply(delivery, objects)
            try:
                yield from self._operations(delivery)
            finally:
                _delete(delivery, objects)

    def _operations(self, delivery: Delivery) -> Iterator[tuple[str, object]]:
        yield "sync", self._waited(delivery, lambda: delivery.value() == "first")
        yield "status", self._waited(delivery, lambda: self.status(delivery))
        second = _FILES[f"{FOLDER}/map.yaml"].replace("first", "second")
        delivery.repository.commit({f"{FOLDER}/map.yaml": second})
        yield "change in Git", self._waited(delivery, lambda: delivery.value() == "second")
        delivery.edit()
        yield "repair of an edit", self._waited(delivery, lambda: delivery.value() == "second")
        delivery.repository.commit({f"{FOLDER}/extra.yaml": None})
        yield "prune", self._waited(delivery, lambda: not delivery.has_extra())
        yield "status at the end", self._waited(delivery, lambda: self.status(delivery))

    def _waited(self, delivery: Delivery, question: Callable[[], object]) -> object:
        """Returns the first answer that is true, or an error after some time."""
        self.refresh(delivery)
        answers: list[object] = []

        def is_answered() -> bool:
            answers.append(question())
            return bool(answers[-1])

        try:
            wait_until(self.name, is_answered, _SECONDS)
        except Unavailable as error:
            return f"Error: {error.message}"
        return answers[-1]


def _apply(delivery: Delivery, objects: list[JsonObject]) -> None:
    """Applies objects, as soon as the API server serves their kinds."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    wait_until("the kinds", lambda: bool(delivery.kubectl("apply", "-f", "-", stdin=text)), 30)


def _delete(delivery: Delivery, objects: list[JsonObject]) -> None:
    """Deletes objects while the controller runs: it removes its finalizers."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects[::-1]})
    delivery.kubectl("delete", "--ignore-not-found", "--timeout=30s", "-f", "-", stdin=text)


def _named(entries: Iterable[JsonObject], name: str) -> JsonObject:
    return next(entry for entry in entries if entry["name"] == name)


def _encoded(entry: JsonObject, key: str) -> str:
    if key in entry:
        return base64.b64encode(Path(entry[key]).read_bytes()).decode()
    return entry.get(f"{key}-data", "")
