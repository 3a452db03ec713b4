"""Columns of sealed values, which a new data key seals again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.platform.ports import Rows
from controlplane.platform.sealing import Sealer


@dataclass(slots=True)
class SealedColumn:
    """A column of sealed values, each bound to its row by `context:id`."""

    rows: Rows
    column: str
    context: str

    @property
    def noun(self) -> str:
        return self.context.replace("-", " ")

    def is_behind(self, sealer: Sealer, row: Any) -> bool:
        sealed = getattr(row, self.column)
        return bool(sealed) and not sealer.is_current(sealed)

    def resealed(self, sealer: Sealer, row: Any) -> Mapping[str, object]:
        context = f"{self.context}:{row.id}"
        return {self.column: sealer.seal(sealer.open(getattr(row, self.column), context), context)}
