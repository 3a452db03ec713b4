"""How full the disk of the git cache may become."""

import asyncio
import shutil
from pathlib import Path

from fleet.errors import Unavailable


class Disk:
    """The disk that `root` is on; beyond `watermark` (a share of 1) nothing new is taken on."""

    def __init__(self, root: Path, *, watermark: float) -> None:
        self._root = root
        self._watermark = watermark

    async def is_full(self) -> bool:
        """Whether the watermark is reached."""
        return await asyncio.to_thread(self.used) >= self._watermark

    async def check_room(self) -> None:
        """Unavailable: too full for another repository. Those that are here go on."""
        if await self.is_full():
            raise Unavailable(
                f"the disk of the git cache is more than {self._watermark:.0%} full: no further "
                "repository is cloned. Give it more space"
            )

    def used(self) -> float:
        """The share of the disk that is used."""
        found = shutil.disk_usage(self._root)
        return 1 - found.free / (found.used + found.free or 1)
