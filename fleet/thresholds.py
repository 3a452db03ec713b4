"""Comparisons of measured values with thresholds."""

import operator
from enum import StrEnum


class Comparison(StrEnum):
    """Operator between value and threshold; NaN never satisfies one."""

    BELOW = "BELOW"
    AT_MOST = "AT_MOST"
    ABOVE = "ABOVE"
    AT_LEAST = "AT_LEAST"

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
