"""Rewrites Triton IR as the compiler itself prints it, so that the interpreter and the compiler read the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

from triton._C.libtriton import ir

from verifier.device.faults import IRError


class Canonicaliser:
    """Parses IR with Triton's own parser and prints it again."""

    def __init__(self) -> None:
        self.context = ir.context()
        ir.load_dialects(self.context)

    def rewrite(self, text: str) -> str:
        """Return the canonical text. Raises IRError when it is no Triton IR."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.ttir"
            path.write_text(text, encoding="utf-8")
            try:
                module = ir.parse_mlir_module(str(path), self.context)
            except RuntimeError as error:
                raise IRError("the text is no Triton IR") from error
            module.context = self.context
            return str(module)
