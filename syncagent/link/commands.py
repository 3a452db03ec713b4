"""Dispatch of one-time commands of the control plane."""

from typing import Protocol

from core.errors import Invalid
from core.wire.codec import job_spec_from_message, selection_from_message
from core.wire.v1 import agent_pb2 as pb
from syncagent.ports import FreezeCommands, JobCommands, Reconciler


class UpgradeCommands(Protocol):
    """Replaces this agent with another version."""

    def upgrade(self, command_id: str, version: str, image: str) -> None:
        """Begins an upgrade, and answers the command at its end."""
        ...


class RenderCommands(Protocol):
    """Executes render orders of the control plane."""

    def render(self, command_id: str, box: bytes) -> None:
        """Begins to render, and answers the command at the end. Invalid."""
        ...


class Commands:
    """Dispatches commands; refuses unsupported ones, and all others while the cluster is frozen."""

    def __init__(
        self,
        reconciler: Reconciler,
        jobs: JobCommands | None = None,
        upgrades: UpgradeCommands | None = None,
        orders: RenderCommands | None = None,
        freeze: FreezeCommands | None = None,
    ) -> None:
        self._reconciler = reconciler
        self._jobs = jobs
        self._upgrades = upgrades
        self._orders = orders
        self._freeze = freeze

    def take(self, command: pb.Command) -> None:
        """Executes a command, or begins to. Unavailable: it could not be stored; it will be sent
        again.
        """
        try:
            if self._freeze is not None and self._take_frozen(command, self._freeze):
                return
            if not self._dispatch(command):
                self._reconciler.refuse(command.id, "this agent does not support the command")
        except Invalid as error:
            self._reconciler.refuse(command.id, error.message)

    def _take_frozen(self, command: pb.Command, freeze: FreezeCommands) -> bool:
        """Obeys a freeze statement; refuses every other command while the cluster is frozen."""
        if command.WhichOneof("body") == "freeze":
            freeze.execute(command.id, command.freeze.statement)
            return True
        if reason := freeze.reason:
            self._reconciler.refuse(command.id, reason)
            return True
        return False

    def _dispatch(self, command: pb.Command) -> bool:
        match command.WhichOneof("body"):
            case "sync_now":
                self._reconciler.sync_now(command.id, command.sync_now.service_id)
            case "sync_objects":
                selection = selection_from_message(command.sync_objects)
                self._reconciler.sync_now(command.id, command.sync_objects.service_id, selection)
            case "terminate":
                self._reconciler.terminate(command.id, command.terminate.service_id)
            case "run_job" if self._jobs is not None:
                self._jobs.run(job_spec_from_message(command))
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
