"""Sources that need a signature: the render tier refuses others, and so does an agent by itself."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import Invalid
from core.runtime.clock import SystemClock
from core.spec.bundle import Attestation
from core.spec.desired import BundleSpec, Desired
from core.spec.fences import ServiceFence
from core.spec.image_signatures import SignatureRules
from core.spec.source import RenderRequest
from core.spec.source_signatures import (
    Evidence,
    SignatureRule,
    SignerSet,
    check_signatures,
    decode_evidence,
)
from core.spec.statements.attestation import AttestationStatement, decode_statement
from gitcache.sync.cache import GitCache
from syncagent.autonomy.tenants import parse_tenants
from syncagent.domain.tenants import TenantPolicy
from tests.integration.gitcache import signing
from tests.integration.gitcache.signing import SignedRepository
from tests.integration.gitcache.stand import REPOSITORY, at_commit, spec
from towline.demo.git_server import GitServer, ServedRepository

NOW = SystemClock().now()
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n"


class Shop:
    """A followed repository with commits of Ada, whose key is trusted, and of others."""

    def __init__(self, folder: Path, served: ServedRepository) -> None:
        self.ada = signing.ssh_key(folder, "ada", "ed25519")
        self.eve = signing.ssh_key(folder, "eve", "ed25519")
        self.line = "ada@example.org " + Path(f"{self.ada}.pub").read_text()
        self.work: SignedRepository = signing.ssh_repository(folder / "r", self.ada, self.line)
        self.served = served

    @property
    def rules(self) -> tuple[SignatureRule, ...]:
        """The rule of a fence: signed by Ada."""
        return (SignatureRule(self.served.url, signed_by=(SignerSet("shop-keys", self.line),)),)

    @property
    def tenants(self) -> TenantPolicy:
        """The agent's own rules: signed by Ada."""
        text = f"""
shop:
  serviceAccount: shop-deployer
  namespaces: [shop]
  signers: {{shop-keys: {self.line.strip()!r}}}
  sources: [{{url: {self.served.url!r}, signedBy: [shop-keys]}}]
"""
        return parse_tenants(text.encode())

    def commit(self, *options: str, content: str = MAP) -> str:
        """Makes and pushes a commit."""
        id = self.work.commit(*options, content=content)
        self.work.git("push", "-q", "-f", str(self.served.path), "main")
        return id

    async def render(
        self, cache: GitCache, id: str, rules: Sequence[SignatureRule] = ()
    ) -> Attestation:
        """Renders a commit; returns the attestation."""
        cache.follow(spec(self.served.url))
        await at_commit(cache, id)
        request = RenderRequest(REPOSITORY, id, "app", signatures=SignatureRules(tuple(rules)))
        attestation = (await cache.render(request)).attestation
        assert attestation is not None
        return attestation

    def refusal(self, attestation: Attestation) -> str:
        """The reason of the agent; empty: it accepts."""
        statement = decode_statement(attestation.statement)
        bundle = BundleSpec("web", "shop", statement.digest, 1, attestation=attestation)
        desired = Desired("s", 1, bundle, fence=ServiceFence("shop"))
        try:
            self.tenants.check_signatures(desired, statement, NOW)
        except Invalid as error:
            return error.message
        return ""


@pytest.fixture
def shop(tmp_path: Path, git_server: GitServer) -> Shop:
    return Shop(tmp_path, git_server.create_repository("shop"))


async def test_only_commits_of_the_fence_s_signers_are_rendered(
    cache: GitCache, shop: Shop
) -> None:
    signed = shop.commit("-S")
    assert shop.refusal(await shop.render(cache, signed, shop.rules)) == ""
    for options, found in (
        ("--no-gpg-sign", "it is not signed"),
        (f"-S{shop.eve}.pub", "SSH key SHA256:"),
    ):
        id = shop.commit(options, content=f"{MAP}data: {{by: {found!r}}}\n")
        with pytest.raises(Invalid, match=f"commit {id[:12]}") as refused:
            await shop.render(cache, id, shop.rules)
        assert found in refused.value.message
        assert "shop-keys (ada@example.org SHA256:" in refused.value.message


async def test_the_agent_checks_the_signature_itself(cache: GitCache, shop: Shop) -> None:
    """The render tier does not ask for a signature here: as if its control plane were stolen."""
    unsigned = await shop.render(cache, shop.commit("--no-gpg-sign"))
    assert "is not signed" in shop.refusal(unsigned)
    foreign = await shop.render(cache, shop.commit(f"-S{shop.eve}.pub", content=MAP + "data: {}\n"))
    assert "the signer is not allowed: SSH key SHA256:" in shop.refusal(foreign)
    good = await shop.render(cache, shop.commit("-S", content=MAP + "data: {a: b}\n"))
    assert shop.refusal(good) == ""
    assert "is not signed, or came without" in shop.refusal(replace(good, evidence=b""))
    assert "is not signed, or came without" in shop.refusal(
        replace(foreign, evidence=good.evidence)
    )
    assert "unknown form" in shop.refusal(replace(good, evidence=b"[]"))


async def test_a_changed_commit_object_is_no_evidence(cache: GitCache, shop: Shop) -> None:
    good = await shop.render(cache, shop.commit("-S"))
    ((id, data),) = [
        (id, data) for id, data in decode_evidence(good.evidence).commits.items() if len(id) == 40
    ]
    other_tree = data.replace(data[5:45], b"0" * 40)
    forged = Evidence({id: other_tree}).encode()
    assert "came without" in shop.refusal(replace(good, evidence=forged))
    statement = decode_statement(good.statement)
    with pytest.raises(Invalid, match="is not the commit"):
        check_signatures(shop.rules, statement.sources, Evidence({id: other_tree}), NOW)


def test_sources_that_no_rule_covers_are_refused(shop: Shop) -> None:
    statement = AttestationStatement("sha256:0", ())
    desired = Desired("s", 1, BundleSpec("web", "shop", "sha256:0", 1), fence=ServiceFence("shop"))
    with pytest.raises(Invalid, match="has no source"):
        shop.tenants.check_signatures(desired, statement, NOW)
    others = replace(desired, fence=ServiceFence("other"))
    shop.tenants.check_signatures(others, statement, NOW)
