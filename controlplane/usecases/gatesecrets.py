"""Signing secrets of gates: given once in plain text, kept sealed, opened to sign."""

import base64
from dataclasses import replace
from typing import TypeVar

from controlplane.domain.notification_bodies import key_of
from controlplane.domain.pipelines.rules import (
    ExternalRule,
    HttpRule,
    Rule,
    Step,
    WorkflowRule,
)
from controlplane.secretports import Sealer

_CONTEXT = "pipeline-gate"
S = TypeVar("S", bound=HttpRule | ExternalRule)


def sealed_rule(sealer: Sealer, rule: Rule, before: Rule | None) -> Rule:
    """The rule with new secrets sealed; one that is not told anew stays.

    Invalid: a secret is none of Standard Webhooks.
    """
    if isinstance(rule, HttpRule | ExternalRule):
        return _sealed(sealer, rule, before)
    if not isinstance(rule, WorkflowRule):
        return rule
    known = before.steps if isinstance(before, WorkflowRule) else ()
    old = {step.name: step.rule for step in known}
    steps = [_sealed_step(sealer, step, old.get(step.name)) for step in rule.steps]
    return replace(rule, steps=tuple(steps))


def opened(sealer: Sealer, rule: HttpRule | ExternalRule) -> str:
    """The signing secret of a rule; empty: it has none."""
    if not rule.sealed:
        return ""
    return sealer.open(base64.b64decode(rule.sealed), _CONTEXT).decode()


def _sealed_step(sealer: Sealer, step: Step, before: object) -> Step:
    if not isinstance(step.rule, HttpRule):
        return step
    return replace(step, rule=_sealed(sealer, step.rule, before))


def _sealed(sealer: Sealer, rule: S, before: object) -> S:
    """`sealed` comes in as plain text."""
    if not rule.sealed:
        same = isinstance(before, HttpRule | ExternalRule) and _whose(before) == _whose(rule)
        return replace(rule, sealed=before.sealed if same else "")
    key_of(rule.sealed)
    sealed = sealer.seal(rule.sealed.encode(), _CONTEXT)
    return replace(rule, sealed=base64.b64encode(sealed).decode())


def _whose(rule: HttpRule | ExternalRule) -> str:
    """Whom a secret was told to: no other gets it."""
    return rule.url if isinstance(rule, HttpRule) else rule.account
