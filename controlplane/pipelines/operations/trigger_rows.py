"""Rows that find a pipeline by its gates and triggers."""

from collections.abc import Mapping
from datetime import timedelta

from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.records import PipelineGate, PipelineTrigger
from controlplane.pipelines.ports import PipelineGateStore, PipelineTriggerStore
from controlplane.platform.context import OperationContext
from controlplane.platform.jobs import Job
from controlplane.platform.ports import JobStore, Transaction
from controlplane.platform.sealing import Sealer

TRIGGER = "pipeline.trigger"
MIN_INTERVAL_S = 60
SEAL_CONTEXT = "pipeline-trigger"


async def store_pipeline_rows(
    context: OperationContext, tx: Transaction, spec: pipeline.Pipeline, secrets: Mapping[str, str]
) -> None:
    """Updates the rows of a saved pipeline; `secrets` maps trigger names to webhook secrets.

    An empty secret keeps the present one.
    """
    gates = {str(gate.id) for _, gate in spec.all_gates}
    old_gates = {row.id for row in await tx[PipelineGateStore].of_pipeline(spec.id)}
    await tx[PipelineGateStore].remove_each(old_gates - gates)
    await tx[PipelineGateStore].add_each(PipelineGate(id, spec.id) for id in gates - old_gates)
    old_rows = {row.id: row for row in await tx[PipelineTriggerStore].of_pipeline(spec.id)}
    polled_triggers = {trigger.id: trigger for trigger in spec.triggers if trigger.watches}
    await tx[PipelineTriggerStore].remove_each(old_rows.keys() - polled_triggers.keys())
    for id, trigger in polled_triggers.items():
        plain = secrets.get(trigger.name)
        sealed = context.sealer.seal(plain.encode(), f"{SEAL_CONTEXT}:{id}") if plain else None
        if id not in old_rows:
            row = PipelineTrigger(id, spec.id, MIN_INTERVAL_S, sealed_webhook=sealed)
            await tx[PipelineTriggerStore].add(row)
        elif sealed is not None:
            await tx[PipelineTriggerStore].set_webhook(id, sealed)
        await schedule_poll(context, tx, spec.id, id)


def open_webhook_secret(sealer: Sealer, row: PipelineTrigger) -> bytes:
    """Decrypts the signing secret of a trigger's webhook; empty if it has none."""
    sealed = row.sealed_webhook
    return b"" if sealed is None else sealer.open(sealed, f"{SEAL_CONTEXT}:{row.id}")


async def delete_pipeline_rows(tx: Transaction, pipeline_id: str) -> None:
    """Deletes the rows of a deleted pipeline."""
    gates = await tx[PipelineGateStore].of_pipeline(pipeline_id)
    await tx[PipelineGateStore].remove_each([gate.id for gate in gates])
    triggers = await tx[PipelineTriggerStore].of_pipeline(pipeline_id)
    await tx[PipelineTriggerStore].remove_each([trigger.id for trigger in triggers])


async def schedule_poll(
    context: OperationContext,
    tx: Transaction,
    pipeline_id: str,
    trigger_id: str,
    seconds: float = 0,
) -> None:
    """Schedules the next poll of a trigger in `seconds`, instead of its present schedule."""
    run_at = context.clock.now() + timedelta(seconds=seconds)
    payload = {"pipeline": pipeline_id, "trigger": trigger_id}
    key = f"trigger:{trigger_id}"
    await tx[JobStore].enqueue(Job(context.new_id(), TRIGGER, key, run_at, payload))
