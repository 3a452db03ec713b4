"""Measures the verification of users' ID tokens at the agent: `python -m bench.identity_proof`.

The baseline is the guard's check of the same request, without proofs.
"""

import asyncio
import time
from collections.abc import Callable

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from bench.report import BenchReport
from core.id_tokens import parse_keys
from core.json_object import JsonObject
from core.mux.codec import Open, add_proof
from core.runtime.clock import SystemClock
from syncagent.tunnel.guard import Guard, ImpersonationPolicy
from syncagent.tunnel.id_token_proofs import IdentityProofs, PinnedKeys, ProofRules
from syncagent.tunnel.proof import RequestIdentity

ISSUER = "https://id.example.org"
REQUESTS, RUNS, FIRST_TOKENS = 20_000, 7, 300
CLAIMED = b"Impersonate-User: ada@example.org\r\nImpersonate-Group: towline:editors\r\n"
HEAD = (
    b"GET /api/v1/namespaces/shop/pods?limit=500 HTTP/1.1\r\nAccept: application/json\r\n"
    b"User-Agent: kubectl/v1.36\r\nAccept-Encoding: gzip\r\nAudit-ID: 1f2e\r\n\r\n"
)


def main() -> None:
    """Runs the measurements, prints and saves them."""
    report = BenchReport("identity_proof")
    asyncio.run(_measure(report))
    report.write()


async def _measure(report: BenchReport) -> None:
    ec_key = ec.generate_private_key(ec.SECP256R1())
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for name, key in (("ES256", ec_key), ("RS256", rsa_key)):
        await _measure_algorithm(report, name, key)


async def _measure_algorithm(
    report: BenchReport, name: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
) -> None:
    algorithm = jwt.get_algorithm_by_name(name)
    public: JsonObject = algorithm.to_jwk(key.public_key(), as_dict=True)
    clock = SystemClock()
    keys = PinnedKeys(ISSUER, parse_keys({"keys": [{**public, "kid": "k1", "alg": name}]}))
    proofs = IdentityProofs(ProofRules(ISSUER, ("eu-1",)), keys, clock)
    now = int(clock.now().timestamp())
    body = {
        "iss": ISSUER,
        "aud": "eu-1",
        "sub": "u1",
        "iat": now,
        "exp": now + 3600,
        "email": "ada@example.org",
        "groups": [f"team-{number}" for number in range(20)],
    }
    tokens = [
        jwt.encode({**body, "jti": str(number)}, key, name, {"kid": "k1"}).encode()
        for number in range(FIRST_TOKENS)
    ]
    started = time.perf_counter()
    for token in tokens:
        await proofs.verify(token)
    first = (time.perf_counter() - started) / FIRST_TOKENS
    guard = Guard(ImpersonationPolicy())
    trusting, proving = RequestIdentity(guard, None), RequestIdentity(guard, proofs)
    block = add_proof(CLAIMED, tokens[0])
    report.add(
        f"{name}: cached proof, per request",
        [_microseconds(lambda: proving.admit(_request(block))) for _ in range(RUNS)],
        "µs",
        goal=50.0,
    )
    report.add(
        f"{name}: without proof, per request",
        [_microseconds(lambda: trusting.admit(_request(CLAIMED))) for _ in range(RUNS)],
        "µs",
    )
    report.add(f"{name}: first use of a token", [first * 1e6], "µs")


def _request(identity: bytes) -> Open:
    return Open(HEAD, identity, b"r" * 16)


def _microseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    for _ in range(REQUESTS):
        work()
    return (time.perf_counter() - started) / REQUESTS * 1e6


if __name__ == "__main__":
    main()
