"""Limits of a service's configuration values."""

from collections.abc import Mapping

from controlplane.platform.limits import check_count
from controlplane.platform.names import check_text
from core.errors import Invalid

_MAX_VALUES = 500
_MAX_VALUE_LENGTH = 64 * 1024
_MAX_CONFIGURATION_LENGTH = 512 * 1024


def check_configuration(values: Mapping[str, str]) -> dict[str, str]:
    """Returns the values in their stored form. Raises Invalid for too many or too long ones."""
    check_count(len(values), "configuration", _MAX_VALUES)
    for name, value in values.items():
        check_text(name, "configuration.name")
        if len(value) > _MAX_VALUE_LENGTH:
            raise Invalid(
                f"{name} must have at most {_MAX_VALUE_LENGTH:,} characters, not {len(value):,}",
                field="configuration.value",
            )
    check_count(
        sum(map(len, values.values())), "configuration", _MAX_CONFIGURATION_LENGTH, "characters"
    )
    return dict(values)
