"""Measures an agent's verification of a bundle and its order, against OpenSSL's Ed25519."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.report import BenchReport
from core.spec.bundle import KubeObject, digest_of, make_bundle, open_bundle
from core.spec.statements import orders
from core.spec.statements.attestation import AttestationStatement, SignedSource, Signer, TrustedKeys
from core.spec.statements.in_toto import dsse_prefix
from core.spec.statements.orders import OrderSigner
from core.spec.statements.signing_keys import public_key
from core.wire.codec import attestation_from_message, attestation_to_message
from core.wire.orders import order_for_desired
from core.wire.v1 import agent_pb2 as pb

ROUNDS, CALLS = 21, 50
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER = "0197a000-0000-7000-8000-000000000001"


def objects() -> Iterator[KubeObject]:
    """A service of 20 objects, together about 64 KiB."""
    for number in range(20):
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"web-{number}", "namespace": "shop"},
            "data": {"text": "x" * 3200},
        }


def timed(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call: other load does not count."""
    began = time.process_time()
    for _ in range(CALLS):
        work()
    return (time.process_time() - began) * 1000 / CALLS


def main() -> None:
    key = Ed25519PrivateKey.generate()
    signer, trusted = Signer(key), TrustedKeys([], required=True)
    trusted.pin(public_key(signer.public_raw))
    bundle = make_bundle(objects())
    source = SignedSource("https://git.example.org/shop.git", "deploy/web", "c" * 40, "d" * 40)
    attested = signer.sign(AttestationStatement(bundle.digest, (source,) * 4, "helm"))
    spec = pb.ServiceSpec(
        name="web", digest=bundle.digest, attestation=attestation_to_message(attested)
    )
    message = pb.Desired(service_id="web", sequence=7, spec=spec)
    (order,) = OrderSigner(signer).sign([order_for_desired(CLUSTER, message)], NOW)
    message.order.CopyFrom(attestation_to_message(order))
    signature, verify = key.sign(bundle.data), key.public_key().verify

    def verify_order() -> None:
        given = attestation_from_message(message.order)
        orders.verify_order(trusted, given, order_for_desired(CLUSTER, message), NOW)

    def verify_bundle() -> None:
        verify_order()
        trusted.verify(bundle.digest, attestation_from_message(message.spec.attestation))
        open_bundle(bundle.digest, bundle.data)

    def openssl() -> None:
        verify(signature, bundle.data)

    def openssl_twice() -> None:
        verify(attested.signature, dsse_prefix(attested.statement) + attested.statement)
        verify(order.signature, b"towline order 1\n" + order.statement)
        digest_of(bundle.data)

    names = (verify_order, verify_bundle, openssl, openssl_twice)
    found: dict[str, list[float]] = {work.__name__: [] for work in names}
    for _ in range(ROUNDS):
        for work in names:
            found[work.__name__].append(timed(work))
    report = BenchReport("signing")
    size = f"{len(bundle.data) >> 10} KiB"
    report.add("order", found["verify_order"], "ms", goal=2.0)
    report.add(f"order, statement and bundle of {size}", found["verify_bundle"], "ms", goal=2.0)
    report.add(
        "the same",
        found["verify_bundle"],
        "ms",
        baseline="OpenSSL: both signatures and the digest",
        baseline_values=found["openssl_twice"],
        goal=5.0,
    )
    report.add(
        "the same",
        found["verify_bundle"],
        "ms",
        baseline=f"OpenSSL: one signature over {size}",
        baseline_values=found["openssl"],
        goal=5.0,
    )
    report.write()


if __name__ == "__main__":
    main()
