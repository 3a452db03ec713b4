"""Identifiers of the parts of a pipeline."""

from typing import NewType

StageId = NewType("StageId", str)
EdgeId = NewType("EdgeId", str)
GateId = NewType("GateId", str)
