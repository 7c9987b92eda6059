"""A simulated GPU: it keeps device memory, runs library operators, and interprets compiled Triton IR.

The submission's process never holds the data: it asks this device, in another process, to run
operators and kernels, so what ran and what it did is known here and cannot be forged there.
"""
