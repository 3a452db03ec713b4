"""Only a statement of a trusted key, unaltered and about this very bundle, is believed."""

import base64
from dataclasses import replace

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.spec.statements.attestation import (
    Attestation,
    AttestationStatement,
    SignedSource,
    Signer,
    TrustedKeys,
    read_public_keys,
)
from core.spec.statements.in_toto import dsse_prefix, envelope

DIGEST = "sha256:" + "a" * 64
SOURCE = SignedSource("https://git.example/shop.git", "deploy/web", "c" * 40, "d" * 40)
CHART = SignedSource("https://charts.example", "redis", "1.2.3", "sha256:" + "e" * 64)
STATEMENT = AttestationStatement(
    DIGEST, (SOURCE, CHART), "helm", "4.0.1", "sha256:" + "1" * 64, "sha256:" + "2" * 64
)


def trusting(*signers: Signer) -> TrustedKeys:
    return TrustedKeys(key for signer in signers for key in read_public_keys(signer.public_pem))


@pytest.fixture
def signer() -> Signer:
    return Signer(Ed25519PrivateKey.generate())


def test_a_trusted_statement_is_given_back(signer: Signer) -> None:
    assert trusting(signer).verify(DIGEST, signer.sign(STATEMENT)) == STATEMENT


def test_no_statement_a_foreign_key_and_another_bundle_are_refused(signer: Signer) -> None:
    other = Signer(Ed25519PrivateKey.generate())
    trusted = trusting(signer)
    for said, why in (
        (None, "not signed"),
        (other.sign(STATEMENT), "does not trust"),
        (signer.sign(replace(STATEMENT, digest="sha256:" + "b" * 64)), "belongs to"),
        (replace(other.sign(STATEMENT), key_id=signer.key_id), "is wrong"),
    ):
        with pytest.raises(Invalid, match=why):
            trusted.verify(DIGEST, said)


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_no_altered_byte_is_believed(place: int, change: int) -> None:
    signer = Signer.from_bytes(b"k" * 32)
    good = signer.sign(STATEMENT)
    for name in ("statement", "signature"):
        data = bytearray(getattr(good, name))
        data[place % len(data)] ^= change
        with pytest.raises(Invalid):
            trusting(signer).verify(DIGEST, replace(good, **{name: bytes(data)}))


def test_only_the_canonical_form_counts() -> None:
    """A key that signs by the same rules but in another form is not read by guessing."""
    key = Ed25519PrivateKey.generate()
    signer = Signer(key)
    whole = orjson.loads(STATEMENT.encode())
    definition = whole["predicate"]["buildDefinition"]
    first = definition["resolvedDependencies"][0]
    sources = ([{"uri": "u"}], ["u"], "u", [{**first, "name": 1}], [{**first, "more": ""}])
    changed = [{**definition, "resolvedDependencies": value} for value in sources]
    changed += [{**definition, "buildType": "x"}, {**definition, "externalParameters": {}}]
    strange = [
        {**whole, "predicate": {**whole["predicate"], "buildDefinition": value}}
        for value in changed
    ]
    strange += [{**whole, "_type": "x"}, {**whole, "predicate": 1}, {**whole, "more": ""}]
    strange += [{**whole, "subject": [*whole["subject"], *whole["subject"]]}]
    forms = [orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for value in strange]
    for form in (b"{}", b"[]", b"no json", STATEMENT.encode() + b" ", *forms):
        signature = key.sign(dsse_prefix(form) + form)
        with pytest.raises(Invalid):
            trusting(signer).verify(DIGEST, Attestation(signer.key_id, form, signature))


def test_keys_are_read_from_pem_and_from_lines(signer: Signer) -> None:
    raw = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    text = b"# of the render tier\n" + signer.public_pem + base64.b64encode(raw) + b"\n"
    assert len(read_public_keys(text)) == 2
    for wrong in (b"", b"# nothing\n", b"AAAA\n", b"not base64!\n"):
        with pytest.raises(Invalid):
            read_public_keys(wrong)


def test_a_statement_has_an_end(signer: Signer) -> None:
    with pytest.raises(Invalid, match="the limit is"):
        signer.sign(replace(STATEMENT, sources=(SOURCE,) * 200))


def test_an_envelope_is_one_of_dsse(signer: Signer) -> None:
    """The example of the protocol: https://github.com/secure-systems-lab/dsse, protocol.md."""
    attestation = signer.sign(STATEMENT)
    read = orjson.loads(envelope(attestation))
    payload = base64.b64decode(read["payload"])
    kind = read["payloadType"]
    covered = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    key = read_public_keys(signer.public_pem)[0]
    key.verify(base64.b64decode(read["signatures"][0]["sig"]), covered)
    statement = orjson.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"][0]["digest"] == {"sha256": "a" * 64}
    first, chart = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert first["digest"] == {"gitCommit": "c" * 40, "gitTree": "d" * 40}
    assert chart["digest"] == {"sha256": "e" * 64}
