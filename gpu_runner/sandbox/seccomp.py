"""The system calls that a rank may make: an allow-list on the lines of Docker's default profile, tightened.

What is not listed fails with EPERM; ``clone3`` fails with ENOSYS, because its flags lie behind a pointer where a filter
cannot see them, and libc then falls back to ``clone``. Left out with intent: mounts, namespaces, ptrace and
``process_vm_*``, bpf, keyrings, userfaultfd, io_uring, perf, modules, kexec, clocks, handles to files by number.
"""

from __future__ import annotations

import errno
import os
import socket

_ALLOWED = """
accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chmod chown clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64
fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr
fsetxattr fstat fstatfs fsync ftruncate futex futex_wait futex_waitv futex_wake futimesat get_robust_list
get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp
getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid
gettimeofday getuid getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch ioctl ioprio_get ioprio_set kill lchown
lgetxattr link linkat listen listxattr llistxattr lremovexattr lseek lsetxattr lstat madvise membarrier memfd_create
mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open mq_timedreceive
mq_timedsend mq_unlink mremap msgctl msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat open
openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv
preadv2 prlimit64 pselect6 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg
remap_file_pages removexattr rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending
rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield select semctl semget semop semtimedop
sendfile sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setitimer setpgid setpriority
setrlimit setsid setsockopt setxattr shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socketpair splice
stat statfs statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete
timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask
uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4 waitid write writev
""".split()

#: NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET: a thread or a plain child carries none of them.
_CLONE_NAMESPACES = 0x7E020000
_SOCKET_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
#: Of netlink only what lets gloo list the network interfaces. All other families, AF_VSOCK and AF_ALG among them, are refused.
_NETLINK_ROUTE = 0
#: Linux, and Linux without address randomisation.
_PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)


def build_filter() -> bytes:
    """The filter as classic BPF, ready for ``PR_SET_SECCOMP``. Needs libseccomp, so it is built once, by the warm parent."""
    # Imported here: only the sandbox's environment has it, and the host may import this module's neighbours.
    import pyseccomp  # type: ignore[import-not-found]

    rules = pyseccomp.SyscallFilter(defaction=pyseccomp.ERRNO(errno.EPERM))
    # A binary tree instead of a chain of comparisons: every system call of the candidate's passes through it.
    rules.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)
    known = [name for name in _ALLOWED if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) >= 0]
    for name in known:
        rules.add_rule(pyseccomp.ALLOW, name)
    rules.add_rule(pyseccomp.ALLOW, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, _CLONE_NAMESPACES, 0))
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    for family in _SOCKET_FAMILIES:
        rules.add_rule(pyseccomp.ALLOW, "socket", pyseccomp.Arg(0, pyseccomp.EQ, int(family)))
    netlink = (pyseccomp.Arg(0, pyseccomp.EQ, int(socket.AF_NETLINK)), pyseccomp.Arg(2, pyseccomp.EQ, _NETLINK_ROUTE))
    rules.add_rule(pyseccomp.ALLOW, "socket", *netlink)
    for persona in _PERSONALITIES:
        rules.add_rule(pyseccomp.ALLOW, "personality", pyseccomp.Arg(0, pyseccomp.EQ, persona))
    with os.fdopen(os.memfd_create("seccomp"), "w+b") as memory:
        rules.export_bpf(memory)
        memory.seek(0)
        return memory.read()
