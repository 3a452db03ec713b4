"""A cluster of Jobs and Pods in memory: nothing runs unless a test says how it ends."""

from copy import deepcopy
from typing import Any

from core.errors import Unavailable
from core.spec.objects import ObjectRef
from syncagent.domain.objects import KubeObject
from syncagent.ports import Deletion, RequestRefused, TakeLine


class FakeJobCluster:
    """Fills in `ports.JobCluster`.

    `away`: the API server cannot be asked. `refusing`: it answers with this status.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], KubeObject] = {}
        self.created: list[str] = []
        self.logs: dict[str, str] = {}
        self.away = False
        self.refusing = 0

    async def create(self, ref: ObjectRef, body: KubeObject) -> KubeObject:
        self._ask()
        if (ref.kind, ref.name) in self.objects:
            raise RequestRefused(f"{ref} already exists", status=409, reason="AlreadyExists")
        live = deepcopy(body)
        live["metadata"]["uid"] = f"uid-{len(self.created)}"
        self.objects[ref.kind, ref.name] = live
        self.created.append(f"{ref.kind}/{ref.name}")
        return live

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        self._ask()
        return self.objects.get((ref.kind, ref.name))

    async def delete(self, ref: ObjectRef, live: KubeObject) -> Deletion:
        self._ask()
        self.objects.pop((ref.kind, ref.name), None)
        return Deletion(gone=True)

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        self._ask()
        self.objects[ref.kind, ref.name]["metadata"].update(patch["metadata"])

    async def pods(self, ref: ObjectRef) -> list[KubeObject]:
        self._ask()
        return [one for (kind, _), one in self.objects.items() if kind == "Pod"]

    async def job_log(self, pod: ObjectRef, container: str, max_bytes: int) -> str:
        return self.logs.get(pod.name, "")[-max_bytes:]

    async def follow_log(self, pod: ObjectRef, container: str, take: TakeLine) -> None:
        for line in self.logs.get(pod.name, "").splitlines(keepends=True):
            take(line.encode())

    def runs(self, job: str, log: str = "", **container: Any) -> None:
        """The job has a pod, which has said this."""
        container = {"name": "main", "state": {"running": {}}} | container
        self.logs[f"{job}-pod"] = log
        self.objects["Pod", f"{job}-pod"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{job}-pod", "namespace": "ops"},
            "spec": {"containers": [{"name": "main"}]},
            "status": {"phase": "Running", "containerStatuses": [container]},
        }
        self.objects["Job", job]["status"] = {"active": 1}

    def ends(self, job: str, code: int = 0, last_words: str = "") -> None:
        """The job's pod has ended with this exit code."""
        state = {"terminated": {"exitCode": code, "message": last_words, "reason": "Error"}}
        pod = self.objects["Pod", f"{job}-pod"]
        pod["status"]["phase"] = "Failed" if code else "Succeeded"
        pod["status"]["containerStatuses"][0]["state"] = state
        kind = "Failed" if code else "Complete"
        condition = {"type": kind, "status": "True", "message": "BackoffLimitExceeded"}
        self.objects["Job", job]["status"] = {"conditions": [condition]}

    def _ask(self) -> None:
        if self.away:
            raise Unavailable("cannot reach the API server")
        if self.refusing:
            raise RequestRefused("no", status=self.refusing, reason="No")
