"""The module `zstd` (RFC 8878) of the standard library, or its backport."""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd
