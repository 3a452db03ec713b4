"""Desired state as text on disk, with a checksum so that damaged state is never applied."""

import base64
import hashlib
from typing import Any

import orjson

from core.errors import Invalid
from core.spec.attestation import Attestation
from core.spec.desired import BundleSpec, Desired
from core.spec.health import FieldCondition, HealthRule, HealthState
from core.spec.objects import ObjectRef
from core.spec.sealed_secrets import SealedSecret
from core.spec.sync import DriftPolicy, IgnoredDifference, Removal, SyncOptions
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck, Verification

_SUM = 64


def dump_desired(desired: Desired) -> str:
    """Encodes desired state as 64 hex digits of sha256, then JSON."""
    text = orjson.dumps(desired, default=_bytes)
    return hashlib.sha256(text).hexdigest() + text.decode()


def load_desired(text: str) -> Desired:
    """Decodes desired state. Invalid: the text is damaged."""
    told, body = text[:_SUM], text[_SUM:]
    if hashlib.sha256(body.encode()).hexdigest() != told:
        raise Invalid("desired state was damaged on disk")
    try:
        return _desired(orjson.loads(body))
    except (LookupError, TypeError, ValueError) as error:
        raise Invalid(f"another version wrote this desired state: {error!r}") from error


def _desired(raw: dict[str, Any]) -> Desired:
    removal = Removal(raw["removal"]) if raw["removal"] else None
    spec = _spec(raw["spec"]) if raw["spec"] else None
    return Desired(
        service_id=raw["service_id"],
        sequence=raw["sequence"],
        spec=spec,
        removal=removal,
        confirmed=tuple(ObjectRef(**ref) for ref in raw["confirmed"]),
        verification=_verification(raw["verification"]) if raw["verification"] else None,
        lifted=raw["lifted"],
    )


def _verification(raw: dict[str, Any]) -> Verification:
    metric = raw.pop("metric")
    if metric is not None:
        metric = MetricCheck(**metric | {"comparison": Comparison(metric["comparison"])})
    return Verification(**raw, metric=metric)


def _spec(raw: dict[str, Any]) -> BundleSpec:
    attestation = raw.pop("attestation")
    secrets = raw.pop("secrets")
    options = raw.pop("options")
    return BundleSpec(
        **raw,
        options=_options(options),
        attestation=_attestation(attestation) if attestation else None,
        secrets=tuple(
            SealedSecret(secret["name"], secret["version"], base64.b64decode(secret["box"]))
            for secret in secrets
        ),
    )


def _attestation(raw: dict[str, str]) -> Attestation:
    return Attestation(
        raw["key_id"], base64.b64decode(raw["statement"]), base64.b64decode(raw["signature"])
    )


def _options(raw: dict[str, Any]) -> SyncOptions:
    known = {
        "drift": DriftPolicy(raw.pop("drift")),
        "ignored": tuple(
            IgnoredDifference(
                difference["group"],
                difference["kind"],
                difference["namespace"],
                difference["name"],
                tuple(difference["pointers"]),
                tuple(difference["managers"]),
            )
            for difference in raw.pop("ignored")
        ),
        "health_rules": tuple(_rule(rule) for rule in raw.pop("health_rules")),
    }
    return SyncOptions(**raw, **known)


def _rule(raw: dict[str, Any]) -> HealthRule:
    conditions = tuple(
        FieldCondition(condition["pointer"], tuple(condition["any_of"]))
        for condition in raw["conditions"]
    )
    health = HealthState(raw["health"])
    return HealthRule(raw["group"], raw["kind"], health, conditions, raw["message"])


def _bytes(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value).__name__)
