"""Execution of render orders: decrypted with the agent's key, rendered, uploaded, answered."""

import asyncio

import structlog

from fleet.errors import Invalid, TowlineError, Unavailable
from fleet.orders import NAME, RenderOrder, load_order
from fleet.runtime.tasks import Tasks
from fleet.sealing import SealedSecret, SealingKey
from syncagent.domain.events import CommandDone, Outcome
from syncagent.ports import Answers, LinkDown, OrderedRenders, Uploader

log = structlog.get_logger(__name__)

_MOST_WAITING = 256
_INTERNAL = "internal error of the agent; see its log"


class Orders:
    """Executes orders, at most `together` at the same time; without `renders` it refuses all.
    Orders are not stored: the control plane sends an order again after a restart or a lost link.
    """

    def __init__(
        self,
        key: SealingKey,
        renders: OrderedRenders | None,
        uploader: Uploader,
        answers: Answers,
        together: int = 2,
    ) -> None:
        self._key = key
        self._renders = renders
        self._uploader = uploader
        self._answers = answers
        self._turn = asyncio.Semaphore(together)
        self._begun: set[str] = set()
        self._tasks = Tasks("orders")

    async def start(self) -> None:
        """Starts the renders. Unavailable: the disk failed."""
        if self._renders is not None:
            await self._renders.start()

    async def stop(self) -> None:
        """Cancels running renders."""
        await self._tasks.stop()
        if self._renders is not None:
            await self._renders.stop()

    def render(self, command_id: str, box: bytes) -> None:
        """Begins an order, and answers the command at its end. Invalid: rendering is off, or the
        order cannot be decrypted.
        """
        if command_id in self._begun:
            return
        if self._renders is None:
            raise Invalid(
                "this agent does not render: rendering is off in its settings (git.renders)"
            )
        if len(self._begun) >= _MOST_WAITING:
            raise Invalid(f"too many renders are waiting (limit {_MOST_WAITING})")
        order = load_order(self._key.open(SealedSecret(NAME, "", box), command_id))
        self._begun.add(command_id)
        self._tasks.spawn("order", self._carry_out(self._renders, command_id, order))

    async def _carry_out(
        self, renders: OrderedRenders, command_id: str, order: RenderOrder
    ) -> None:
        try:
            async with self._turn:
                self._answers.done(await self._made(renders, command_id, order))
        except LinkDown as error:
            log.info("render could not be uploaded", reason=error.message)
        except Unavailable as error:
            log.error("answer to a render cannot be stored", reason=error.message)
        finally:
            self._begun.discard(command_id)

    async def _made(
        self, renders: OrderedRenders, command_id: str, order: RenderOrder
    ) -> CommandDone:
        try:
            rendered, data = await renders.carry_out(order)
            await self._uploader.upload(command_id, rendered.digest, data)
        except LinkDown:
            raise
        except TowlineError as error:
            return CommandDone(command_id, Outcome.FAILED, error.message)
        except Exception:
            log.exception("render order failed")
            return CommandDone(command_id, Outcome.FAILED, _INTERNAL)
        return CommandDone(command_id, Outcome.SUCCEEDED, rendered=rendered)
