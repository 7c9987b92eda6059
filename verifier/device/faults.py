"""What a device may refuse, or fail at, while it works for a submission."""

from __future__ import annotations


class IllegalAccess(Exception):
    """A kernel touched memory outside every live allocation, or misaligned memory."""


class OutOfDeviceMemory(Exception):
    """Live allocations would exceed the device's memory."""


class KernelFault(Exception):
    """A kernel, or its launch, asks for something that has no meaning on any GPU."""


class NotInterpretable(Exception):
    """The device has no model for something in the kernel."""


class IRError(ValueError):
    """The text is not Triton IR that this reader knows."""


class CannotCompile(Exception):
    """Triton's compiler refused the kernel or did not survive it."""
