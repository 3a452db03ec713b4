"""Exported attestations, verified without a control plane."""

import base64
import binascii

import orjson

from core.errors import Invalid
from core.spec.bundle import Attestation
from core.spec.statements.attestation import (
    AttestationStatement,
    TrustedKeys,
    decode_statement,
    read_public_keys,
)
from core.spec.statements.in_toto import PAYLOAD_TYPE


def verify_envelope(envelope: bytes, keys: bytes) -> AttestationStatement:
    """Returns the statement in a DSSE envelope that one of these keys signed.

    Raises Invalid for any other form, a wrong signature, and another key.
    """
    try:
        raw = orjson.loads(envelope)
        (signature,) = raw["signatures"]
        if raw["payloadType"] != PAYLOAD_TYPE:
            raise Invalid(f"the envelope contains {raw['payloadType']}, not {PAYLOAD_TYPE}")
        payload = base64.b64decode(raw["payload"], validate=True)
        signed = base64.b64decode(signature["sig"], validate=True)
        attestation = Attestation(str(signature["keyid"]), payload, signed)
    except (ValueError, LookupError, TypeError, binascii.Error):
        raise Invalid("the file is not a DSSE envelope with one signature") from None
    trusted = TrustedKeys(read_public_keys(keys))
    return trusted.verify(decode_statement(attestation.statement).digest, attestation)
