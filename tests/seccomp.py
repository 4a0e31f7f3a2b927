"""A child process in which the kernel refuses some system calls, as a seccomp filter of a container does."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

# x86_64, aarch64
NUMBERS = {
    "accept4": (288, 242),
    "clone": (56, 220),
    "clone3": (435, 435),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "eventfd2": (290, 19),
    "fcntl": (72, 25),
    "flock": (73, 32),
    "ftruncate": (77, 46),
    "futex_waitv": (449, 449),
    "getrandom": (318, 278),
    "getsockopt": (55, 209),
    "io_uring_enter": (426, 426),
    "io_uring_setup": (425, 425),
    "membarrier": (324, 283),
    "memfd_create": (319, 279),
    "preadv2": (327, 286),
    "recvmsg": (47, 212),
    "sendmsg": (46, 211),
    "set_robust_list": (273, 99),
    "socket": (41, 198),
}
F_ADD_SEALS = 1033
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def refuse(*calls: str, error: int = errno.EPERM) -> None:
    """From now on this process gets `error` from `calls`; of fcntl only where it is to seal a file."""
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    program = [(LOAD, 0, 0, 0)]  # the number
    for call in calls:
        number = NUMBERS[call][column]
        if call == "fcntl":  # the low half of its second argument; then the number again
            program += [(JUMP_EQUAL, 0, 4, number), (LOAD, 0, 0, 24), (JUMP_EQUAL, 0, 1, F_ADD_SEALS)]
            program += [(RETURN, 0, 0, ERRNO | error), (LOAD, 0, 0, 0)]
        else:
            program += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | error)]
    program.append((RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    filter_ = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, argument in ((PR_SET_NO_NEW_PRIVS, 1), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER)):
        second = ctypes.c_char_p(filter_) if option == PR_SET_SECCOMP else ctypes.c_ulong(0)
        if libc.prctl(option, ctypes.c_ulong(argument), second, ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
