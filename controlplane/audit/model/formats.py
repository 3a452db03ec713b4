"""Audit rows in export formats: JSON lines, CEF (Common Event Format 0) and syslog (RFC 5424)."""

import re
from enum import StrEnum

import orjson

from controlplane.audit.model.chains import kind_of
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from core.json_object import JsonObject

_PRODUCT = "CEF:0|Towline|Towline|1"
_FACILITY_AUDIT = 13
_NOTICE, _WARNING = 5, 4
_NOT_PRINTABLE = re.compile(r"[^\x21-\x7e]")
# Rows contain text from unauthenticated callers: no terminal or parser may act on it.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class AuditFormat(StrEnum):
    """Export format of audit rows."""

    JSONL = "jsonl"
    CEF = "cef"


def as_object(row: AuditEntry) -> JsonObject:
    """Returns the whole row as JSON; `number`, `hash` and the hashed
    fields allow its verification.
    """
    return {
        "kind": kind_of(row.action).value,
        "number": row.number,
        "at": row.at.isoformat(timespec="microseconds"),
        "actor": row.actor,
        "actorId": row.actor_id,
        "tokenId": row.token_id,
        "source": row.source,
        "action": row.action,
        "verdict": row.verdict.value,
        "target": row.target,
        "targetId": row.target_id,
        "clusterId": row.cluster_id,
        "projectId": row.project_id,
        "before": row.before_digest,
        "after": row.after_digest,
        "status": row.status,
        "requestId": row.request_id,
        "detail": row.detail,
        "hash": row.hash,
    }


def json_line(row: AuditEntry) -> bytes:
    """Formats a row as one JSON line."""
    return orjson.dumps(as_object(row), option=orjson.OPT_NON_STR_KEYS) + b"\n"


def cef(row: AuditEntry) -> bytes:
    """Formats a row as one CEF line (ArcSight Common Event Format, version 25).

    CEF has no field for the object of a change, so custom fields name it. `src` takes IPv4 only.
    """
    severity = 6 if row.verdict is AuditVerdict.REFUSED else 3
    is_ipv6 = ":" in row.source
    fields = {
        "rt": str(int(row.at.timestamp() * 1000)),
        "suser": row.actor,
        "suid": row.actor_id,
        "src": "" if is_ipv6 else row.source,
        "act": row.action,
        "outcome": row.verdict.value,
        "externalId": row.request_id,
    }
    custom = {
        "c6a2": ("source", row.source if is_ipv6 else ""),
        "cs1": ("cluster", row.cluster_id),
        "cs2": ("hash", row.hash),
        "cs3": ("target", row.target),
        "cs4": ("targetId", row.target_id),
        "cn1": ("number", str(row.number)),
    }
    for name, (label, text) in custom.items():
        if text:
            fields |= {f"{name}Label": label, name: text}
    extension = " ".join(f"{name}={_escape_value(text)}" for name, text in fields.items() if text)
    head = f"{_PRODUCT}|{_escape_header(row.action)}|{_escape_header(row.action)}|{severity}|"
    return f"{head}{extension}\n".encode()


def syslog(row: AuditEntry, host: str) -> bytes:
    """Formats a row as an RFC 5424 message with facility `log audit` and a JSON body."""
    level = _WARNING if row.verdict is AuditVerdict.REFUSED else _NOTICE
    at = row.at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    kind = kind_of(row.action).value
    head = f"<{_FACILITY_AUDIT * 8 + level}>1 {at} {_syslog_field(host, 255)} towline - {kind} - "
    return head.encode() + json_line(row).rstrip()


FORMATS = {AuditFormat.JSONL: json_line, AuditFormat.CEF: cef}


def _escape_value(text: str) -> str:
    """Escapes an extension's value for CEF."""
    plain = _CONTROL.sub("?", text).replace("\\", "\\\\").replace("=", "\\=")
    return plain.replace("\r", "\\r").replace("\n", "\\n")


def _escape_header(text: str) -> str:
    plain = _CONTROL.sub("?", text).replace("\\", "\\\\").replace("|", "\\|")
    return plain.replace("\r", " ").replace("\n", " ")


def _syslog_field(text: str, limit: int) -> str:
    return _NOT_PRINTABLE.sub("", text)[:limit] or "-"
