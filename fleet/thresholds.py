"""How a measured value must stand to a threshold."""

import operator
from enum import StrEnum


class Comparison(StrEnum):
    """The value is below, at most, above or at least the threshold; NaN is none of these."""

    BELOW = "BELOW"
    """Less than the threshold."""
    AT_MOST = "AT_MOST"
    """Less than or equal to the threshold."""
    ABOVE = "ABOVE"
    """Greater than the threshold."""
    AT_LEAST = "AT_LEAST"
    """Greater than or equal to the threshold."""

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
