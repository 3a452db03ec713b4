"""One-time Jobs and Pods, and their logs: the port `JobCluster` over HTTP."""

from collections.abc import AsyncIterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol
from urllib.parse import quote

from core.spec.objects import ObjectRef
from syncagent.domain.objects import KubeObject, metadata_of
from syncagent.domain.ownership import FIELD_MANAGER
from syncagent.kube.objects import RequestSender
from syncagent.ports import BodyAllowed, Deletion, ObjectApi, TakeLine

_TAIL_LINES = 2000
_MAX_LINE = 32 << 10
_PLURALS = {"Job": "/apis/batch/v1", "Pod": "/api/v1", "Secret": "/api/v1"}


class JobSender(RequestSender, Protocol):
    """Sends requests, and opens logs."""

    def stream(
        self, path: str, query: Mapping[str, str]
    ) -> AbstractAsyncContextManager[AsyncIterable[bytes]]:
        """Opens the body of a long response. Refused, Unavailable."""
        ...


class KubeJobs:
    """Implements `JobCluster` for the three kinds of objects of jobs; their paths need no
    discovery. `allowed` covers every creation, and its body.
    """

    def __init__(self, client: JobSender, cluster: ObjectApi, allowed: BodyAllowed) -> None:
        self._client = client
        self._cluster = cluster
        self._allowed = allowed

    async def create(self, ref: ObjectRef, body: KubeObject) -> KubeObject:
        self._allowed(ref, body)
        query = {"fieldManager": FIELD_MANAGER}
        return await self._client.request("POST", _collection(ref), query=query, body=body)

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        live = await self._cluster.get(ref)
        return live and _with_type(live, ref)

    async def delete(self, ref: ObjectRef, live: KubeObject) -> Deletion:
        """Deletes an object in any version: a job's controller updates it all the time."""
        return await self._cluster.delete(ref, _of_any_version(live))

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        await self._cluster.merge(ref, patch)

    async def pods(self, ref: ObjectRef) -> list[KubeObject]:
        if ref.kind == "Pod":
            live = await self.get(ref)
            return [live] if live else []
        pods = ObjectRef("", "v1", "Pod", ref.namespace, "")
        query = {"labelSelector": f"batch.kubernetes.io/job-name={ref.name}", "limit": "50"}
        answer = await self._client.request("GET", _collection(pods), query=query)
        found = [_with_type(item, pods) for item in answer.get("items") or ()]
        return sorted(found, key=lambda pod: metadata_of(pod).get("creationTimestamp") or "")

    async def job_log(self, pod: ObjectRef, container: str, max_bytes: int) -> str:
        query = {"container": container, "tailLines": str(_TAIL_LINES)}
        end = bytearray()
        async with self._client.stream(_log_path(pod), query) as content:
            async for data in content:
                end += data
                del end[:-max_bytes]
        return end.decode(errors="replace")

    async def follow_log(self, pod: ObjectRef, container: str, take: TakeLine) -> None:
        query = {"container": container, "follow": "true"}
        rest = b""
        async with self._client.stream(_log_path(pod), query) as content:
            async for data in content:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    take(line + b"\n")
                if len(rest) > _MAX_LINE:
                    take(rest)
                    rest = b""
        if rest:
            take(rest)


def _collection(ref: ObjectRef) -> str:
    folder = f"{_PLURALS[ref.kind]}/namespaces/{quote(ref.namespace, safe='')}"
    return f"{folder}/{ref.kind.lower()}s"


def _log_path(pod: ObjectRef) -> str:
    return f"{_collection(pod)}/{quote(pod.name, safe='')}/log"


def _with_type(live: KubeObject, ref: ObjectRef) -> KubeObject:
    """Adds apiVersion and kind, which list items lack."""
    return {"apiVersion": ref.api.group_version, "kind": ref.kind, **live}


def _of_any_version(live: KubeObject) -> KubeObject:
    meta = {k: v for k, v in metadata_of(live).items() if k != "resourceVersion"}
    return live | {"metadata": meta}
