"""The device process: it keeps all data and does all work of a submission, whose own process holds names only.

So what ran and what it did is known here and cannot be forged there. The GPU is one kind of device, the simulated
GPU of `verifier.interpreter` another.
"""
