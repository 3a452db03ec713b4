"""What the control plane asks for once: each command goes to the part that can do it."""

from typing import Protocol

from fleet.errors import Invalid
from fleet.wire.v1 import agent_pb2 as pb
from syncagent.link.wire import job_of
from syncagent.ports import Jobs, Reconciler


class Upgrades(Protocol):
    """Replaces this agent by another version."""

    def upgrade(self, command_id: str, version: str, image: str) -> None:
        """Begin, and answer at the end."""
        ...


class Orders(Protocol):
    """Renders what the control plane asks for."""

    def render(self, command_id: str, box: bytes) -> None:
        """Begin, and answer at the end. Invalid."""
        ...


class Commands:
    """Takes commands; what no part here can do is answered with a refusal."""

    def __init__(
        self,
        reconciler: Reconciler,
        jobs: Jobs | None = None,
        upgrades: Upgrades | None = None,
        orders: Orders | None = None,
    ) -> None:
        self._reconciler = reconciler
        self._jobs = jobs
        self._upgrades = upgrades
        self._orders = orders

    def take(self, command: pb.Command) -> None:
        """Carry out, or begin to. Unavailable: it could not be remembered; it comes again."""
        try:
            if not self._taken(command):
                self._reconciler.refuse(command.id, "this agent does not know the command")
        except Invalid as error:
            self._reconciler.refuse(command.id, error.message)

    def _taken(self, command: pb.Command) -> bool:
        match command.WhichOneof("body"):
            case "sync_now":
                self._reconciler.sync_now(command.id, command.sync_now.service_id)
            case "terminate":
                self._reconciler.terminate(command.id, command.terminate.service_id)
            case "run_job" if self._jobs is not None:
                self._jobs.run(job_of(command.id, command.run_job))
            case "cancel_job" if self._jobs is not None:
                self._jobs.cancel(command.id, command.cancel_job.command_id)
            case "upgrade" if self._upgrades is not None:
                upgrade = command.upgrade
                self._upgrades.upgrade(command.id, upgrade.version, upgrade.image)
            case "render" if self._orders is not None:
                self._orders.render(command.id, command.render.box)
            case _:
                return False
        return True
