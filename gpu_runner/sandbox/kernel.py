"""The few system calls that Python does not offer, with errors raised as ``OSError``."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000
_MNT_DETACH = 0x2

_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2

_SIOCSIFFLAGS = 0x8914
_IFF_UP_RUNNING = 0x1 | 0x40

_MADV_COLLAPSE = 25
_HUGE_PAGE_BYTES = 2 << 20

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.unshare.argtypes = (ctypes.c_int,)
_libc.setns.argtypes = (ctypes.c_int, ctypes.c_int)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


class _BpfProgram(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int = 0, options: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, options)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], flags, encoded[3]), f"mount {target}")


def unmount(target: str) -> None:
    """Takes a mount away from the tree at once, even if something in it is still open."""
    _check(_libc.umount2(target.encode(), _MNT_DETACH), f"umount {target}")


def bring_loopback_up() -> None:
    """Without it gloo hangs and says nothing."""
    with socket.socket() as sock:
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))


def drop_bounding_capabilities() -> None:
    """No program that this process or its children ever execute can hold a capability."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            if ctypes.get_errno() == errno.EINVAL:  # one past the last capability that this kernel knows
                break
            _check(-1, f"drop capability {capability}")
    _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clear ambient capabilities")


def become(uid: int, gid: int) -> None:
    """Gives up root for good. The capabilities go with it."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    # The kernel hides /proc/self of a process that changed its uid, and libraries read their own maps there.
    _check(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "set dumpable")


def forbid_new_privileges() -> None:
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def load_seccomp(bpf: bytes) -> None:
    """Holds this thread and all that come of it to the filter. Wants ``forbid_new_privileges`` first."""
    program = _BpfProgram(len(bpf) // 8, bpf)
    _check(
        _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0), "load the seccomp filter"
    )


def collapse_private_memory() -> int:
    """Puts this process's private memory into huge pages, as far as the kernel can (Linux 6.1). Returns how many it made.

    A fork copies one entry for a huge page in place of 512, and an exit drops one. That halves the time of a run. A child
    that writes to such a page splits it and copies 4 KiB, as before.
    """
    made = 0
    with open("/proc/self/maps") as maps:
        regions = [line.split() for line in maps]
    for bounds, permissions, _, _, inode, *_ in regions:
        if not permissions.startswith("rw-p") or inode != "0":
            continue
        start, end = (int(bound, 16) for bound in bounds.split("-"))
        first = -(-start // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
        for address in range(first, end - _HUGE_PAGE_BYTES + 1, _HUGE_PAGE_BYTES):
            # Refused for a page that is mostly empty, for the stack, and by kernels without it: no loss but of speed.
            made += _libc.madvise(address, _HUGE_PAGE_BYTES, _MADV_COLLAPSE) == 0
    return made
