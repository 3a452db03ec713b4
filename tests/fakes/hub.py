"""A control plane for one agent: Sync and Fetch by grpcio, all state in memory.

It says what a test tells it to, keeps what the agent reports, and acknowledges like the real one.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import NotFound, Unauthenticated, Unavailable
from core.rpc.calls import Call, CallServer, Handler, MessageCall, ServerLimits
from core.rpc.grpcio import GrpcioServer
from core.rpc.methods import FETCH, SYNC
from core.runtime.clock import SystemClock
from core.spec.bundle import Bundle, KubeObject, make_bundle
from core.spec.statements.attestation import AttestationStatement, Signer
from core.spec.statements.orders import ALL_POWERS, OrderSigner
from core.spec.statements.signing_keys import SigningIdentity
from core.wire.codec import attestation_to_message
from core.wire.orders import order_for_command, order_for_desired
from core.wire.v1 import agent_pb2 as pb

TOKEN = "twa_fake"
CLUSTER = "fake-cluster"
_CHUNK = 16 << 10


class FakeHub:
    """`acknowledging = False` leaves reports uncommitted; `token` is the one accepted.

    `pulse_ms` is how often it wants to hear something, `problems` what pulses said.
    `signer` signs bundles and orders with `powers`; None: nothing is signed. `presents` is another
    key in its greeting. Bundles of `small`
    bytes at most go with the word on their service.
    `break_fetch_at` breaks every Fetch off at that offset. `handlers` are served beside.
    """

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.token = TOKEN
        self.acknowledging = True
        self.handlers: dict[str, Handler] = {}
        self.break_fetch_at: int | None = None
        self.reports: list[pb.Report] = []
        self.hellos: list[pb.Hello] = []
        self.fetches: list[pb.FetchRequest] = []
        self.signer: Signer | None = Signer(Ed25519PrivateKey.generate())
        self.presents: SigningIdentity | None = None
        self.powers = ALL_POWERS
        self.pulse_ms = 15_000
        self.small = 16 << 10
        self.problems: list[str] = []
        self.committed = 0
        self.desired: dict[str, pb.Desired] = {}
        self.bundles: dict[str, bytes] = {}
        self._server: CallServer | None = None
        self._outgoing: asyncio.Queue[pb.HubMessage] | None = None
        self._changed = asyncio.Condition()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> "FakeHub":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; the same port again after a stop."""
        calls = {SYNC.path: self._sync, FETCH.path: self._fetch, **self.handlers}
        self._server = GrpcioServer(calls, ServerLimits())
        self.port = await self._server.start(("127.0.0.1", self.port), None)

    async def stop(self) -> None:
        """Be gone: every call breaks off."""
        if self._server is not None:
            await self._server.stop()
            self._server = None

    # What a test says

    def want(self, service_id: str, objects: list[KubeObject], **spec: Any) -> Bundle:
        """The newest desired state of a service, sent at once if the agent is linked."""
        bundle, fence = make_bundle(objects), spec.pop("fence", None)
        self.bundles.setdefault(bundle.digest, bundle.data)
        options = pb.SyncOptions(**spec.pop("options", {}))
        given = {"name": service_id, "namespace": "default", "digest": bundle.digest}
        fields: dict[str, Any] = given | spec
        if self.signer is not None and "attestation" not in fields:
            attested = self.signer.sign(AttestationStatement(fields["digest"], ()))
            fields["attestation"] = attestation_to_message(attested)
        if len(bundle.data) <= self.small:
            fields["bundle"] = bundle.data
        message = pb.ServiceSpec(**fields, bundle_bytes=len(bundle.data), options=options)
        sequence = self._next(service_id)
        self._say(pb.Desired(service_id=service_id, sequence=sequence, spec=message, fence=fence))
        return bundle

    def remove(
        self,
        service_id: str,
        removal: pb.Removal = pb.REMOVAL_CASCADE,
        confirmed: Iterable[pb.ObjectRef] = (),
        fence: pb.Fence | None = None,
    ) -> None:
        """The service is to go, and what is precious in it as far as it is confirmed."""
        sequence = self._next(service_id)
        self._say(
            pb.Desired(
                service_id=service_id,
                sequence=sequence,
                removal=removal,
                confirmed=confirmed,
                fence=fence,
            )
        )

    def send(self, message: pb.HubMessage) -> None:
        """Anything else; only while linked."""
        assert self._outgoing is not None
        self._outgoing.put_nowait(message)

    def drain(self) -> None:
        """Say goodbye as a hub does that is about to stop."""
        goodbye = pb.Goodbye(reason=pb.GOODBYE_REASON_DRAINING, message="stopping")
        self.send(pb.HubMessage(goodbye=goodbye))

    # What a test waits for

    async def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Waits until `condition()` is true of the agent's reports; returns its value."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                while not (value := condition()):
                    await self._changed.wait()
                return value
        except TimeoutError:
            said = "\n".join(str(report) for report in self.reports[-5:])
            raise AssertionError(f"not reported within {seconds} s; last:\n{said}") from None

    async def until_phase(self, service_id: str, *phases: int) -> pb.ServiceStatus:
        """Wait until the newest sequence of a service is in one of these phases."""

        def reached() -> pb.ServiceStatus | None:
            status = self.status(service_id)
            newest = self.desired[service_id].sequence
            right = status and status.sequence == newest and status.phase in phases
            return status if right else None

        return await self.until(reached)

    def status(self, service_id: str) -> pb.ServiceStatus | None:
        """The last status of a service."""
        for report in reversed(self.reports):
            if report.status.service_id == service_id:
                return report.status
        return None

    def drifts(self, service_id: str) -> list[pb.Drift]:
        """All drift of a service, oldest first."""
        return [r.drift for r in self.reports if r.drift.service_id == service_id]

    def results(self) -> dict[str, pb.CommandResult]:
        """Answers to commands."""
        return {r.result.command_id: r.result for r in self.reports if r.HasField("result")}

    def components(self, service_id: str) -> dict[tuple[str, str], pb.Component]:
        """The inventory of a service as all reports together tell it, by kind and name."""
        known: dict[tuple[str, str], pb.Component] = {}
        for report in self.reports:
            if report.inventory.service_id != service_id:
                continue
            if report.inventory.complete:
                known.clear()
            for ref in report.inventory.gone:
                known.pop((ref.kind, ref.name), None)
            for one in report.inventory.present:
                known[one.object.kind, one.object.name] = one
        return known

    # The wire

    async def _sync(self, call: Call) -> None:
        self._authenticate(call)
        talk = SYNC.wrap(call)
        first = await talk.read()
        assert first is not None
        hello = first.hello
        outgoing = self._outgoing = asyncio.Queue()
        for message in self._greeting(hello):
            outgoing.put_nowait(message)
        await self._note(self.hellos, hello)
        reading = asyncio.ensure_future(self._read(talk, outgoing))
        try:
            while not reading.done() or not outgoing.empty():
                await talk.write(self._ordered(await outgoing.get()))
        finally:
            reading.cancel()

    async def _fetch(self, call: Call) -> None:
        self._authenticate(call)
        talk = FETCH.wrap(call)
        request = await talk.read()
        assert request is not None
        self.fetches.append(request)
        data = self.bundles.get(request.digest)
        if data is None:
            raise NotFound("no service uses it")
        for start in range(request.offset, len(data), _CHUNK):
            if self.break_fetch_at is not None and start >= self.break_fetch_at:
                raise Unavailable("broken off")
            part = data[start : start + _CHUNK]
            await talk.write(pb.Chunk(offset=start, total=len(data), data=part))

    def _authenticate(self, call: Call) -> None:
        if call.metadata.get("authorization") != f"Bearer {self.token}":
            raise Unauthenticated("the deploy token was revoked")

    def _greeting(self, hello: pb.Hello) -> list[pb.HubMessage]:
        welcome = pb.Welcome(
            protocol=1,
            cluster_id=CLUSTER,
            handle="fake",
            pulse_ms=self.pulse_ms,
            acknowledged=self.committed,
        )
        if (identity := self.presents or self._own_identity()) is not None:
            welcome.signing_key = identity.public_key
            welcome.rotations.extend(map(attestation_to_message, identity.rotations))
        held = {one.service_id: one.sequence for one in hello.held}
        missing = [d for d in self.desired.values() if held.get(d.service_id) != d.sequence]
        return [
            pb.HubMessage(welcome=welcome),
            *(pb.HubMessage(desired=desired) for desired in missing),
            pb.HubMessage(desired_end=pb.DesiredEnd(services=len(self.desired))),
        ]

    async def _read(
        self,
        requests: MessageCall[pb.HubMessage, pb.AgentMessage],
        outgoing: asyncio.Queue[pb.HubMessage],
    ) -> None:
        async for message in requests:
            if message.HasField("pulse"):
                await self._note(self.problems, message.pulse.problem)
                continue
            if message.report.number > self.committed and self.acknowledging:
                self.committed = message.report.number
                outgoing.put_nowait(pb.HubMessage(ack=pb.Ack(number=self.committed)))
            await self._note(self.reports, message.report)

    async def _note(self, where: list[Any], what: Any) -> None:
        async with self._changed:
            where.append(what)
            self._changed.notify_all()

    def _own_identity(self) -> SigningIdentity | None:
        return SigningIdentity(self.signer.public_raw) if self.signer else None

    def _ordered(self, message: pb.HubMessage) -> pb.HubMessage:
        """Signs an order for what has none, as the render tier does at each delivery."""
        body: Any = getattr(message, message.WhichOneof("body") or "welcome")
        if self.signer is None or not isinstance(body, pb.Desired | pb.Command):
            return message
        if body.HasField("order"):
            return message
        request = (
            order_for_desired(CLUSTER, body)
            if isinstance(body, pb.Desired)
            else order_for_command(CLUSTER, body)
        )
        (order,) = OrderSigner(self.signer, self.powers).sign([request], SystemClock().now())
        signed = pb.HubMessage()
        signed.CopyFrom(message)
        kind: Any = getattr(signed, message.WhichOneof("body") or "welcome")
        kind.order.CopyFrom(attestation_to_message(order))
        return signed

    def _next(self, service_id: str) -> int:
        return self.desired[service_id].sequence + 1 if service_id in self.desired else 1

    def _say(self, desired: pb.Desired) -> None:
        self.desired[desired.service_id] = desired
        if self._outgoing is not None:
            self._outgoing.put_nowait(pb.HubMessage(desired=desired))
