"""Comparisons of measured values with thresholds."""

import operator
from enum import StrEnum


class Comparison(StrEnum):
    """Operator between value and threshold; NaN never satisfies one."""

    BELOW = "BELOW"
    """Less than the threshold."""
    AT_MOST = "AT_MOST"
    """Less than or equal to the threshold."""
    ABOVE = "ABOVE"
    """Greater than the threshold."""
    AT_LEAST = "AT_LEAST"
    """Greater than or equal to the threshold."""

    def holds(self, value: float, threshold: float) -> bool:
        """True if the value satisfies the comparison."""
        return _TESTS[self](value, threshold)

    @property
    def sign(self) -> str:
        """The operator in PromQL."""
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
