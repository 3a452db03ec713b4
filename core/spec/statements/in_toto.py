"""Statements of the render tier in the form of in-toto, in envelopes of DSSE.

A statement is an in-toto Statement v1 with the predicate of SLSA provenance v1, as canonical JSON
(sorted keys, no spaces). A signature covers the pre-authentication encoding of DSSE v1.
"""

import base64

import orjson

from core.json_object import JsonObject
from core.spec.bundle import Attestation

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://slsa.dev/provenance/v1"
_BUILD = "https://towline.dev/render/v2"


def dsse_prefix(payload: bytes) -> bytes:
    """Returns the bytes before a statement that its DSSE signature covers as well."""
    return b"DSSEv1 %d %b %d " % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload))


def envelope(attestation: Attestation) -> bytes:
    """Returns an attestation as a DSSE envelope."""
    signature = base64.b64encode(attestation.signature).decode()
    return orjson.dumps(
        {
            "payload": base64.b64encode(attestation.statement).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"keyid": attestation.key_id, "sig": signature}],
        }
    )


def to_in_toto(fields: JsonObject) -> JsonObject:
    """Returns the in-toto form of a statement's fields."""
    return {
        "_type": _STATEMENT,
        "subject": [
            {"name": "bundle", "digest": {"sha256": fields["digest"].removeprefix("sha256:")}}
        ],
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD,
                "externalParameters": {"values": fields["values"]},
                "internalParameters": {"inputs": fields["inputs"]},
                "resolvedDependencies": [_dependency(source) for source in fields["sources"]],
            },
            "runDetails": {
                "builder": {
                    "id": f"https://towline.dev/renderers/{fields['renderer']}",
                    "version": {"tool": fields["tool"]},
                }
            },
        },
    }


def from_in_toto(raw: JsonObject) -> JsonObject:
    """Returns the fields of a statement. Raises LookupError, TypeError, ValueError or
    AttributeError for another form; the caller compares the result's form with the original.
    """
    definition = raw["predicate"]["buildDefinition"]
    builder = raw["predicate"]["runDetails"]["builder"]
    return {
        "digest": "sha256:" + raw["subject"][0]["digest"]["sha256"],
        "sources": [_parse_dependency(item) for item in definition["resolvedDependencies"]],
        "renderer": builder["id"].removeprefix("https://towline.dev/renderers/"),
        "tool": builder["version"]["tool"],
        "inputs": definition["internalParameters"]["inputs"],
        "values": definition["externalParameters"]["values"],
    }


def _dependency(source: dict[str, str]) -> JsonObject:
    """A resource descriptor: a chart by its archive, and files by their commit and Git id."""
    kind, _, value = source["digest"].rpartition(":")
    if kind:
        digest, annotations = {kind: value}, {"annotations": {"version": source["revision"]}}
    else:
        digest, annotations = {"gitCommit": source["revision"], "gitTree": value}, {}
    return {"uri": source["url"], "name": source["path"], "digest": digest, **annotations}


def _parse_dependency(item: JsonObject) -> dict[str, str]:
    digest = item["digest"]
    if "gitCommit" in digest:
        revision, value = digest["gitCommit"], digest["gitTree"]
    else:
        ((kind, hex_digest),) = digest.items()
        revision, value = item["annotations"]["version"], f"{kind}:{hex_digest}"
    return {"url": item["uri"], "path": item["name"], "revision": revision, "digest": value}
