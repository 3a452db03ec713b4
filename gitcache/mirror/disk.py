"""Disk usage of the git cache."""

import asyncio
import shutil
from pathlib import Path

from core.errors import Unavailable


class Disk:
    """The disk of `root`; above `watermark` (0 to 1) no new repository is cloned."""

    def __init__(self, root: Path, *, watermark: float) -> None:
        self._root = root
        self._watermark = watermark

    async def is_full(self) -> bool:
        """True if disk usage has reached the watermark."""
        return await asyncio.to_thread(self.used_share) >= self._watermark

    async def check_space(self) -> None:
        """Raises Unavailable above the watermark; existing repositories stay followed."""
        if await self.is_full():
            raise Unavailable(
                f"the disk of the git cache is more than {self._watermark:.0%} full: cannot clone "
                "another repository; add disk space or raise git.store.watermark"
            )

    def used_share(self) -> float:
        """Returns the used share of the disk, 0 to 1."""
        usage = shutil.disk_usage(self._root)
        return 1 - usage.free / (usage.used + usage.free or 1)
