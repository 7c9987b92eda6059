"""Lowers Triton functions to Triton IR without a GPU, and runs that IR on CPU tensors."""

from __future__ import annotations

from typing import Any

import torch
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from verifier.interpreter.kernels import Kernel, Touched
from verifier.interpreter.memory import Memory

POINTERS = {
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.int16: "*i16",
    torch.int8: "*i8",
}
STEPS = 1_000_000


def lower(function: Any, arguments: dict[str, Any], constants: dict[str, Any], *, inline: bool = True) -> str:
    """Return the Triton IR of a function for the types of `arguments`, with or without calls in it."""
    signature = {
        name: POINTERS[value.dtype]
        if isinstance(value, torch.Tensor)
        else "fp32"
        if isinstance(value, float)
        else "i32"
        for name, value in arguments.items()
    }
    source = ASTSource(function, signature, constants)
    backend = make_backend(GPUTarget("cuda", 89, 32))
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(options, backend.get_codegen_implementation(), context)
    return str(backend.make_ttir(module, {}, options)) if inline else str(module)


def run(
    function: Any, arguments: dict[str, Any], constants: dict[str, Any], grid: tuple[int, int, int] = (1, 1, 1)
) -> Touched:
    """Interpret a function over `grid` on CPU tensors, which it changes in place."""
    memory = Memory(1 << 30)
    for value in arguments.values():
        if isinstance(value, torch.Tensor):
            memory.retain(value)
    kernel = Kernel(lower(function, arguments, constants), memory)
    values = [value.data_ptr() if isinstance(value, torch.Tensor) else value for value in arguments.values()]
    return kernel.run(grid, values, STEPS)
