"""Sandbox of a worker: drops privileges before it reads untrusted input."""

import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_NEW_USER = 0x10000000
_NEW_NETWORK = 0x40000000
_SET_PDEATHSIG = 1
_SET_SECCOMP = 22
_SET_NO_NEW_PRIVS = 38
_SECCOMP_FILTER = 2

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_X32 = 0x40000000
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050001
_UNIX = 1
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SOCKET = {"x86_64": 41, "aarch64": 198}
# System calls that no renderer needs and that kernel exploits use.
_REFUSED = {
    # ptrace, mount, umount2, unshare, bpf, userfaultfd, keyctl, process_vm_readv, io_uring_setup
    "x86_64": (101, 165, 166, 272, 321, 323, 250, 310, 425),
    "aarch64": (117, 40, 39, 97, 280, 282, 219, 270, 425),
}
_MAX_PROCESSES = 256


def leave_network() -> bool:
    """Moves into a network namespace without interfaces; returns False if not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        return bool(libc.unshare(_NEW_NETWORK) == 0)
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        return False
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1")):
            _write_proc(name, text)
        _write_proc("gid_map", f"{gid} {gid} 1")
    except OSError:
        # Without a map, files belong to nobody but stay readable and writable.
        return True
    return True


def switch_user(uid: int) -> bool:
    """Switches from root to another user, if that user can read the program."""
    if os.geteuid() != 0 or not can_user_read(uid, os.getcwd()):
        return False
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    resource.setrlimit(resource.RLIMIT_NPROC, (_MAX_PROCESSES, _MAX_PROCESSES))
    return True


def filter_system_calls() -> bool:
    """Forbids non-local sockets, tracing and mounts with seccomp; returns False if unsupported.

    Also applies to the tools that this process starts.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    machine = platform.machine()
    if machine not in _ARCHITECTURES or libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    program = b"".join(_seccomp_program(machine))
    buffer = ctypes.create_string_buffer(program)
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    return bool(libc.prctl(_SET_SECCOMP, _SECCOMP_FILTER, head, 0, 0) == 0)


def limit_resources(memory: int, tool_memory: int, file_bytes: int) -> None:
    """Limits this process, in bytes; its tools may use up to `tool_memory`."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, tool_memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


def allow_cpu(seconds: float) -> None:
    """Limits the CPU time from now on; the kernel kills the process beyond it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime + seconds) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def raise_memory_limit() -> None:
    """Raises the memory limit to its maximum, before a tool starts or a runtime loads."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def limit_memory_from_here(memory: int) -> None:
    """Limits address space to the current size plus `memory` bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (min(soft, hard), hard))


def _seccomp_program(machine: str) -> Iterable[bytes]:
    """The BPF program: system calls by number, `socket` also by its family."""
    refused = _REFUSED[machine]
    yield _instruction(_LOAD, 4)
    yield _instruction(_EQUAL, _ARCHITECTURES[machine], yes=1)
    yield _instruction(_RETURN, _KILL)
    yield _instruction(_LOAD, 0)
    # The x32 ABI has other numbers for the same calls: refuse all of them.
    tests = [(_AT_LEAST, _X32), *((_EQUAL, number) for number in refused)]
    for remaining, (code, number) in zip(range(len(tests), 0, -1), tests, strict=True):
        yield _instruction(code, number, yes=remaining + 2)
    yield _instruction(_EQUAL, _SOCKET[machine], no=3)
    yield _instruction(_LOAD, 16)
    yield _instruction(_EQUAL, _UNIX, yes=1)
    yield _instruction(_RETURN, _REFUSE)
    yield _instruction(_RETURN, _ALLOW)


def _instruction(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def can_user_read(uid: int, *others: str) -> bool:
    """True if a user without groups can read Python, its libraries and this program."""
    folders = {sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), *others}
    for start in folders:
        for folder in (Path(start), *Path(start).parents):
            status = folder.stat()
            is_owner = status.st_uid == uid and status.st_mode & 0o500 == 0o500
            if not is_owner and status.st_mode & 0o005 != 0o005:
                return False
    return True


def _write_proc(name: str, text: str) -> None:
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
