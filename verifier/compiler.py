"""The judge's side of the compile box: machine code of kernels, made while other gates run."""

from __future__ import annotations

import time
from typing import Any

from verifier.boxes import Box
from verifier.candidate.channel import ChannelClosed, ProtocolError
from verifier.faults import InfrastructureFault
from verifier.session import KernelText

COMPILE_SECONDS = 300.0

CompileResult = dict[str, Any]


class Compiler:
    """Compiles each kernel once; a request runs in the box while the judge goes on."""

    def __init__(self, box: Box, capability: int) -> None:
        self.box, self.capability = box, capability
        self.results: dict[str, CompileResult] = {}
        self.pending: list[list[str]] = []

    def submit(self, kernels: list[KernelText]) -> None:
        """Ask for the machine code of kernels that were not asked for yet. Raises InfrastructureFault."""
        known = {*self.results, *(digest for batch in self.pending for digest in batch)}
        fresh = [kernel for kernel in kernels if kernel.digest not in known]
        if not fresh:
            return
        texts = [kernel.text.encode() for kernel in fresh]
        jobs = [{"bytes": len(text), "options": kernel.options} for kernel, text in zip(fresh, texts, strict=True)]
        try:
            self.box.channel.deadline = time.monotonic() + COMPILE_SECONDS
            self.box.channel.send({"kernels": jobs, "capability": self.capability}, b"".join(texts))
        except (ChannelClosed, TimeoutError) as error:
            raise self.explain(error) from error
        self.pending.append([kernel.digest for kernel in fresh])

    def collect(self, kernels: list[KernelText]) -> list[CompileResult]:
        """Return the results for `kernels`, in order: sass, registers, spilled, shared, or error. Raises InfrastructureFault."""
        self.submit(kernels)
        try:
            while self.pending:
                self.box.channel.deadline = time.monotonic() + COMPILE_SECONDS
                answer, _ = self.box.channel.receive()
                self.results.update(zip(self.pending.pop(0), answer["results"], strict=True))
        except (ChannelClosed, ProtocolError, TimeoutError) as error:
            raise self.explain(error) from error
        return [self.results[kernel.digest] for kernel in kernels]

    def explain(self, error: Exception) -> InfrastructureFault:
        return InfrastructureFault(
            f"the compile box failed: {type(error).__name__}; {self.box.process.output()[-400:]}"
        )
