"""How a measured value must stand to a threshold."""

import operator
from enum import StrEnum


class Comparison(StrEnum):
    """The value is below, at most, above or at least the threshold; NaN is none of these."""

    BELOW = "BELOW"
    AT_MOST = "AT_MOST"
    ABOVE = "ABOVE"
    AT_LEAST = "AT_LEAST"

    def holds(self, value: float, threshold: float) -> bool:
        """Whether the value stands so to the threshold."""
        return _TESTS[self](value, threshold)

    @property
    def sign(self) -> str:
        """As PromQL writes it."""
        return _SIGNS[self]


_TESTS = {
    Comparison.BELOW: operator.lt,
    Comparison.AT_MOST: operator.le,
    Comparison.ABOVE: operator.gt,
    Comparison.AT_LEAST: operator.ge,
}
_SIGNS = {
    Comparison.BELOW: "<",
    Comparison.AT_MOST: "<=",
    Comparison.ABOVE: ">",
    Comparison.AT_LEAST: ">=",
}
