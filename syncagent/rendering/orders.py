"""Execution of render orders: decrypted with the agent's key, rendered, uploaded, answered."""

import asyncio

import structlog

from core.errors import Invalid, TowlineError, Unavailable
from core.runtime.tasks import Tasks
from core.sealing import SealingKey
from core.spec.render_orders import ORDER_SECRET_NAME, RenderOrder, load_order
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.sealed_secrets import SealedSecret
from syncagent.ports import INTERNAL_ERROR, CommandAnswers, LinkDown, OrderedRenders, Uploader

log = structlog.get_logger(__name__)

_MAX_WAITING = 256


class RenderOrders:
    """Executes orders, at most `max_concurrent` at the same time; without `renders` it refuses all.
    Orders are not stored: the control plane sends an order again after a restart or a lost link.
    """

    def __init__(
        self,
        key: SealingKey,
        renders: OrderedRenders | None,
        uploader: Uploader,
        answers: CommandAnswers,
        max_concurrent: int = 2,
    ) -> None:
        self._key = key
        self._renders = renders
        self._uploader = uploader
        self._answers = answers
        self._turn = asyncio.Semaphore(max_concurrent)
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
        if len(self._begun) >= _MAX_WAITING:
            raise Invalid(f"too many renders are waiting (limit {_MAX_WAITING})")
        order = load_order(self._key.open(SealedSecret(ORDER_SECRET_NAME, "", box), command_id))
        self._begun.add(command_id)
        self._tasks.spawn("order", self._execute(self._renders, command_id, order))

    async def _execute(self, renders: OrderedRenders, command_id: str, order: RenderOrder) -> None:
        try:
            async with self._turn:
                self._answers.done(await self._result(renders, command_id, order))
        except LinkDown as error:
            log.info("render could not be uploaded", reason=error.message)
        except Unavailable as error:
            log.error("answer to a render cannot be stored", reason=error.message)
        finally:
            self._begun.discard(command_id)

    async def _result(
        self, renders: OrderedRenders, command_id: str, order: RenderOrder
    ) -> CommandAnswer:
        try:
            rendered, data = await renders.execute(order)
            await self._uploader.upload(command_id, rendered.digest, data)
        except LinkDown:
            raise
        except TowlineError as error:
            return CommandAnswer(command_id, CommandOutcome.FAILED, error.message)
        except Exception:
            log.exception("render order failed")
            return CommandAnswer(command_id, CommandOutcome.FAILED, INTERNAL_ERROR)
        return CommandAnswer(command_id, CommandOutcome.SUCCEEDED, rendered=rendered)
