"""The service `towline.v1.Agent`: connected agents and their calls."""

import asyncio
from collections.abc import Collection
from functools import partial

import structlog

from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.agents.link.duplicate_agents import AgentConflicts
from controlplane.agents.link.observations import SessionObserver
from controlplane.agents.link.session import AgentSession
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.agents import AgentOperations
from controlplane.clusters.model.bootstrap_tokens import JoinRequest
from controlplane.clusters.operations.bootstrap_tokens import BootstrapTokens
from controlplane.platform.context import AGENT_CHANGED, DESIRED_STATE, REVOKED
from controlplane.platform.loops.background import BackgroundLoop, Step
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import LOST_WAKES, Bus
from core.errors import Invalid, TowlineError, Unauthenticated, Unavailable
from core.identity import ClusterId
from core.rpc.calls import Call, Handler, In, MessageCall, Out
from core.rpc.methods import FETCH, JOIN, SYNC, UPLOAD
from core.runtime.clock import Clock
from core.spec.bundle import MAX_BUNDLE_BYTES
from core.wire import limits
from core.wire.v1 import agent_pb2 as wire

log = structlog.get_logger(__name__)

CHUNK_BYTES = 64 * 1024
_FIRST_MESSAGE_SECONDS = 20.0
_WRITE_SECONDS = 1.0
_RECHECK_SECONDS = 30.0
_CLEAN_UP_SECONDS = 3600.0
_UPGRADE_SECONDS = 15.0
_STOP_SECONDS = 5.0
_TOKENS_PER_CHECK = 100
_MAX_UPLOADS = 4
_UPLOAD_SECONDS = 75.0


class AgentLink(BackgroundLoop):
    """All agents that are connected to this replica. A newer connection of a cluster replaces an
    older one.
    """

    def __init__(
        self,
        agents: AgentOperations,
        identity: CredentialAuthenticator,
        bootstrap: BootstrapTokens,
        bus: Bus,
        logs: LiveLogs,
        clock: Clock,
    ) -> None:
        super().__init__("agentlink", clock)
        self._agents = agents
        self._identity = identity
        self._bootstrap = bootstrap
        self._bus = bus
        self._conflicts = AgentConflicts(clock)
        self._observer = SessionObserver(agents, bus, logs, clock)
        self._sessions: dict[ClusterId, AgentSession] = {}
        self._open_calls: dict[AgentSession, Call] = {}
        self._revocations = 0
        self._calls: set[asyncio.Task[None]] = set()
        self._replaced: set[ClusterId] = set()
        self._any_replaced = asyncio.Event()
        self._uploading = asyncio.Semaphore(_MAX_UPLOADS)

    async def start(self) -> None:
        """Starts background work: forwarding of desired state, batched writes of liveness and
        offers, token checks, upgrades of agents, and deletion of old commands.
        """
        self.tasks.forever("wake", self._follow_events())
        self.tasks.forever("linked", self._watch_connections())
        steps: tuple[tuple[float, str, Step], ...] = (
            (_WRITE_SECONDS, "observations", self._observer.write),
            (_RECHECK_SECONDS, "alarms", self._clear_alarms),
            # Revocations are also notified, but a notification can be lost.
            (_RECHECK_SECONDS, "tokens", self._check_tokens),
            (_CLEAN_UP_SECONDS, "clean-up", self._agents.delete_finished),
            (_UPGRADE_SECONDS, "upgrades", self._agents.upgrade_outdated),
        )
        for seconds, name, step in steps:
            self._every(seconds, name, step, delay=seconds)

    async def drain(self) -> None:
        """Sends every agent to another replica."""
        for session in self._open_calls:
            session.say_goodbye(
                wire.GOODBYE_REASON_DRAINING, "this control plane is stopping; reconnect"
            )

    async def stop(self) -> None:
        """Ends all calls and background work, after a last write of liveness.

        No call uses the store after this has returned.
        """
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls, timeout=_STOP_SECONDS)
        await super().stop()
        await self._observer.write()

    def connected(self) -> frozenset[ClusterId]:
        """Returns the clusters whose agents are connected here."""
        return frozenset(self._sessions)

    @property
    def handlers(self) -> dict[str, Handler]:
        """Returns the handlers of the calls by path; see agent.proto."""
        return {
            SYNC.path: self.sync,
            FETCH.path: self.fetch,
            UPLOAD.path: self.upload,
            JOIN.path: self.join,
        }

    async def sync(self, call: Call) -> None:
        """Serves the agent's long-lived call.

        Raises TowlineError if the agent breaks the protocol or is not authorized.
        """
        self._remember_call()
        revocations = self._revocations
        cluster_id, token_id = await self._authenticate(call)
        stream = SYNC.wrap(call)
        hello = await _read_hello(stream)
        session = AgentSession(cluster_id, token_id, self._agents, stream, self._observer)
        self._open_calls[session] = call
        await self._run_session(session, hello, stream, revocations)

    async def fetch(self, call: Call) -> None:
        """Sends a bundle by digest, from an offset on."""
        cluster_id, _ = await self._authenticate(call)
        stream = FETCH.wrap(call)
        request = await _read_first(stream, "a digest")
        data = await self._agents.bundle(cluster_id, request.digest)
        for offset in range(request.offset, max(len(data), 1), CHUNK_BYTES):
            chunk = data[offset : offset + CHUNK_BYTES]
            await stream.write(wire.Chunk(offset=offset, total=len(data), data=chunk))

    async def upload(self, call: Call) -> None:
        """Receives the bundle of a render command."""
        cluster_id, _ = await self._authenticate(call)
        stream = UPLOAD.wrap(call)
        try:
            async with self._uploading:
                async with asyncio.timeout(_UPLOAD_SECONDS):
                    command_id, data = await self._receive_upload(cluster_id, stream)
                digest = await self._agents.store_render(cluster_id, command_id, data)
        except TimeoutError:
            raise Unavailable("the upload took too long") from None
        await stream.write(wire.Uploaded(digest=digest))

    async def join(self, call: Call) -> None:
        """Registers a cluster with a bootstrap token."""
        self._remember_call()
        secret, source = _bearer_token(call), _host_of(call.peer)
        await self._bootstrap.authenticate(secret, source)
        stream = JOIN.wrap(call)
        message = await _read_first(stream, "a UID")
        request = JoinRequest(message.name, message.kubernetes_uid, message.dry_run)
        joined = await self._bootstrap.join(secret, request, source)
        await stream.write(
            wire.Joined(
                cluster_id=joined.cluster_id, handle=joined.handle, deploy_token=joined.token
            )
        )

    async def _receive_upload(
        self, cluster_id: ClusterId, stream: MessageCall[wire.Uploaded, wire.Part]
    ) -> tuple[str, bytes]:
        """Receives the command and all bytes of an upload. Raises NotFound before it stores more
        than one part.
        """
        command_id, data = "", bytearray()
        async for part in stream:
            limits.check(part)
            if not command_id:
                command_id = part.command_id
                await self._agents.check_render_pending(cluster_id, command_id)
            data += part.data
            if len(data) > MAX_BUNDLE_BYTES:
                raise Invalid(f"the bundle exceeds the limit of {MAX_BUNDLE_BYTES:,} bytes")
        return command_id, bytes(data)

    def _remember_call(self) -> None:
        call = asyncio.current_task()
        if call is not None:
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _authenticate(self, call: Call) -> tuple[ClusterId, str]:
        return await self._identity.authenticate_agent(_bearer_token(call))

    async def _run_session(
        self,
        session: AgentSession,
        hello: wire.Hello,
        stream: MessageCall[wire.HubMessage, wire.AgentMessage],
        revocations: int,
    ) -> None:
        """Runs an open session to its end.

        From now on a revocation finds the session. If one arrived since `revocations` was counted,
        the result of the token check may be outdated.
        """
        call = self._open_calls[session]
        try:
            if revocations != self._revocations:
                await self._authenticate(call)
            await self._replace_session(session, hello.instance_id, call.peer)
            await session.run(hello, aiter(stream))
        finally:
            del self._open_calls[session]
            if self._sessions.get(session.cluster_id) is session:
                del self._sessions[session.cluster_id]

    async def _replace_session(self, session: AgentSession, instance: str, peer: str) -> None:
        """Replaces an older session of the cluster, and alarms users if two agents keep replacing
        each other.
        """
        cluster_id = session.cluster_id
        former_peer = self._conflicts.current_peer(cluster_id)
        alarm = self._conflicts.record_connection(cluster_id, instance, peer)
        old = self._sessions.get(cluster_id)
        if old is not None:
            old.say_goodbye(
                wire.GOODBYE_REASON_REPLACED,
                f"an agent at {peer} has connected with this cluster's deploy token after the "
                f"one at {former_peer}",
            )
        self._sessions[cluster_id] = session
        if alarm:
            log.error("agents conflict", action="agent.conflict", cluster=cluster_id, alarm=alarm)
            await self._agents.set_alarm(cluster_id, alarm)

    async def _follow_events(self) -> None:
        async for topic, key in self._bus.subscribe(
            DESIRED_STATE, REVOKED, AGENT_CHANGED, LOST_WAKES
        ):
            if topic == DESIRED_STATE:
                self._wake_session(*key.split("/", 1))
            elif topic == REVOKED:
                self._close_revoked_sessions(key)
            elif topic == AGENT_CHANGED:
                self._replaced.add(ClusterId(key))
                self._any_replaced.set()
            else:
                await self._check_all_sessions()

    async def _watch_connections(self) -> None:
        """Handles agents in batches: those that connect during one check are checked together."""
        while True:
            await self._any_replaced.wait()
            self._any_replaced.clear()
            replaced, self._replaced = self._replaced, set()
            await self._close_replaced_sessions(replaced)

    def _wake_session(self, cluster_id: str, service_id: str = "") -> None:
        session = self._sessions.get(ClusterId(cluster_id))
        if session is not None:
            session.wake(service_id)

    async def _check_all_sessions(self) -> None:
        """Checks all sessions, because wake-ups of other replicas may have been lost."""
        self._revocations += 1
        for session in self._sessions.values():
            session.wake("")
        await self._close_replaced_sessions(list(self._sessions))
        await self._check_tokens()

    async def _close_replaced_sessions(self, cluster_ids: Collection[ClusterId]) -> None:
        """Ends sessions that a newer agent of the cluster has replaced, on any replica."""
        sessions = {id: self._sessions[id] for id in cluster_ids if id in self._sessions}
        try:
            instances = await self._agents.instances(sessions)
        except TowlineError as error:
            log.warning("could not check for replaced agents", error=error.message)
            return
        for cluster_id, session in sessions.items():
            if session.greeted and instances.get(cluster_id, "") != session.instance_id:
                session.say_goodbye(
                    wire.GOODBYE_REASON_REPLACED,
                    "another agent has connected with this cluster's deploy token",
                )

    def _close_revoked_sessions(self, token_id: str) -> None:
        self._revocations += 1
        for session in self._open_calls:
            if session.token_id == token_id:
                session.say_goodbye(wire.GOODBYE_REASON_REVOKED, "the deploy token was revoked")

    async def _check_tokens(self) -> None:
        """Checks tokens in batches, because they are read in one query."""
        calls = list(self._open_calls.items())
        for start in range(0, len(calls), _TOKENS_PER_CHECK):
            batch = calls[start : start + _TOKENS_PER_CHECK]
            await asyncio.gather(*(self._check_token(session, call) for session, call in batch))

    async def _check_token(self, session: AgentSession, call: Call) -> None:
        try:
            await self._authenticate(call)
        except Unauthenticated as error:
            session.say_goodbye(wire.GOODBYE_REASON_REVOKED, error.message)
        except TowlineError as error:
            log.warning("could not check a deploy token", error=error.message)

    async def _clear_alarms(self) -> None:
        for cluster_id in (*self._conflicts.recovered(), *self._observer.limiter.recovered()):
            clear = partial(self._agents.set_alarm, cluster_id, "")
            await retry_forever("alarms of agents", clear, self._clock)


def _bearer_token(call: Call) -> str:
    scheme, _, token = call.metadata.get("authorization", "").partition(" ")
    return token if scheme == "Bearer" else ""


def _host_of(peer: str) -> str:
    """Returns the address of a peer without its port."""
    return peer.rpartition(":")[0].strip("[]") or peer


async def _read_first(stream: MessageCall[Out, In], expected: str) -> In:
    """Reads the first message of a call. Raises Invalid."""
    try:
        async with asyncio.timeout(_FIRST_MESSAGE_SECONDS):
            message = await stream.read()
    except TimeoutError:
        message = None
    if message is None:
        raise Invalid(f"the request is empty: send {expected} within {_FIRST_MESSAGE_SECONDS:g} s")
    limits.check(message)
    return message


async def _read_hello(stream: MessageCall[wire.HubMessage, wire.AgentMessage]) -> wire.Hello:
    message = await _read_first(stream, "Hello")
    if message.WhichOneof("body") != "hello":
        raise Invalid("the first message must be Hello")
    return message.hello
