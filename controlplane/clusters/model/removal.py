"""Choices for the objects of a deleted service."""

from enum import StrEnum


class Removal(StrEnum):
    """Handling of a deleted service's objects."""

    CASCADE = "cascade"
    ORPHAN = "orphan"
