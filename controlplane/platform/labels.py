"""Label selectors with the grammar of Kubernetes: `team=a`, `env in (a,b)`, `owner` and `!old`.

The grammar is that of `labels.Parse` in k8s.io/apimachinery, without the operators `<` and `>`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from controlplane.platform.limits import check_count, check_length
from core.errors import Invalid

MAX_REQUIREMENTS = 10
MAX_VALUES = 50
_MAX_LENGTH = 2000
_TOKEN = re.compile(r"[ \t\r\n]*(?P<text>!=|==|[=!(),<>]|[^ \t\r\n=!(),<>]+|\Z)")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MAX_PREFIX = 253
_DNS_NAME = rf"{_DNS_LABEL.pattern}(\.{_DNS_LABEL.pattern})*"
LABEL_NAME_SCHEMA = {"pattern": rf"^({_DNS_NAME}/)?{_NAME.pattern}$", "maxLength": _MAX_PREFIX + 64}
"""JSON Schema of the names of labels and annotations, as `check_label_name` takes them."""
LABEL_VALUE_SCHEMA = {"type": "string", "pattern": f"^({_NAME.pattern})?$"}
"""JSON Schema of the values of labels, as `check_label_value` takes them."""
_SYMBOLS = frozenset({"", "=", "==", "!=", "!", "(", ")", ",", "<", ">"})


class LabelOperator(StrEnum):
    """Relation of a label to the values of a requirement, as in Kubernetes."""

    In = "In"
    """The label has one of the values."""
    NotIn = "NotIn"
    """The label is absent, or has none of the values."""
    Exists = "Exists"
    """The label is present."""
    DoesNotExist = "DoesNotExist"
    """The label is absent."""

    @property
    def is_negative(self) -> bool:
        """Returns whether resources without the label match."""
        return self in (LabelOperator.NotIn, LabelOperator.DoesNotExist)


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """A condition on one label."""

    key: str
    """Name of the label, such as `env` or `example.org/team`."""
    operator: LabelOperator
    """Relation of the label to the values."""
    values: tuple[str, ...] = ()
    """Values, for `In` and `NotIn` only. Limit: 50."""

    def matches(self, *labels: Mapping[str, str]) -> bool:
        """Returns whether a resource meets the requirement; several sets of labels count as one."""
        is_matched = any(
            self.key in label_set and (not self.values or label_set[self.key] in self.values)
            for label_set in labels
        )
        return is_matched != self.operator.is_negative

    def check(self, field: str) -> None:
        """Raises Invalid unless Kubernetes accepts the requirement."""
        check_label_name(self.key, field)
        takes_values = self.operator in (LabelOperator.In, LabelOperator.NotIn)
        if takes_values != bool(self.values):
            need = "needs at least one value" if takes_values else "takes no values"
            raise Invalid(f"the operator {self.operator} {need}", field=field)
        check_count(len(self.values), field, MAX_VALUES, "values")
        for value in self.values:
            check_label_value(value, field)


def check_label_name(name: str, field: str, noun: str = "a label") -> None:
    """Raises Invalid unless Kubernetes accepts the name of a label or annotation."""
    prefix, slash, suffix = name.rpartition("/")
    is_domain = len(prefix) <= _MAX_PREFIX and all(map(_DNS_LABEL.fullmatch, prefix.split(".")))
    if not _NAME.fullmatch(suffix) or (slash and not is_domain):
        raise Invalid(
            f"{name[:80]!r} is no name of {noun}: use at most 63 letters, digits, '-', '_' and "
            "'.', with a letter or digit at both ends, if needed after a DNS name and '/'",
            field=field,
        )


def check_label_value(value: str, field: str) -> None:
    """Raises Invalid unless Kubernetes accepts the value of a label; it can be empty."""
    if value and not _NAME.fullmatch(value):
        raise Invalid(
            f"{value[:80]!r} is no value of a label: use at most 63 letters, digits, '-', "
            "'_' and '.', with a letter or digit at both ends",
            field=field,
        )


def parse_selector(text: str, field: str = "labels") -> tuple[LabelRequirement, ...]:
    """Parses a selector; all of its requirements must be met. Raises Invalid."""
    check_length(text, field, _MAX_LENGTH)
    requirements = tuple(_SelectorParser(text, field).requirements())
    check_count(len(requirements), field, MAX_REQUIREMENTS, "labels")
    return requirements


class _Token(NamedTuple):
    text: str
    """The symbol or the word; empty at the end."""
    position: int
    """Position in the selector, from 0."""

    @property
    def is_word(self) -> bool:
        return self.text not in _SYMBOLS


class _SelectorParser:
    """Recursive descent over the tokens of a selector."""

    def __init__(self, text: str, field: str) -> None:
        self._field = field
        self._tokens = [_Token(m["text"], m.start("text")) for m in _TOKEN.finditer(text)]
        self._next = 0

    def requirements(self) -> Iterator[LabelRequirement]:
        """Yields `requirement ["," requirement]…`."""
        if not self._peek.text:
            return
        yield self._requirement()
        while self._take_if(","):
            yield self._requirement()
        if self._peek.text:
            raise self._unexpected("',' or the end")

    def _requirement(self) -> LabelRequirement:
        is_negated = self._take_if("!")
        if not self._peek.is_word:
            raise self._unexpected("the name of a label")
        key = self._take()
        if is_negated:
            requirement = LabelRequirement(key, LabelOperator.DoesNotExist)
        elif self._peek.text in ("", ","):
            requirement = LabelRequirement(key, LabelOperator.Exists)
        else:
            requirement = self._restriction(key)
        requirement.check(self._field)
        return requirement

    def _restriction(self, key: str) -> LabelRequirement:
        """Parses `("=" | "==" | "!=") VALUE` or `("in" | "notin") "(" values ")"`."""
        operator = self._peek.text
        if operator in ("=", "==", "!="):
            self._take()
            value = self._take() if self._peek.is_word else ""
            kind = LabelOperator.NotIn if operator == "!=" else LabelOperator.In
            return LabelRequirement(key, kind, (value,))
        if operator in ("in", "notin"):
            self._take()
            kind = LabelOperator.In if operator == "in" else LabelOperator.NotIn
            return LabelRequirement(key, kind, self._values())
        raise self._unexpected("one of =, ==, !=, in and notin")

    def _values(self) -> tuple[str, ...]:
        """Parses `"(" VALUE ["," VALUE]… ")"`; a value can be empty."""
        if not self._take_if("("):
            raise self._unexpected("'('")
        values = [self._value()]
        while self._take_if(","):
            values.append(self._value())
        if not self._take_if(")"):
            raise self._unexpected("',' or ')'")
        return tuple(sorted(set(values)))

    def _value(self) -> str:
        return self._take() if self._peek.is_word else ""

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> str:
        token = self._peek
        self._next += 1
        return token.text

    def _take_if(self, symbol: str) -> bool:
        if self._peek.text != symbol:
            return False
        self._next += 1
        return True

    def _unexpected(self, expected: str) -> Invalid:
        token = self._peek
        shown = repr(token.text[:80]) if token.text else "the end"
        return Invalid(
            f"found {shown} at character {token.position + 1} of the label selector, expected "
            f"{expected}; write for example env in (a,b),tier!=web,owner,!old",
            field=self._field,
        )
