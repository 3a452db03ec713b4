"""Sealed signing secrets of gates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.pipelines.engine import codec
from controlplane.pipelines.operations.gate_secrets import needs_reseal, resealed
from controlplane.platform.ports import Rows
from controlplane.platform.sealing import Sealer


@dataclass(slots=True)
class SealedGates:
    """Signing secrets in the gate rules of pipelines."""

    rows: Rows
    noun: str = "gates of pipeline"

    def is_behind(self, sealer: Sealer, row: Any) -> bool:
        return needs_reseal(sealer, codec.pipeline_from_json(row.spec))

    def again(self, sealer: Sealer, row: Any) -> Mapping[str, Any]:
        spec = resealed(sealer, codec.pipeline_from_json(row.spec))
        return {"spec": codec.pipeline_to_json(spec), "version": row.version + 1}
