from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tools import machine, setup
from tools.machine import SystemPackage, ensure_packages
from tools.stack import free_port


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH, the folders for administrators included."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine, "ADMINISTRATORS_FOLDERS", ())
    return tmp_path


def put(folder: Path, name: str, script: str = "exit 0") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


RUNTIME = SystemPackage(("runc",), "starts containers", lambda: machine.find_program("runc") is not None)


def test_nothing_happens_when_nothing_is_missing(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(programs, "runc")

    ensure_packages([RUNTIME])

    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("not_root")
def test_without_root_one_line_says_what_is_missing_and_what_to_type(
    programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(programs, "apt-get")

    with pytest.raises(SystemExit) as exit_info:
        ensure_packages([RUNTIME])

    assert exit_info.value.code == 1
    assert capsys.readouterr().err == (
        "Missing: runc (starts containers). As root, type: apt-get update && apt-get install -y runc\n"
    )


@pytest.mark.usefixtures("not_root")
def test_with_sudo_packages_are_named_and_then_installed(programs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(programs, "sudo", f'echo "sudo $@"; echo > {programs}/runc; /bin/chmod +x {programs}/runc')
    put(programs, "apt-get")
    put(programs, "apt-cache", 'echo "  Candidate: 1.1"')

    ensure_packages([RUNTIME])

    said, done = capfd.readouterr().out.split("→ Installing", 1)
    assert said == "Missing on this machine: runc (starts containers).\n"
    assert "sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends runc\n" in done


def test_the_list_of_packages_is_brought_up_to_date_for_a_name_that_is_not_in_it(
    programs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    put(programs, "env", f'echo "$@"; echo > {programs}/runc; /bin/chmod +x {programs}/runc')
    put(programs, "apt-get", f'echo "apt-get $@"; echo > {programs}/updated')
    put(programs, "apt-cache", f'test -e {programs}/updated && test $2 = runc && echo "  Candidate: 1.1"')

    ensure_packages([SystemPackage(("runc-of-another-name", "runc"), "starts containers", RUNTIME.is_present)])

    out = capfd.readouterr().out
    assert out.index("apt-get update") < out.index("apt-get install -y -q --no-install-recommends runc\n")


def test_another_system_is_told_to_use_its_own_package_manager(
    programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ensure_packages([RUNTIME])

    assert "Install them with your system's package manager" in capsys.readouterr().err


def test_a_fingerprint_tells_names_contents_and_words_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("a")

    first = setup.fingerprint([one], "3.11")
    assert first == setup.fingerprint([one], "3.11")
    assert first != setup.fingerprint([two], "3.11")
    assert first != setup.fingerprint([one], "3.12")
    one.write_text("b")
    assert first != setup.fingerprint([one], "3.11")


def test_a_busy_port_gives_way_to_the_next_free_one() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        busy = holder.getsockname()[1]

        assert free_port("127.0.0.1", busy) > busy
        with pytest.raises(OSError, match="no port"):
            free_port("127.0.0.1", busy, tries=1)
