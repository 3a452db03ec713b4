"""Implements the port `Registries`: tags, digests and build times of images."""

from collections import OrderedDict
from datetime import UTC, datetime

import orjson

from core.errors import Unavailable
from core.outbound.credentials import RegistryAccount
from core.outbound.oci import OciRegistryClient, descriptor_digest
from core.spec.images import OciRepository, parse_image

MAX_CACHED = 10_000
"""Maximum number of build times that are kept."""


class ImageRegistries:
    """Reads registries through `client`. Caches build times, which never change."""

    def __init__(self, client: OciRegistryClient) -> None:
        self._client = client
        self._build_times: OrderedDict[tuple[OciRepository, str], datetime] = OrderedDict()

    async def tags(self, image: str, account: RegistryAccount | None) -> list[str]:
        return await self._client.tags(parse_image(image), account)

    async def digest(self, image: str, tag: str, account: RegistryAccount | None) -> str:
        return await self._client.digest(parse_image(image), tag, account)

    async def build_time(self, image: str, tag: str, account: RegistryAccount | None) -> datetime:
        repository = parse_image(image)
        digest = await self._client.digest(repository, tag, account)
        # Per repository: a registry is not trusted about another registry's images.
        key = (repository, digest)
        if key not in self._build_times:
            self._build_times[key] = await self._read_build_time(repository, digest, account)
            if len(self._build_times) > MAX_CACHED:
                self._build_times.popitem(last=False)
        return self._build_times[key]

    async def _read_build_time(
        self, repository: OciRepository, digest: str, account: RegistryAccount | None
    ) -> datetime:
        """Returns the build time from the image's config; of an index, that of its first image."""
        manifest = await self._client.manifest(repository, digest, account)
        images = manifest.get("manifests")
        if isinstance(images, list):
            first = descriptor_digest(repository, images[0] if images else None)
            manifest = await self._client.manifest(repository, first, account)
        config = descriptor_digest(repository, manifest.get("config"))
        content = await self._client.blob(repository, config, account)
        try:
            build_time = datetime.fromisoformat(str(orjson.loads(content)["created"]))
        except (KeyError, TypeError, ValueError):
            raise Unavailable(
                f"{repository.registry} sent no build time of {repository.name}"
            ) from None
        return build_time if build_time.tzinfo else build_time.replace(tzinfo=UTC)
