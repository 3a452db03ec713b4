"""Limits of the settings that users give a service, as agents and renderers accept them."""

from collections.abc import Iterable, Mapping

from controlplane.platform.limits import check_count, check_length, check_range
from controlplane.platform.names import check_text
from core.errors import Invalid
from core.spec.renderers import RenderOptions
from core.spec.sync import SyncOptions

_MAX_VALUES = 500
_MAX_VALUE_LENGTH = 64 * 1024
_MAX_CONFIGURATION_LENGTH = 512 * 1024
_MAX_RENDER_ITEMS = {
    "include": 64, "exclude": 64, "libraries": 64, "variables": 100, "arguments": 100,
}  # fmt: skip
_MAX_TEXT = 1024
_MAX_METADATA = 64


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


def check_render_options(options: RenderOptions) -> RenderOptions:
    """Returns the options. Raises Invalid, naming the field, for options beyond the limits."""
    for name, max_items in _MAX_RENDER_ITEMS.items():
        check_count(len(getattr(options, name)), f"rendering.{name}", max_items)
    texts = [*options.include, *options.exclude, *options.libraries, options.entry or ""]
    named_values = [*options.variables, *options.arguments]
    for text in [*texts, *(value.name for value in named_values)]:
        check_length(text, "rendering", _MAX_TEXT)
    for value in named_values:
        check_length(value.value, "rendering", _MAX_VALUE_LENGTH)
    return options


def check_sync_options(options: SyncOptions) -> None:
    """Raises Invalid, naming the field, for options beyond the agent's limits."""
    _check_metadata(options.namespace_labels, "syncConfig.labels", 253)
    _check_metadata(options.namespace_annotations, "syncConfig.annotations", 4096)
    check_count(len(options.ignored), "syncConfig.diffNormalizers", 256)
    check_count(len(options.health_rules), "syncConfig.healthRules", 64)
    for difference in options.ignored:
        check_count(len(difference.pointers), "syncConfig.diffNormalizers.jsonPointers", 64)
        check_count(len(difference.managers), "syncConfig.diffNormalizers.managers", 64)
        _check_pointers(difference.pointers, "syncConfig.diffNormalizers.jsonPointers")
        if not difference.pointers and not difference.managers:
            raise Invalid("needs jsonPointers or managers", field="syncConfig.diffNormalizers")
    for rule in options.health_rules:
        check_count(len(rule.conditions), "syncConfig.healthRules.conditions", 16)
        pointers = [condition.pointer for condition in rule.conditions] + [rule.message]
        _check_pointers(filter(None, pointers), "syncConfig.healthRules")
    check_range(options.wave_timeout_s, "syncConfig.waveTimeout", 0, 86_400, "s")
    check_range(options.deletion_budget, "syncConfig.deletionBudget", 0, 1_000_000)


def _check_pointers(pointers: Iterable[str], field: str) -> None:
    for pointer in pointers:
        if not pointer.startswith("/") or len(pointer.encode()) > 1024:
            raise Invalid(f"{pointer[:80]!r} is not a JSON pointer (RFC 6901)", field=field)


def _check_metadata(entries: Mapping[str, str], field: str, max_bytes: int) -> None:
    check_count(len(entries), field, _MAX_METADATA)
    for name, value in entries.items():
        if max(len(name.encode()), len(value.encode())) > max_bytes:
            raise Invalid(f"{name[:80]} is longer than {max_bytes} bytes", field=field)
