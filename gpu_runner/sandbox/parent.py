"""The first process of a slot's container: loads torch once, then forks a supervisor whenever the host asks for one.

It has one thread, no CUDA context and no secret, and it never sees a submission: the host speaks with each supervisor
over a channel of its own. It ends when the host's end of its channel closes, and everything in the container with it.
"""

from __future__ import annotations

import os
import selectors
import sys
from contextlib import suppress
from typing import NoReturn

from gpu_runner.sandbox import isolation, kernel, preload
from gpu_runner.sandbox.channel import Channel, ChannelClosed
from gpu_runner.sandbox.seccomp import build_filter
from gpu_runner.sandbox.supervisor import ChildWatch, supervise

#: The descriptor that the OCI runtime hands on.
CONTROL_FD = 3

_DEVICES = ("null", "zero", "full", "urandom", "random", "shm", "fd", "stdin", "stdout", "stderr")


def main() -> NoReturn:
    """Warms up, says so, and serves until the host goes away."""
    channel = Channel.adopt(CONTROL_FD)
    try:
        _strip_devices()
        versions = preload.load()
        preload.forget_own_code(isolation.CODE_DIR)
        seccomp = build_filter()
        kernel.collapse_private_memory()
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            raise RuntimeError(f"the warm parent has {threads} threads, so forking it is not safe")
        channel.send({"op": "warm", "versions": versions})
        _serve(channel, seccomp)
    except ChannelClosed:
        os._exit(0)


def _serve(channel: Channel, seccomp: bytes) -> NoReturn:
    namespaces = isolation.PidNamespaces()
    watch = ChildWatch()
    with selectors.DefaultSelector() as selector:
        selector.register(watch, selectors.EVENT_READ)
        selector.register(channel, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if watch in ready:
                watch.reap()
            if channel in ready:
                channel.receive()
                _fork_supervisor(channel, namespaces, seccomp)


def _fork_supervisor(channel: Channel, namespaces: isolation.PidNamespaces, seccomp: bytes) -> None:
    """Answers with the supervisor's channel and a pidfd, by which the host can kill the run and see it gone."""
    theirs, ours = Channel.pair()
    try:
        pid = namespaces.fork()
    except OSError as error:
        ours.close()
        theirs.close()
        channel.send({"op": "failed", "reason": str(error)})
        return
    if pid == 0:
        channel.close()
        theirs.close()
        supervise(ours, seccomp)
    ours.close()
    pidfd = os.pidfd_open(pid)
    channel.send({"op": "forked"}, [theirs.fileno(), pidfd])
    theirs.close()
    os.close(pidfd)


def _strip_devices() -> None:
    """The runtime always makes a terminal multiplexer and the like; a run has no use for them."""
    for name in sorted(os.listdir("/dev")):
        if name not in _DEVICES:
            path = f"/dev/{name}"
            with suppress(OSError):  # not every one of them is a mount
                kernel.unmount(path)
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID
    kernel.mount(None, "/dev", None, flags)


if __name__ == "__main__":
    sys.exit("started by the OCI runtime alone")
