"""The API server: the port `KubeApi` over HTTP."""

import hashlib
from collections.abc import AsyncIterator

import structlog

from core.runtime.clock import Clock
from core.spec.objects import GroupVersionKind, ObjectRef
from syncagent.domain.objects import KubeObject, ref_of
from syncagent.kube.client import KubeClient
from syncagent.kube.discovery import ApiDiscovery
from syncagent.kube.objects import KubeObjects, RequestSender, object_path
from syncagent.kube.watch import KindWatcher
from syncagent.ports import Allowed, ObjectEvent, RequestRefused, Sink

_LOG_LINES, _LOG_BYTES = 20, 32 << 10
_WARNINGS_READ, _MAX_WARNINGS_REPORTED = 50, 3
_EVENT = GroupVersionKind("", "v1", "Event")
_SAID = 1024

log = structlog.get_logger(__name__)


class KubeCluster(KubeObjects):
    """Implements `ports.KubeApi`; `allowed` covers every write."""

    def __init__(self, client: KubeClient, clock: Clock, allowed: Allowed | None = None) -> None:
        super().__init__(client, ApiDiscovery(client), allowed)
        self._client = client
        self._clock = clock

    def acting_as(self, sender: RequestSender, allowed: Allowed) -> KubeObjects:
        """Returns the cluster's objects behind another identity and allow-list."""
        return KubeObjects(sender, self._discovery, allowed)

    async def log_tail(self, pod: ObjectRef, container: str, *, previous: bool) -> str:
        resource = await self._discovery.resource(pod.api)
        query = {
            **({"container": container} if container else {}),
            "previous": "true" if previous else "false",
            "tailLines": str(_LOG_LINES),
            "limitBytes": str(_LOG_BYTES),
        }
        text = await self._client.text(object_path(resource, pod) + "/log", query, _LOG_BYTES)
        # Half a line may be half a secret, which masking would miss.
        cut = len(text.encode()) >= _LOG_BYTES and not text.endswith("\n")
        return text[: text.rfind("\n") + 1] if cut else text

    async def warnings(self, ref: ObjectRef, uid: str) -> list[str]:
        resource = await self._discovery.resource(_EVENT)
        query = {
            "fieldSelector": f"involvedObject.uid={uid},type=Warning",
            "limit": str(_WARNINGS_READ),
        }
        answer = await self._client.request("GET", resource.path(ref.namespace), query=query)
        events = sorted(answer.get("items") or (), key=_last_seen, reverse=True)
        said = (f"{event.get('reason')}: {event.get('message')}" for event in events)
        return list(dict.fromkeys(said))[:_MAX_WARNINGS_REPORTED]

    async def write_event(self, event: ObjectEvent) -> None:
        """Writes an event; an event is allowed wherever its object is."""
        self._allowed(event.ref)
        body = _event(event, self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        await KubeObjects(self._client, self._discovery).apply(ref_of(body), body, force=True)

    async def follow(
        self, api: GroupVersionKind, namespace: str, selector: str, sink: Sink
    ) -> None:
        follower = KindWatcher(self._client, self._discovery, self._clock, sink)
        await follower.run(api, namespace, selector)

    async def find(self, selector: str) -> AsyncIterator[KubeObject]:
        for resource in await self._discovery.listable():
            try:
                async for live in self.metadata(resource, "", selector):
                    yield live
            except RequestRefused as error:
                log.warning("kind skipped", api=str(resource.api), reason=error.message)

    async def ping(self) -> None:
        await self._client.ping()


def _last_seen(event: KubeObject) -> str:
    """Returns the time when an event was last seen, from either of its two fields."""
    return event.get("lastTimestamp") or event.get("eventTime") or ""


def _event(event: ObjectEvent, now: str) -> KubeObject:
    """Builds the Event resource; equal events have equal names."""
    ref = event.ref
    about = f"{ref.kind}/{event.uid}/{event.reason}/{event.message}"
    digest = hashlib.blake2b(about.encode(), digest_size=8).hexdigest()
    regarding = {
        "apiVersion": ref.api.group_version,
        "kind": ref.kind,
        "name": ref.name,
        **({"namespace": ref.namespace} if ref.namespace else {}),
        **({"uid": event.uid} if event.uid else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{ref.name[:200]}.{digest}",
            "namespace": ref.namespace or "default",
        },
        "involvedObject": regarding,
        "type": "Warning" if event.warns else "Normal",
        "reason": event.reason or "Towline",
        "message": event.message[:_SAID],
        "source": {"component": "towline-agent"},
        "count": event.count,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
