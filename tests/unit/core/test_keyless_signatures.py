"""Signatures without a key: a bundle of Sigstore's staging instance, and others of our own."""

import base64
import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.json_object import JsonObject
from core.signatures.artifact import ArtifactSignature
from core.signatures.certificate_log import check_certificate_log
from core.signatures.certificates import read_authorities
from core.signatures.cosign_key import cosign_key, read_cosign_key
from core.signatures.inclusion import compute_root
from core.signatures.kind import SignerText
from core.signatures.sigstore import SigstoreSigners
from core.signatures.sigstore_bundle import read_bundle
from core.signatures.trusted import read_signers
from core.spec.source_signatures import Evidence, decode_evidence
from tests.fakes.authority import uri
from tests.fakes.clock import START
from tests.fakes.sigstore import ISSUER, WORKFLOW, FakeSigstore

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
SIGSTORE, STRANGER = FakeSigstore(), FakeSigstore()
REAL = json.loads((Path(__file__).parent / "sigstore_bundle.json").read_text())


def refusal(signature: ArtifactSignature, text: str = "", content: str = DIGEST) -> str:
    """The reason to refuse a signature; empty: it is accepted."""
    try:
        signers = read_signers("ci", text or SIGSTORE.text())
        signer = signers.verify_artifact(content, [signature])
    except Invalid as error:
        return error.message
    assert (signer.name, signer.method) == (WORKFLOW, "keyless")
    return ""


def changed(signature: ArtifactSignature, *path: str | int, value: object) -> ArtifactSignature:
    """The same with another value in its bundle."""
    bundle = orjson.loads(signature.bundle)
    place = bundle
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return replace(signature, bundle=orjson.dumps(bundle))


def test_a_bundle_of_sigstore_itself_is_verified() -> None:
    """It signs a file, not an image: the certificate, its chain and the log's promise are real."""
    line = f'keyless {REAL["identity"]} issuer="{REAL["issuer"]}"'
    (signer,) = SigstoreSigners.read(SignerText(line + "\n" + REAL["trust"])).keys
    data = orjson.dumps(REAL["bundle"])
    bundle = read_bundle(data, REAL["content"].encode())
    assert signer.name(bundle.certificate) == REAL["identity"]
    assert signer.verify(bundle, REAL["identity"]).method == "keyless"
    with pytest.raises(Invalid, match="is of another signature"):
        signer.verify(read_bundle(data, b"other"), REAL["identity"])


ENTRY = ("verificationMaterial", "tlogEntries", 0)


def verify_real(options: str, *, logs: str = "", bundle: JsonObject = REAL["bundle"]) -> str:
    """Verifies the bundle of Sigstore with more options and logs; the reason to refuse it."""
    line = f'keyless {REAL["identity"]} issuer="{REAL["issuer"]}"{options}'
    (signer,) = SigstoreSigners.read(SignerText(f"{line}\n{REAL['trust']}{logs}")).keys
    try:
        signer.verify(read_bundle(orjson.dumps(bundle), REAL["content"].encode()), line)
    except Invalid as error:
        return error.message
    return ""


def test_a_set_can_require_a_proof_of_inclusion() -> None:
    """A registry can take the proof away; what remains is the log's promise."""
    stripped = json.loads(json.dumps(REAL["bundle"]))
    del stripped["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]
    assert verify_real("", bundle=stripped) == ""
    assert verify_real(',inclusion="required"') == ""
    assert "no proof of inclusion" in verify_real(',inclusion="required"', bundle=stripped)


def test_a_set_can_require_the_promise_of_a_certificate_log() -> None:
    """Else an authority could certify an identity unseen."""
    assert verify_real(',sct="required"', logs=REAL["certificateLog"]) == ""
    assert "certificate log" in verify_real(',sct="required"')
    assert "certificate log" in refusal(
        SIGSTORE.sign(DIGEST),
        SIGSTORE.text(f'keyless {WORKFLOW} issuer="{ISSUER}",sct="required"'),
    )


def test_the_promise_of_a_certificate_log_is_of_its_issuer_and_its_log() -> None:
    bundle = read_bundle(orjson.dumps(REAL["bundle"]), REAL["content"].encode())
    log = read_cosign_key(REAL["certificateLog"])
    authorities = read_authorities(SignerText(REAL["trust"]))
    chain = authorities.chain(bundle.certificate, (), bundle.entry.integrated_at)
    check_certificate_log(chain[0], chain[1], [log])
    renamed = replace(cosign_key(STRANGER.rekor.public_key()), fingerprint=log.fingerprint)
    for issuer, logs in (
        (chain[0], [log]),
        (STRANGER.fulcio.certificate, [log]),
        (chain[1], [renamed]),
    ):
        with pytest.raises(Invalid, match="certificate log"):
            check_certificate_log(chain[0], issuer, logs)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("hashes", 0), "A" * 43 + "=", "does not prove that it contains"),
        (("logIndex",), "5", "does not prove that it contains"),
        (("treeSize",), "99999999", "of another tree|does not prove"),
        (("rootHash",), "A" * 43 + "=", "does not prove that it contains"),
        (("hashes",), [], "does not prove that it contains"),
        (("checkpoint", "envelope"), "rekor\n1\nAA==\n\n", "of another tree"),
        (("treeSize",), "0", "another form"),
        (("hashes",), ["AA=="] * 65, "another form"),
        (("checkpoint",), None, "another form"),
    ],
)
def test_a_wrong_proof_of_inclusion_is_refused(
    path: tuple[str | int, ...], value: object, reason: str
) -> None:
    """Although the log's promise is right."""
    line = f'keyless {REAL["identity"]} issuer="{REAL["issuer"]}"'
    (signer,) = SigstoreSigners.read(SignerText(line + "\n" + REAL["trust"])).keys
    original = ArtifactSignature(b"", b"", b"", orjson.dumps(REAL["bundle"]))
    wrong = changed(original, *ENTRY, "inclusionProof", *path, value=value)
    with pytest.raises(Invalid, match=reason):
        signer.verify(read_bundle(wrong.bundle, REAL["content"].encode()), REAL["identity"])


def test_a_checkpoint_that_another_key_signed_is_refused() -> None:
    line = f'keyless {REAL["identity"]} issuer="{REAL["issuer"]}"'
    (signer,) = SigstoreSigners.read(SignerText(line + "\n" + REAL["trust"])).keys
    bundle = read_bundle(orjson.dumps(REAL["bundle"]), REAL["content"].encode())
    proof, body = bundle.entry.proof, base64.b64decode(bundle.entry.body)
    assert proof is not None
    proof.check(body, signer.logs[0])
    stranger = cosign_key(STRANGER.rekor.public_key())
    with pytest.raises(Invalid, match="no signature of its key"):
        proof.check(body, stranger)
    signed = proof.checkpoint.replace("\n\n", "\nmore\n\n")
    with pytest.raises(Invalid, match="no signature of its key"):
        replace(proof, checkpoint=signed).check(body, signer.logs[0])


def tree(leaves: list[bytes]) -> tuple[bytes, list[list[bytes]]]:
    """The root of a tree, and the path of each leaf, as RFC 9162 section 2.1 defines them."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest(), [[]]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    (left, lefts), (right, rights) = tree(leaves[:half]), tree(leaves[half:])
    paths = [[*path, right] for path in lefts] + [[*path, left] for path in rights]
    return hashlib.sha256(b"\1" + left + right).digest(), paths


@given(st.integers(1, 40), st.data())
def test_each_entry_of_a_tree_is_proven_at_its_place_only(size: int, data: st.DataObject) -> None:
    leaves = [bytes([number]) for number in range(size)]
    root, paths = tree(leaves)
    index, other = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    found = compute_root(leaves[index], other, size, paths[index])
    assert (found == root) is (index == other)


@pytest.mark.parametrize("signed", [SIGSTORE.sign(DIGEST), SIGSTORE.attest(DIGEST)])
def test_both_forms_of_cosign_are_accepted_offline(signed: ArtifactSignature) -> None:
    assert refusal(signed) == ""
    (received,) = decode_evidence(Evidence(artifacts=(signed,)).encode()).artifacts
    assert refusal(received) == ""
    for text in (
        SIGSTORE.text(f'keyless https://git.example.org/shop/* issuer="{ISSUER}"'),
        SIGSTORE.text() + STRANGER.text(""),
    ):
        assert refusal(signed, text) == ""
    assert "signature is of another artifact" in refusal(signed, content=OTHER)


@pytest.mark.parametrize("form", ["sign", "attest"])
def test_other_identities_issuers_authorities_and_logs_are_refused(form: str) -> None:
    def sign(*words: str) -> ArtifactSignature:
        return getattr(SIGSTORE, form)(DIGEST, SIGSTORE.certify(*words))

    fork = WORKFLOW.replace("/shop/", "/fork/")
    for signature, reason in (
        (sign(fork), f"not allowed: CN=Ada of the issuer {ISSUER}"),
        (sign(WORKFLOW, "https://evil.example.org"), "of the issuer https://evil.example.org"),
        (getattr(STRANGER, form)(DIGEST), "log"),
    ):
        text = refusal(signature)
        assert reason in text and f"ci ({WORKFLOW} of {ISSUER} by a certificate of CN=Ful" in text
    foreign = getattr(SIGSTORE, form)(DIGEST, STRANGER.certify())
    assert "leads to no trusted authority" in refusal(foreign)
    mail = SIGSTORE.fulcio.issue(uri(WORKFLOW), usages=(ExtendedKeyUsageOID.SERVER_AUTH,))
    assert "not allowed" in refusal(getattr(SIGSTORE, form)(DIGEST, mail))


@pytest.mark.parametrize("minutes", [-6, 6])
def test_the_log_s_time_must_be_within_the_certificate_s(minutes: int) -> None:
    late = SIGSTORE.sign(DIGEST, at=START + timedelta(minutes=minutes))
    assert "leads to no trusted authority" in refusal(late)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("verificationMaterial", "tlogEntries", 0, "integratedTime"), "1", "log is wrong"),
        (("verificationMaterial", "tlogEntries", 0, "logIndex"), "8", "log is wrong"),
        (("verificationMaterial", "tlogEntries", 0, "canonicalizedBody"), "e30=", "log is wrong"),
        (("verificationMaterial", "tlogEntries", 0, "logId", "keyId"), "AAAA", "is not trusted"),
        (("verificationMaterial", "tlogEntries", 0, "inclusionPromise"), None, "another form"),
        (("verificationMaterial", "tlogEntries"), [], "another form"),
        (("verificationMaterial", "certificate", "rawBytes"), "AAAA", "another form"),
    ],
)
@pytest.mark.parametrize("signed", [SIGSTORE.sign(DIGEST), SIGSTORE.attest(DIGEST)])
def test_a_changed_bundle_is_refused(
    signed: ArtifactSignature, path: tuple[str | int, ...], value: object, reason: str
) -> None:
    assert reason in refusal(changed(signed, *path, value=value))


def test_an_entry_of_another_signature_is_refused() -> None:
    """The log's promise is valid, but is about something else that the same identity signed."""
    first, second = SIGSTORE.sign(DIGEST), SIGSTORE.sign(OTHER)
    entries = orjson.loads(second.bundle)["verificationMaterial"]["tlogEntries"]
    mixed = changed(first, "verificationMaterial", "tlogEntries", value=entries)
    assert "is of another signature" in refusal(mixed)
    assert "is of another signature" in refusal(
        replace(second, payload=first.payload), content=DIGEST
    )


def test_other_statements_of_the_same_identity_are_no_signatures() -> None:
    for signature in (
        SIGSTORE.attest(DIGEST, predicate="https://slsa.dev/provenance/v1"),
        SIGSTORE.attest(DIGEST, payload_type="application/json"),
        replace(SIGSTORE.attest(DIGEST), bundle=b"{}"),
        replace(SIGSTORE.attest(DIGEST), bundle=b"[" * 65537),
    ):
        assert refusal(signature) != ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'keyless {WORKFLOW} issuer="{ISSUER}"', "needs the certificates of an authority"),
        (SIGSTORE.text(f"keyless {WORKFLOW}"), "needs issuer="),
        (SIGSTORE.text(f'keyless * issuer="{ISSUER}"'), "neither an e-mail address nor a URI"),
        (SIGSTORE.text(f'keyless {WORKFLOW} issuer="a b"'), "is not a pattern"),
        (SIGSTORE.text(f'keyless {WORKFLOW} issuer="a",sct="no"'), 'one value: sct="required"'),
        (SIGSTORE.text() + "x509 ada@example.org\n", "x509 lines need another set"),
    ],
)
def test_lines_that_are_not_understood_are_refused(text: str, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_signers("ci", text)
    assert reason in refused.value.message


def test_the_key_of_a_log_signs_no_artifact() -> None:
    """It stands in the set as a key of cosign would."""
    signed = SIGSTORE.sign(DIGEST)
    forged = SIGSTORE.rekor.sign(signed.payload, ec.ECDSA(hashes.SHA256()))
    assert refusal(ArtifactSignature(b"", signed.payload, forged)) != ""
