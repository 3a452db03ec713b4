"""Checks of sync options that users give."""

from collections.abc import Iterable, Sequence

from core.errors import Invalid
from core.spec.sync import SyncOptions


def check_sync_options(options: SyncOptions) -> None:
    """Raises Invalid, naming the field, for options beyond the agent's limits."""
    _check_count(options.ignored, "syncConfig.diffNormalizers", 256)
    _check_count(options.health_rules, "syncConfig.healthRules", 64)
    for difference in options.ignored:
        _check_count(difference.pointers, "syncConfig.diffNormalizers.jsonPointers", 64)
        _check_count(difference.managers, "syncConfig.diffNormalizers.managers", 64)
        _check_pointers(difference.pointers, "syncConfig.diffNormalizers.jsonPointers")
        if not difference.pointers and not difference.managers:
            raise Invalid("needs jsonPointers or managers", field="syncConfig.diffNormalizers")
    for rule in options.health_rules:
        _check_count(rule.conditions, "syncConfig.healthRules.conditions", 16)
        pointers = [condition.pointer for condition in rule.conditions] + [rule.message]
        _check_pointers(filter(None, pointers), "syncConfig.healthRules")
    if not 0 <= options.wave_timeout_s <= 86_400:
        raise Invalid("must be 0 to 86400 s", field="syncConfig.waveTimeout")
    if not 0 <= options.deletion_budget <= 1_000_000:
        raise Invalid("must be 0 to 1000000", field="syncConfig.deletionBudget")


def _check_count(items: Sequence[object], field: str, most: int) -> None:
    if len(items) > most:
        raise Invalid(f"{len(items)} entries, {most} at most", field=field)


def _check_pointers(pointers: Iterable[str], field: str) -> None:
    for pointer in pointers:
        if not pointer.startswith("/") or len(pointer.encode()) > 1024:
            raise Invalid(f"{pointer[:80]!r} is not a JSON pointer (RFC 6901)", field=field)
