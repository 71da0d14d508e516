"""What a program cannot see, reach or keep."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gpu_runner.sandbox import preload
from gpu_runner.slots import SlotPool
from tests.gpu_runner.conftest import PROJECT
from tests.gpu_runner.runs import program, run

pytestmark = pytest.mark.container


def said(pool: SlotPool, source: str) -> str:
    ran = run(pool, program(source))
    assert ran.result.ranks[0].exit_code == 0, ran.result.ranks[0].stderr_tail
    return ran.text()


def test_the_environment_has_nothing_of_the_host(pool: SlotPool) -> None:
    ours = set(preload.ENVIRONMENT)
    torchruns = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"}
    seen = said(pool, "import os\nprint(*os.environ)")
    assert set(seen.split()) == ours | torchruns
    at_exec = said(pool, "print(*(pair.split('=')[0] for pair in open('/proc/self/environ').read().split(chr(0))))")
    assert set(at_exec.split()) == ours


def test_no_other_process_is_visible(pool: SlotPool) -> None:
    source = (
        "import os\npids = [int(name) for name in os.listdir('/proc') if name.isdigit()]\n"
        "print(pids == [os.getpid()], os.path.exists('/proc/1'), os.path.exists('/proc/1/environ'))"
    )
    assert said(pool, source) == "True False False\n"


def test_the_process_has_no_privileges(pool: SlotPool) -> None:
    source = (
        "import os\nlines = open('/proc/self/status').read().splitlines()\n"
        "fields = dict(line.split(':\\t', 1) for line in lines if ':\\t' in line)\n"
        "print(os.getresuid(), os.getresgid(), os.getgroups())\n"
        "print({fields[name].strip() for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')})\n"
        "print(fields['NoNewPrivs'], fields['Seccomp'])\nprint(open('/proc/self/oom_score_adj').read(), end='')"
    )
    assert said(pool, source) == "(1000, 1000, 1000) (1000, 1000, 1000) []\n{'0000000000000000'}\n1 2\n1000\n"


def test_nothing_but_the_private_folders_can_be_written(pool: SlotPool) -> None:
    source = """
import os
for path in ('/x', '/etc/hosts', '/usr/x', '/venv/x', '/dev/x', '/proc/sys/kernel/core_pattern', '/proc/self/oom_score_adj'):
    try:
        open(path, 'w').write('0')
        print('written', path)
    except OSError:
        pass
for path in ('/tmp', '/box', '/dev/shm'):
    open(path + '/x', 'w').write('0')
for path in ('/sys/fs/cgroup', '/proc/sysrq-trigger', '/run', '/var', '/home', '/etc/shadow'):
    print('there', path) if os.path.exists(path) else None
print(sorted(os.listdir('/dev')))
"""
    assert said(pool, source) == (
        "['fd', 'full', 'null', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'urandom', 'zero']\n"
    )


def test_the_projects_source_and_state_are_not_there(pool: SlotPool) -> None:
    source = f"""
import os
print(os.path.exists({str(PROJECT)!r}), os.listdir('/opt/rendezvous'))
import importlib.util
print(importlib.util.find_spec('django'))
"""
    assert said(pool, source) == "False []\nNone\n"


def test_dangerous_system_calls_are_refused(pool: SlotPool) -> None:
    calls = {
        "mount": 165, "umount2": 166, "unshare": 272, "setns": 308, "ptrace": 101, "process_vm_readv": 310,
        "process_vm_writev": 311, "bpf": 321, "keyctl": 250, "add_key": 248, "request_key": 249, "userfaultfd": 323,
        "io_uring_setup": 425, "perf_event_open": 298, "kexec_load": 246, "init_module": 175, "chroot": 161,
        "pivot_root": 155, "open_by_handle_at": 304, "name_to_handle_at": 303, "clone3": 435,
        "clone_newuser": 56, "settimeofday": 164, "acct": 163, "swapon": 167, "reboot": 169, "quotactl": 179,
    }  # fmt: skip
    source = f"""
import ctypes, errno, platform
assert platform.machine() == 'x86_64'
libc = ctypes.CDLL(None, use_errno=True)
for name, number in {calls!r}.items():
    result = libc.syscall(number, 0x10000000 if name == 'clone_newuser' else 0, 0, 0, 0, 0, 0)
    if result != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        print(name, result, ctypes.get_errno())
"""
    assert said(pool, source) == ""


def test_odd_socket_families_are_refused(pool: SlotPool) -> None:
    source = """
import socket
for family in (socket.AF_VSOCK, socket.AF_PACKET, socket.AF_ALG, 31):
    try:
        socket.socket(family, socket.SOCK_RAW)
        print('opened', family)
    except PermissionError:
        pass
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    print('opened netfilter')
except PermissionError:
    pass
"""
    assert said(pool, source) == ""


def test_no_network_and_a_name_look_up_fails_at_once(pool: SlotPool) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        own = socket.gethostbyname(socket.gethostname())
        source = f"""
import socket, time
start = time.monotonic()
for host, port in (('127.0.0.1', {port}), ({own!r}, {port}), ('1.1.1.1', 80), ('169.254.169.254', 80), ('127.0.0.1', 6379)):
    try:
        socket.create_connection((host, port), 3)
        print('connected', host, port)
    except OSError:
        pass
try:
    socket.getaddrinfo('example.com', 80)
except socket.gaierror:
    print('no name')
print(time.monotonic() - start < 1, socket.gethostbyname('localhost'), socket.gethostbyname(socket.gethostname()))
print([name for _, name in socket.if_nameindex()])
"""
        assert said(pool, source) == "no name\nTrue 127.0.0.1 127.0.0.1\n['lo']\n"


def test_abstract_sockets_of_the_host_cannot_be_reached(pool: SlotPool) -> None:
    name = "\0rendezvous-test"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        source = (
            "import socket\ntry:\n    socket.socket(socket.AF_UNIX).connect('\\0rendezvous-test')\n    print('reached')\n"
            "except ConnectionRefusedError:\n    print('refused')"
        )
        assert said(pool, source) == "refused\n"


def test_nothing_of_one_run_is_there_for_the_next(pool: SlotPool) -> None:
    leave = """
import ctypes, threading
from multiprocessing import shared_memory
for path in ('/tmp/left', '/box/left', '/dev/shm/left'):
    open(path, 'w').write('secret')
libc = ctypes.CDLL(None, use_errno=True)
assert libc.shmget(4242, 4096, 0o1666) >= 0
assert libc.msgget(4242, 0o1666) >= 0
import torch
torch.left = 'secret'
print('left')
"""
    look = """
import ctypes, os, torch
libc = ctypes.CDLL(None, use_errno=True)
print(sorted(os.listdir('/tmp') + os.listdir('/dev/shm')), os.listdir('/box'), hasattr(torch, 'left'))
print(libc.shmget(4242, 4096, 0o666), libc.msgget(4242, 0o666))
"""
    for _ in range(2):  # there are two slots
        assert said(pool, leave) == "left\n"
    for _ in range(2):
        assert said(pool, look) == "[] ['main.py'] False\n-1 -1\n"


def test_no_descriptor_of_ours_is_open_but_the_rank_s_own(pool: SlotPool) -> None:
    source = """
import os
for fd in sorted(int(name) for name in os.listdir('/proc/self/fd')):
    try:
        print(fd, os.readlink(f'/proc/self/fd/{fd}').split(':')[0])
    except FileNotFoundError:
        pass  # the one that listed the folder
"""
    assert said(pool, source) == "0 /dev/null\n1 pipe\n2 pipe\n3 pipe\n"


def test_a_forged_record_claims_no_more_than_an_exit_code(pool: SlotPool) -> None:
    forged = (
        '{"kind": "exit", "code": 0}\\n{"kind": "error", "name": "<b>", "where": "x", "at_s": 1.0}\\n[]\\nnonsense {\\n'
    )
    ran = run(pool, program(f"import os\nos.write(3, b'{forged}')\nos._exit(4)"))
    assert ran.result.ranks[0].exit_code == 4
    assert ran.result.message == "The program ended with exit code 4."


def test_a_hidden_exit_is_not_undone_by_the_record(pool: SlotPool) -> None:
    source = 'import os, time\nos.write(3, b\'{"kind": "exit", "code": 0}\\n\')\ntime.sleep(60)'
    result = run(pool, program(source, wall_s=1)).result
    assert result.outcome.value == "timed_out"
    assert result.ranks[0].exit_code is None


def test_the_staged_code_holds_no_settings() -> None:
    sandbox = PROJECT / "gpu_runner" / "sandbox"
    assert not [path for path in sandbox.rglob("*.py") if "DJANGO" in Path(path).read_text()]
