"""Downloads artifacts of one repository in a registry, within limits."""

from core.errors import Invalid, NotFound
from core.outbound.credentials import RegistryAccount
from core.outbound.oci import OciRegistryClient
from core.remotes import parse_chart_remote
from core.spec.images import OciRepository, is_repository_name
from gitcache.charts.source import newest
from gitcache.domain.artifacts import ArtifactContent, ArtifactManifest, parse_manifest


class ArtifactRegistry:
    """The repository at an `oci://` URL. `account` None: anonymous."""

    def __init__(
        self, client: OciRegistryClient, url: str, account: RegistryAccount | None
    ) -> None:
        path = parse_chart_remote(url).path
        if not url.startswith("oci://") or not is_repository_name(path):
            raise Invalid(
                f"{url[:200]!r} is not the URL of a repository in a registry, such as "
                "oci://registry.example.org/team/shop",
                field="url",
            )
        host = url.removeprefix("oci://").partition("/")[0]
        self.repository = OciRepository(host.lower(), path)
        self._client = client
        self._account = account

    async def check(self) -> None:
        """Lists the tags. Raises Invalid for a repository without artifacts, Unavailable."""
        try:
            await self._client.tags(self.repository, self._account)
        except NotFound:
            raise Invalid(
                f"{self.repository.registry} has no repository {self.repository.name}: check the "
                "URL, or push an artifact first"
            ) from None

    async def digest_of_tag(self, tag: str) -> str | None:
        """Returns the digest of a tag, None if there is none. Raises Unavailable."""
        try:
            return await self._client.digest(self.repository, tag, self._account)
        except NotFound:
            return None

    async def digest_of_newest(self, versions: str) -> str | None:
        """Returns the digest of the newest version in a range, None if there is none.

        Raises Invalid for a malformed range, Unavailable.
        """
        try:
            tags = await self._client.tags(self.repository, self._account)
        except NotFound:
            return None
        tag_by_version = {tag.replace("_", "+"): tag for tag in tags}
        version = newest(list(tag_by_version), versions)
        return None if version is None else await self.digest_of_tag(tag_by_version[version])

    async def manifest(self, digest: str) -> ArtifactManifest:
        """Returns the manifest with a digest. Raises Invalid, NotFound, Unavailable."""
        data = await self._client.manifest_bytes(self.repository, digest, self._account)
        return parse_manifest(data)

    async def layers(self, manifest: ArtifactManifest, max_bytes: int) -> list[ArtifactContent]:
        """Downloads all layers. Raises Invalid beyond the limit, NotFound, Unavailable."""
        size = sum(layer.size for layer in manifest.layers)
        if size > max_bytes:
            raise Invalid(f"the artifact has {size:,} bytes; the limit is {max_bytes:,}")
        return [
            (
                layer,
                await self._client.blob(
                    self.repository, layer.digest, self._account, max(layer.size, 1)
                ),
            )
            for layer in manifest.layers
        ]
