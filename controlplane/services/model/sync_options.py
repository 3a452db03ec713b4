"""Checks of sync options that users give."""

from collections.abc import Iterable

from controlplane.platform.limits import check_count, check_range
from core.errors import Invalid
from core.spec.sync import SyncOptions


def check_sync_options(options: SyncOptions) -> None:
    """Raises Invalid, naming the field, for options beyond the agent's limits."""
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
