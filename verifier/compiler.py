"""The judge's side of the compile box: machine code of kernels, made while other gates run."""

from __future__ import annotations

import time
from typing import Any

from verifier.boxes import Box
from verifier.candidate.channel import ChannelClosed, ProtocolError
from verifier.faults import CandidateFault, InfrastructureFault
from verifier.session import KernelText, Session
from verifier.verdict import FailureCode

COMPILE_SECONDS = 300.0

CompileResult = dict[str, Any]


class Compiler:
    """Compiles each kernel once; a request runs in the box while the judge goes on."""

    def __init__(self, box: Box, capability: int) -> None:
        self.box, self.capability = box, capability
        self.results: dict[str, CompileResult] = {}
        self.images: dict[str, bytes] = {}
        self.pending: list[list[str]] = []

    def submit(self, kernels: list[KernelText]) -> None:
        """Ask for the machine code of kernels that were not asked for yet. Raises CandidateFault or InfrastructureFault."""
        known = {*self.results, *(digest for batch in self.pending for digest in batch)}
        fresh = [kernel for kernel in kernels if kernel.digest not in known]
        if not fresh:
            return
        texts = [kernel.text.encode() for kernel in fresh]
        jobs = [{"bytes": len(text), "options": kernel.options} for kernel, text in zip(fresh, texts, strict=True)]
        message = {"do": "compile", "kernels": jobs, "capability": self.capability}
        try:
            self.box.channel.deadline = time.monotonic() + COMPILE_SECONDS
            self.box.channel.send(message, b"".join(texts))
        except (ChannelClosed, TimeoutError) as error:
            raise self.explain(error) from error
        self.pending.append([kernel.digest for kernel in fresh])

    def collect(self, kernels: list[KernelText]) -> list[CompileResult]:
        """Return the results for `kernels`, in order: sass, registers, spilled, shared, or error. Raises CandidateFault or InfrastructureFault."""
        self.submit(kernels)
        try:
            while self.pending:
                self.box.channel.deadline = time.monotonic() + COMPILE_SECONDS
                answer, images = self.box.channel.receive()
                self.keep(self.pending.pop(0), answer["results"], images)
            self.disassemble([kernel.digest for kernel in kernels])
        except TimeoutError as error:
            raise CandidateFault(FailureCode.ART_COMPILE_TIMEOUT, "compiling the kernels took too long") from error
        except (ChannelClosed, ProtocolError) as error:
            raise self.explain(error) from error
        return [self.results[kernel.digest] for kernel in kernels]

    def keep(self, digests: list[str], results: list[CompileResult], images: bytes) -> None:
        """Keep results together with their machine code."""
        offset = 0
        for digest, result in zip(digests, results, strict=True):
            self.images[digest] = images[offset : offset + result["image_bytes"]]
            offset += result["image_bytes"]
            self.results[digest] = result

    def disassemble(self, digests: list[str]) -> None:
        """Add the text of machine code to results that have none."""
        wanted = [digest for digest in digests if not self.results[digest].keys() & {"error", "sass"}]
        for digest in wanted:
            image = self.images[digest]
            self.box.channel.send({"do": "disassemble"}, image)
            answer, text = self.box.channel.receive()
            self.results[digest] |= answer or {"sass": text.decode(errors="replace")}

    def explain(self, error: Exception) -> CandidateFault | InfrastructureFault:
        """Return the fault of a box that was lost: the submission's when its kernels needed more memory than the limit."""
        if self.box.process.reason == "out of memory":
            message = "compiling the kernels needed more memory than the limit"
            return CandidateFault(FailureCode.ART_COMPILE_ERROR, message)
        return InfrastructureFault(
            f"the compile box failed: {type(error).__name__}; {self.box.process.output()[-400:]}"
        )


class LoadedCode:
    """The machine code that a GPU loaded: there is nothing to compile again."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def submit(self, kernels: list[KernelText]) -> None:
        """Nothing is asked for before it is needed."""

    def collect(self, kernels: list[KernelText]) -> list[CompileResult]:
        """Return the results for `kernels`, in order. Raises CandidateFault."""
        return self.session.read_machine_code(kernels)
