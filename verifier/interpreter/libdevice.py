"""Models of libdevice functions, computed in float64 and rounded once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from verifier.device.faults import NotInterpretable
from verifier.interpreter.numbers import Array

Model = Callable[..., Array]


def by_torch(function: Callable[..., torch.Tensor]) -> Model:
    """Return a NumPy model that calls a torch function in float64."""

    def model(*values: Array) -> Array:
        return function(*(torch.from_numpy(np.array(value, np.float64)) for value in values)).numpy()

    return model


def round_half_away(values: Array) -> Array:
    return np.trunc(values + np.copysign(0.5, values))


def count_bits(values: Array) -> Array:
    """Return how many bits of each integer are set, of its two's complement where it is negative."""
    octets = np.ascontiguousarray(values).reshape(-1, 1).view(np.uint8)
    return np.unpackbits(octets, axis=1).sum(axis=1, dtype=np.int32).reshape(np.shape(values))


MODELS: dict[str, Model] = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil,
    "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh, "cospi": lambda x: np.cos(np.pi * x),
    "exp": np.exp, "exp10": lambda x: np.power(10.0, x), "exp2": np.exp2, "expm1": np.expm1,
    "fabs": np.abs, "fdim": lambda x, y: np.maximum(x - y, 0.0), "floor": np.floor,
    "fma": lambda x, y, z: x * y + z, "fmax": np.fmax, "fmin": np.fmin, "fmod": np.fmod,
    "hypot": np.hypot, "ldexp": lambda x, y: np.ldexp(x, y.astype(np.int32)), "log": np.log,
    "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "nearbyint": np.rint, "pow": np.power,
    "rcbrt": lambda x: 1.0 / np.cbrt(x), "rint": np.rint, "round": round_half_away,
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "saturate": lambda x: np.clip(x, 0.0, 1.0), "sin": np.sin,
    "sinh": np.sinh, "sinpi": lambda x: np.sin(np.pi * x), "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh, "trunc": np.trunc, "div_rn": np.divide, "mul_rn": np.multiply, "add_rn": np.add,
    "sub_rn": np.subtract, "rcp_rn": lambda x: 1.0 / x, "sqrt_rn": np.sqrt, "fma_rn": lambda x, y, z: x * y + z,
    "fdividef": np.divide, "fast_fdividef": np.divide, "erf": by_torch(torch.erf), "erfc": by_torch(torch.erfc),
    "erfinv": by_torch(torch.erfinv), "erfcx": by_torch(torch.special.erfcx), "lgamma": by_torch(torch.lgamma),
    "normcdf": by_torch(torch.special.ndtr), "normcdfinv": by_torch(torch.special.ndtri),
    "j0": by_torch(torch.special.bessel_j0), "j1": by_torch(torch.special.bessel_j1),
    "cyl_bessel_i0": by_torch(torch.special.i0), "cyl_bessel_i1": by_torch(torch.special.i1),
    "isnan": np.isnan, "isinf": np.isinf, "finite": np.isfinite, "isfinite": np.isfinite, "signbit": np.signbit,
    "float2int_rn": np.rint, "float2int_rz": np.trunc, "float2int_rd": np.floor, "float2int_ru": np.ceil,
    "popc": count_bits, "popcll": count_bits,
}  # fmt: skip
for _name in ("sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow"):
    MODELS[f"fast_{_name}"] = MODELS[_name]


def find_model(symbol: str) -> Model:
    """Return the model of ``__nv_<name>`` or ``__nv_<name>f``. Raises NotInterpretable."""
    name = symbol.removeprefix("__nv_")
    for candidate in (name, name.removesuffix("f"), name.removesuffix("d"), name.removesuffix("f").removesuffix("_")):
        if candidate in MODELS:
            return MODELS[candidate]
    raise NotInterpretable(f"libdevice function {symbol}")
