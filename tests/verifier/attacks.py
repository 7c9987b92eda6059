"""Runs inside the sandbox: tries to get out, one attack by name, and prints ESCAPED or blocked."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)


def attempt(action: Callable[..., Any], *arguments: Any) -> None:
    """Print what came of one attempt."""
    try:
        result = action(*arguments)
    except OSError as error:
        print("blocked", errno.errorcode.get(error.errno or 0, error))
    else:
        print("ESCAPED", repr(result)[:80])


def system_call(number: int, *arguments: Any) -> None:
    """Print what came of one raw system call."""
    result = LIBC.syscall(number, *arguments)
    print("ESCAPED" if result >= 0 else f"blocked {errno.errorcode[ctypes.get_errno()]}")


def network() -> None:
    for family, kind in (
        (socket.AF_INET, socket.SOCK_STREAM),
        (socket.AF_INET, socket.SOCK_DGRAM),
        (socket.AF_INET6, socket.SOCK_STREAM),
    ):
        attempt(socket.socket, family, kind)
    attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 0)
    attempt(socket.gethostbyname, "localhost.invalid")


def files() -> None:
    for path in (
        *sys.argv[2:],
        "/etc/passwd",
        "/etc/shadow",
        "/home",
        "/var",
        "/run",
        "/opt",
        "/proc/1/root/etc/shadow",
    ):
        attempt(os.listdir if os.path.isdir(path) else open, path)


def secrets() -> None:
    names = [name for name in os.environ if "SECRET" in name or "DATABASE" in name]
    print("ESCAPED" if names else "blocked", names)


def writing() -> None:
    for path in ("/usr/x", "/etc/x", "/x", "/kq/x", "/dev/x", "/proc/sys/kernel/core_pattern"):
        attempt(open, path, "w")


def processes() -> None:
    attempt(os.kill, int(sys.argv[2]), 0)
    attempt(open, "/proc/1/mem", "r+b") if os.getpid() != 1 else print("blocked self")


def kernel() -> None:
    for number in (101, 165, 272, 308, 310, 321, 323, 425, 250, 175, 304, 135):
        system_call(number, 0, 0, 0, 0, 0)
    system_call(56, 0x10000000 | 17, 0, 0, 0, 0)
    system_call(435, 0, 0)


def identity() -> None:
    for action in (os.setuid, os.setgid):
        attempt(action, 0)


def disk() -> None:
    for folder in ("/tmp", "/box", "/dev/shm"):
        written = 0
        try:
            for number in range(64):
                with open(f"{folder}/{number}", "wb") as file:
                    for _ in range(16):
                        written += file.write(b"x" * (1 << 20))
        except OSError as error:
            print("blocked", errno.errorcode[error.errno or 0], written >> 20, "MiB")
        else:
            print("ESCAPED", written >> 20, "MiB")


def forks() -> None:
    children = 0
    try:
        for _ in range(2000):
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
            children += 1
    except OSError as error:
        print("blocked", errno.errorcode[error.errno or 0], children)
    else:
        print("ESCAPED", children)


def memory() -> None:
    kept = []
    for _ in range(8):
        if os.fork() == 0:
            kept = [bytearray(os.urandom(1 << 20)) for _ in range(300)]
            time.sleep(20)
            os._exit(len(kept) % 2)
    time.sleep(15)
    print("ESCAPED")


def descriptors() -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                print("ESCAPED", os.readlink(f"/proc/self/fd/{name}"))
            except OSError:
                continue
    print("blocked")


def daemon() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.execv("/usr/bin/sleep", ["sleep", sys.argv[2]])
        os._exit(0)
    print("blocked until the end")


if __name__ == "__main__":
    {
        action.__name__: action
        for action in (
            network,
            files,
            secrets,
            writing,
            processes,
            kernel,
            identity,
            disk,
            forks,
            memory,
            descriptors,
            daemon,
        )
    }[sys.argv[1]]()
