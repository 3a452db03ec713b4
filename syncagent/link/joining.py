"""Joins a cluster with a bootstrap token, and keeps the deploy token that the agent gets."""

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog

from core.errors import Invalid, Unavailable
from core.rpc.calls import CallChannel, CallFailed, CallStatus
from core.rpc.methods import JOIN
from core.runtime.atomic_files import write_atomically
from core.runtime.backoff import Backoff
from core.runtime.clock import Clock
from core.wire.v1 import agent_pb2 as pb

log = structlog.get_logger(__name__)

Connect = Callable[[], AbstractAsyncContextManager[CallChannel]]
_TEMPORARY = frozenset(
    {CallStatus.UNAVAILABLE, CallStatus.RESOURCE_EXHAUSTED, CallStatus.DEADLINE_EXCEEDED}
)


@dataclass(frozen=True, slots=True)
class AgentCredentials:
    """The deploy token of an agent, and the ID of its cluster in the control plane."""

    token: str = field(repr=False)
    cluster_id: str = ""


class CredentialStore(Protocol):
    """A place that keeps the credentials of the agent."""

    async def load(self) -> AgentCredentials | None:
        """Returns the credentials; None if there are none yet."""
        ...

    async def save(self, credentials: AgentCredentials) -> None:
        """Keeps credentials. Unavailable: the place cannot be written."""
        ...


class CredentialPlace(Protocol):
    """The Secret of the agent's credentials."""

    async def read(self) -> tuple[str, str] | None: ...

    async def write(self, token: str, cluster_id: str) -> None: ...


class StoredInSecret:
    """Credentials in a Secret of the cluster."""

    def __init__(self, place: CredentialPlace) -> None:
        self._place = place

    async def load(self) -> AgentCredentials | None:
        found = await self._place.read()
        return AgentCredentials(*found) if found else None

    async def save(self, credentials: AgentCredentials) -> None:
        await self._place.write(credentials.token, credentials.cluster_id)


class CredentialFile:
    """Credentials in a file that only the agent may read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self) -> AgentCredentials | None:
        """Invalid: the file is damaged, for example by a power cut."""
        if not self._path.exists():
            return None
        try:
            found = json.loads(self._path.read_text())
            return AgentCredentials(found["token"], found["clusterId"])
        except (ValueError, KeyError, TypeError):
            raise Invalid(
                f"{self._path} is damaged: delete it, so that the agent joins again"
            ) from None

    async def save(self, credentials: AgentCredentials) -> None:
        text = json.dumps({"token": credentials.token, "clusterId": credentials.cluster_id})
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._path, text.encode())
        except OSError as error:
            raise Unavailable(f"the deploy token cannot be stored: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class ClusterJoin:
    """A bootstrap token, and the cluster that joins with it.

    `name`: wanted name in the control plane; empty: a name from the UID. `read_uid` returns the UID
    of the namespace kube-system, which identifies the cluster.
    """

    secret: str = field(repr=False)
    name: str
    connect: Connect
    read_uid: Callable[[], Awaitable[str]]

    async def obtain(self, store: CredentialStore, clock: Clock) -> AgentCredentials:
        """Returns the stored credentials; else joins, and stores those that it gets.

        Repeats while the control plane or the cluster cannot be reached. Invalid: the control plane
        refuses the bootstrap token or the cluster; the message has its reason.
        """
        backoff = Backoff()
        while True:
            try:
                if (known := await store.load()) is not None:
                    return known
                credentials = await self._join()
                await store.save(credentials)
            except Unavailable as error:
                wait = backoff.next()
                log.warning("could not join", error=error.message, retry_s=round(wait, 1))
                await clock.sleep(wait)
            else:
                return credentials

    async def check(self) -> None:
        """Checks the token without joining. Invalid, Unavailable: as for `obtain`."""
        await self._request_join(dry_run=True)

    async def _join(self) -> AgentCredentials:
        joined = await self._request_join(dry_run=False)
        log.info("joined", handle=joined.handle, cluster=joined.cluster_id)
        return AgentCredentials(joined.deploy_token, joined.cluster_id)

    async def _request_join(self, *, dry_run: bool) -> pb.Joined:
        uid = await self.read_uid()
        request = pb.JoinRequest(name=self.name, kubernetes_uid=uid, dry_run=dry_run)
        metadata = (("authorization", f"Bearer {self.secret}"),)
        try:
            async with self.connect() as channel:
                async for joined in JOIN.stream_responses(channel, metadata, request):
                    return joined
        except CallFailed as error:
            if error.status in _TEMPORARY:
                raise Unavailable(f"the control plane does not answer: {error.message}") from None
            raise Invalid(f"the control plane refuses to join: {error.message}") from None
        except OSError as error:
            raise Unavailable(f"the control plane cannot be reached: {error}") from None
        raise Unavailable("the control plane ended the call without an answer")
