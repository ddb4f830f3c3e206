"""What the process of an adaptor may not do. Runs in that process, before the adaptor's source; standard library only.

Each restriction that the system has not is left out; :func:`restrict` says which ones hold.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct

_NOBODY = 65534
_MOST_FILES = 64
_PDEATHSIG, _NO_NEW_PRIVS, _SECCOMP, _FILTER = 1, 38, 22, 2
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_THREAD = 0x10000
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_X86 = {
    "arch": (0xC000003E,),
    "clone": (56,),
    "open": (2,),
    "openat": (257,),
    "absent": (425, 435, 437),
    "processes": (57, 58, 59, 62, 101, 200, 272, 308, 310, 311, 322, 434, 438),
    "network": (41, 42, 43, 44, 46, 49, 50, 53, 288, 307),
    "files": (
        *(76, 77, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94, 132, 133, 165, 188, 189, 190, 235, 258, 259, 260),
        *(261, 263, 264, 265, 266, 268, 280, 316),
    ),
    "kernel": (248, 250, 298, 321),
}
_ARM = {
    "arch": (0xC00000B7,),
    "clone": (220,),
    "open": (),
    "openat": (56,),
    "absent": (425, 435, 437),
    "processes": (117, 129, 130, 97, 221, 268, 270, 271, 281, 434, 438),
    "network": (198, 199, 200, 201, 202, 203, 206, 211, 242, 269),
    "files": (5, 6, 7, 33, 34, 35, 36, 37, 38, 40, 45, 46, 52, 53, 54, 55, 88, 276),
    "kernel": (217, 219, 241, 280),
}
_MACHINES = {"x86_64": _X86, "aarch64": _ARM}
"""Numbers of system calls: those that are refused, and those whose arguments are looked at."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOWED, _REFUSED = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def restrict(memory_bytes: int) -> list[str]:
    """Give up what decoding does not need.

    Returns
    -------
    list of str
        What holds: ``memory``, ``user`` (it runs as another, unprivileged user), ``network``, ``processes`` (it can
        start none) and ``files`` (it can write and change none).
    """
    held = ["memory"]
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES, _MOST_FILES))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    root = os.geteuid() == 0
    offline = libc.unshare(_NEW_NET if root else _NEW_USER | _NEW_NET) == 0
    if root and _become_nobody():
        held.append("user")
        libc.prctl(_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # a change of the user takes it back
    filtered = libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and _filter(libc)
    if offline or filtered:
        held.append("network")
    return [*held, "processes", "files"] if filtered else held


def limit_time(seconds: int) -> None:
    """End this process when it has computed for so many seconds from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _become_nobody() -> bool:
    """Become the user without any rights, unless it could not read Python's own modules."""
    try:
        os.seteuid(_NOBODY)
        readable = os.access(os.__file__, os.R_OK, effective_ids=True)
        os.seteuid(0)
        if not readable:
            return False
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    except OSError:
        return False
    return True


def _filter(libc: ctypes.CDLL) -> bool:
    """Have the system refuse calls with seccomp; False where it cannot."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    code = _instructions(machine)
    held = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(held, ctypes.c_void_p))
    return bool(libc.prctl(_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0)


def _instructions(machine: dict[str, tuple[int, ...]]) -> bytes:
    """A filter in the machine code of BPF: ``(operation, jump if true, jump if false, operand)``."""
    refuse = (_RETURN, 0, 0, _REFUSED | errno.EPERM)
    absent = (_RETURN, 0, 0, _REFUSED | errno.ENOSYS)
    number = (_LOAD, 0, 0, 0)
    found = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, machine["arch"][0]),
        refuse,
        number,
        (_AT_LEAST, 0, 1, 0x40000000),
        refuse,
    ]
    for call in machine["absent"]:
        found += [(_EQUAL, 0, 1, call), absent]
    for group in ("processes", "network", "files", "kernel"):
        for call in machine[group]:
            found += [(_EQUAL, 0, 1, call), refuse]
    for name, argument in (("open", 1), ("openat", 2)):
        for call in machine[name]:  # refused where the flags are for writing
            found += [
                (_EQUAL, 0, 4, call),
                (_LOAD, 0, 0, 16 + 8 * argument),
                (_ANY_BIT, 0, 1, _WRITING),
                refuse,
                number,
            ]
    for call in machine["clone"]:  # a thread is none of the process's children
        found += [(_EQUAL, 0, 4, call), (_LOAD, 0, 0, 16), (_ANY_BIT, 1, 0, _THREAD), refuse, number]
    found.append((_RETURN, 0, 0, _ALLOWED))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in found)
