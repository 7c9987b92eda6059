"""The system-call filter of the sandbox, as a classic BPF program for x86-64."""

from __future__ import annotations

import errno
import struct

# Numbers from the kernel's x86-64 table; a call in this list answers "operation not permitted".
DENIED_CALLS = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "mount": 165, "umount2": 166, "pivot_root": 155,
    "chroot": 161, "unshare": 272, "setns": 308, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432,
    "mount_setattr": 442, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "keyctl": 250, "add_key": 248, "request_key": 249,
    "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176,
    "open_by_handle_at": 304, "name_to_handle_at": 303, "syslog": 103, "acct": 163, "swapon": 167, "swapoff": 168,
    "reboot": 169, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "iopl": 172, "ioperm": 173,
    "quotactl": 179, "vhangup": 153, "personality": 135, "pidfd_getfd": 438, "kcmp": 312, "lookup_dcookie": 212,
    "nfsservctl": 180, "fanotify_init": 300, "move_pages": 279, "migrate_pages": 256, "mknod": 133, "mknodat": 259,
}  # fmt: skip

# Memory that no process has mapped is in nobody's count; the CUDA driver needs some of it.
DENIED_WITHOUT_GPU = {"memfd_create": 319, "memfd_secret": 447, "shmget": 29, "msgget": 68, "semget": 64}

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NOT_PERMITTED, _NOT_IMPLEMENTED = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_X86_64, _X32_BIT = 0xC000003E, 0x40000000
_CLONE, _CLONE3, _IOCTL, _SOCKET = 56, 435, 16, 41
_NAMESPACE_FLAGS, _TIOCSTI, _AF_UNIX = 0x7E020000, 0x5412, 1


def _statement(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def build_filter(*, gpu: bool = False) -> bytes:
    """Return the filter: foreign calling conventions kill, `DENIED_CALLS` fail, sockets are AF_UNIX only.

    clone3 answers "not implemented", so that libc falls back to clone, whose flags a filter can see.
    """
    number = _statement(_LOAD, _NUMBER)
    program = [
        _statement(_LOAD, _ARCHITECTURE),
        _statement(_JUMP_EQUAL, _X86_64, 1, 0),
        _statement(_RETURN, _KILL),
        number,
        _statement(_JUMP_AT_LEAST, _X32_BIT, 0, 1),
        _statement(_RETURN, _KILL),
        _statement(_JUMP_EQUAL, _CLONE3, 0, 1),
        _statement(_RETURN, _NOT_IMPLEMENTED),
        _statement(_JUMP_EQUAL, _CLONE, 0, 4),
        _statement(_LOAD, _FIRST_ARGUMENT),
        _statement(_JUMP_ANY_BIT, _NAMESPACE_FLAGS, 0, 1),
        _statement(_RETURN, _NOT_PERMITTED),
        number,
        _statement(_JUMP_EQUAL, _IOCTL, 0, 4),
        _statement(_LOAD, _SECOND_ARGUMENT),
        _statement(_JUMP_EQUAL, _TIOCSTI, 0, 1),
        _statement(_RETURN, _NOT_PERMITTED),
        number,
        _statement(_JUMP_EQUAL, _SOCKET, 0, 4),
        _statement(_LOAD, _FIRST_ARGUMENT),
        _statement(_JUMP_EQUAL, _AF_UNIX, 1, 0),
        _statement(_RETURN, _NOT_PERMITTED),
        number,
    ]
    for call in (*DENIED_CALLS.values(), *(() if gpu else DENIED_WITHOUT_GPU.values())):
        program += [_statement(_JUMP_EQUAL, call, 0, 1), _statement(_RETURN, _NOT_PERMITTED)]
    return b"".join([*program, _statement(_RETURN, _ALLOW)])
