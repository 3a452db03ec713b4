"""What a worker gives up before it reads the first byte of foreign input."""

import ctypes
import os
import resource

_NEW_USER = 0x10000000
_NEW_NETWORK = 0x40000000


def leave_network() -> bool:
    """Move into a network namespace without any interface; False where that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        return bool(libc.unshare(_NEW_NETWORK) == 0)
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1")):
            _write_proc(name, text)
        _write_proc("gid_map", f"{gid} {gid} 1")
    except OSError:
        # Without a map files belong to nobody; they can still be read and written.
        return True
    return True


def limit_resources(memory: int, tool_memory: int, file_bytes: int) -> None:
    """Bound this process, in bytes; the tools it starts may rise to `tool_memory`."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, tool_memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


def allow_cpu(seconds: float) -> None:
    """From now on this process may use so many seconds of CPU; the kernel ends it beyond."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime + seconds) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def raise_memory_limit() -> None:
    """In a tool's process, before it starts: take the larger limit of memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _write_proc(name: str, text: str) -> None:
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
