"""Models of libdevice functions.

Approximate functions are computed in float64 and rounded once. Integer functions, conversions and arithmetic with a named
rounding are exact. What has no model is no verdict on a submission: Bessel functions of a given order, the start of a
reciprocal (rcp64h), and float64 arithmetic that rounds towards zero, up or down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from verifier.device.faults import NotInterpretable
from verifier.interpreter import integers, rounding
from verifier.interpreter.numbers import Array, as_unsigned

Model = Callable[..., Array]


def by_torch(function: Callable[..., torch.Tensor]) -> Model:
    """Return a NumPy model that calls a torch function in float64."""

    def model(*values: Array) -> Array:
        return function(*(torch.from_numpy(np.array(value, np.float64)) for value in values)).numpy()

    return model


def round_half_away(values: Array) -> Array:
    whole = np.trunc(values)
    return np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole)  # noqa: PLR2004


def take_remainder(x: Array, y: Array) -> Array:
    """Return x less the nearest multiple of y, the even one of two (IEEE 754 remainder). Exact."""
    size, rest = np.abs(y), np.abs(np.fmod(x, 2.0 * y))
    beyond_half = 2.0 * rest > size
    rest = np.where(beyond_half, rest - size, rest)
    rest = np.where(beyond_half & (2.0 * rest >= size), rest - size, rest)
    return np.copysign(1.0, x) * rest


def find_exponent(values: Array) -> Array:
    """Return the exponent of the highest bit: -inf for 0, inf for an infinity."""
    exponent = np.frexp(values)[1] - 1.0
    exponent = np.where(values == 0, -np.inf, exponent)
    return np.where(np.isfinite(values), exponent, np.abs(values))


def find_whole_exponent(values: Array) -> Array:
    """Return the exponent as an integer: the lowest one for 0 and NaN, the highest one for an infinity."""
    return np.nan_to_num(find_exponent(values), nan=-(2.0**31), posinf=2.0**31 - 1, neginf=-(2.0**31)).astype(np.int32)


def compute_gamma(value: float) -> float:
    """Return the gamma function of one number: an infinity at 0, NaN at a negative integer."""
    if value == 0:
        return math.copysign(math.inf, value)
    try:
        return math.gamma(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def join_halves(high: Array, low: Array) -> Array:
    """Return the float64 of two 32-bit halves."""
    whole = as_unsigned(high).astype(np.uint64) << np.uint64(32) | as_unsigned(low).astype(np.uint64)
    return whole.view(np.float64)


def invert_erfc(values: Array) -> Array:
    return -by_torch(torch.special.ndtri)(values / 2.0) / math.sqrt(2.0)


# These see floats in float64; their results are rounded to the type that libdevice returns.
APPROXIMATE: dict[str, Model] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil,
    "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh, "cospi": lambda x: np.cos(np.pi * x),
    "exp": np.exp, "exp10": lambda x: np.power(10.0, x), "exp2": np.exp2, "expm1": np.expm1,
    "fabs": np.abs, "fdim": lambda x, y: np.maximum(x - y, 0.0), "floor": np.floor,
    "fmax": np.fmax, "fmin": np.fmin, "fmod": np.fmod, "remainder": take_remainder,
    "hypot": np.hypot, "rhypot": lambda x, y: 1.0 / np.hypot(x, y), "ldexp": lambda x, y: np.ldexp(x, y.astype(np.int32)),
    "scalbn": lambda x, y: np.ldexp(x, y.astype(np.int32)), "ilogb": find_whole_exponent, "logb": find_exponent,
    "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "nearbyint": np.rint, "pow": np.power,
    "powi": lambda x, y: np.power(x, y.astype(np.float64)), "rcbrt": lambda x: 1.0 / np.cbrt(x), "rint": np.rint,
    "round": round_half_away, "rsqrt": lambda x: 1.0 / np.sqrt(x), "sin": np.sin,
    "saturate": lambda x: np.clip(np.where(np.isnan(x), 0.0, x), 0.0, 1.0),
    "norm3d": lambda x, y, z: np.hypot(np.hypot(x, y), z), "rnorm3d": lambda x, y, z: 1.0 / np.hypot(np.hypot(x, y), z),
    "norm4d": lambda x, y, z, w: np.hypot(np.hypot(x, y), np.hypot(z, w)),
    "rnorm4d": lambda x, y, z, w: 1.0 / np.hypot(np.hypot(x, y), np.hypot(z, w)),
    "sinh": np.sinh, "sinpi": lambda x: np.sin(np.pi * x), "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh, "trunc": np.trunc, "tgamma": np.vectorize(compute_gamma, otypes=[np.float64]),
    "fdividef": np.divide, "fast_fdividef": np.divide, "erf": by_torch(torch.erf), "erfc": by_torch(torch.erfc),
    "erfinv": by_torch(torch.erfinv), "erfcinv": invert_erfc, "erfcx": by_torch(torch.special.erfcx),
    "lgamma": by_torch(torch.lgamma), "normcdf": by_torch(torch.special.ndtr), "normcdfinv": by_torch(torch.special.ndtri),
    "j0": by_torch(torch.special.bessel_j0), "j1": by_torch(torch.special.bessel_j1),
    "y0": by_torch(torch.special.bessel_y0), "y1": by_torch(torch.special.bessel_y1),
    "cyl_bessel_i0": by_torch(torch.special.i0), "cyl_bessel_i1": by_torch(torch.special.i1),
    "isnan": np.isnan, "isinf": np.isinf, "finite": np.isfinite, "isfinite": np.isfinite, "signbit": np.signbit,
}  # fmt: skip
for _name in ("sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow"):
    APPROXIMATE[f"fast_{_name}"] = APPROXIMATE[_name]


def of_unsigned(function: Model) -> Model:
    """Return a model that reads its integers as unsigned."""
    return lambda *values: function(*map(as_unsigned, values))


# These see values in their own type, bit for bit.
EXACT: dict[str, Model] = {
    "abs": np.abs, "llabs": np.abs, "popc": integers.count_bits, "popcll": integers.count_bits,
    "clz": integers.count_leading_zeros, "clzll": integers.count_leading_zeros,
    "ffs": integers.find_lowest_bit, "ffsll": integers.find_lowest_bit,
    "brev": integers.reverse_bits, "brevll": integers.reverse_bits, "byte_perm": integers.pick_bytes,
    "mulhi": integers.multiply_high, "umulhi": of_unsigned(integers.multiply_high),
    "mul64hi": integers.multiply_high, "umul64hi": of_unsigned(integers.multiply_high),
    "mul24": integers.multiply_24_bits, "umul24": of_unsigned(integers.multiply_24_bits),
    "sad": integers.add_difference, "usad": of_unsigned(integers.add_difference),
    "hadd": partial(integers.average, upwards=0), "uhadd": of_unsigned(partial(integers.average, upwards=0)),
    "rhadd": partial(integers.average, upwards=1), "urhadd": of_unsigned(partial(integers.average, upwards=1)),
    "float_as_int": lambda x: x.view(np.int32), "float_as_uint": lambda x: x.view(np.int32),
    "int_as_float": lambda x: x.view(np.float32), "uint_as_float": lambda x: x.view(np.float32),
    "double_as_longlong": lambda x: x.view(np.int64), "longlong_as_double": lambda x: x.view(np.float64),
    "double2hiint": lambda x: (x.view(np.int64) >> 32).astype(np.int32),
    "double2loint": lambda x: x.view(np.int64).astype(np.int32),
    "hiloint2double": join_halves, "nextafter": np.nextafter,
    "llrint": partial(rounding.convert_to_integer, kind=np.int64, direction="rn"),
    "llround": lambda x: rounding.convert_to_integer(round_half_away(x), np.int64, "rn"),
}  # fmt: skip


def of_singles(function: Callable[..., Array]) -> Model:
    """Return a model of float32 arithmetic that sees its operands in float64."""
    return lambda *values: function(*(rounding.flush(value).astype(np.float64) for value in values))


def list_single_models(direction: str) -> dict[str, Model]:
    """Return the float32 operations that round once in `direction`."""
    functions: dict[str, Callable[..., Array]] = {
        "fadd": lambda x, y: rounding.add_single(x, y, direction),
        "fsub": lambda x, y: rounding.add_single(x, -y, direction),
        "fmul": lambda x, y: rounding.round_to_single((x * y, np.zeros_like(x)), direction),
        "fdiv": lambda x, y: rounding.round_to_single(rounding.divide_exactly(x, y), direction),
        "frcp": lambda x: rounding.round_to_single(rounding.divide_exactly(np.ones_like(x), x), direction),
        "fsqrt": lambda x: rounding.round_to_single(rounding.root_exactly(x), direction),
        "fmaf": lambda x, y, z: rounding.add_single(x * y, z, direction),
    }
    return {f"{name}_{direction}": of_singles(function) for name, function in functions.items()}


def list_conversions(direction: str) -> dict[str, Model]:
    """Return the conversions between types that round once in `direction`."""
    kinds: dict[str, tuple[type[np.integer[Any]], Model]] = {
        "int": (np.int32, np.asarray), "uint": (np.uint32, as_unsigned),
        "ll": (np.int64, np.asarray), "ull": (np.uint64, as_unsigned),
    }  # fmt: skip
    models: dict[str, Model] = {"double2float": lambda x: rounding.round_to_single((x, np.zeros_like(x)), direction)}
    for name, (kind, read) in kinds.items():
        models |= {
            f"{source}2{name}": partial(rounding.convert_to_integer, kind=kind, direction=direction)
            for source in ("float", "double")
        }
        models[f"{name}2float"] = lambda x, read=read: rounding.round_to_single(
            rounding.read_integer(read(x)), direction
        )
        models[f"{name}2double"] = lambda x, read=read: rounding.step(*rounding.read_integer(read(x)), direction)
    return {f"{name}_{direction}": model for name, model in models.items()}


for _direction in rounding.DIRECTIONS:
    EXACT |= list_single_models(_direction) | list_conversions(_direction)
EXACT |= {
    "fmaf": EXACT["fmaf_rn"], "fma": rounding.fuse_double, "fma_rn": rounding.fuse_double, "dadd_rn": np.add,
    "dsub_rn": np.subtract, "dmul_rn": np.multiply, "ddiv_rn": np.divide, "drcp_rn": np.reciprocal, "dsqrt_rn": np.sqrt,
    # Of all float32 values, none lies so near the middle of two that float64 could mistake it.
    "frsqrt_rn": of_singles(lambda x: 1.0 / np.sqrt(x)),
}  # fmt: skip


def see_in_double(model: Model) -> Model:
    """Return a model that sees floats in float64, and integers as they are."""
    return lambda *values: model(*(value.astype(np.float64) if value.dtype.kind == "f" else value for value in values))


MODELS: dict[str, Model] = {**{name: see_in_double(model) for name, model in APPROXIMATE.items()}, **EXACT}


def find_model(symbol: str) -> Model:
    """Return the model of ``__nv_<name>`` or ``__nv_<name>f``. Raises NotInterpretable."""
    name = symbol.removeprefix("__nv_")
    for candidate in (name, name.removesuffix("f"), name.removesuffix("d"), name.removesuffix("f").removesuffix("_")):
        if candidate in MODELS:
            return MODELS[candidate]
    raise NotInterpretable(f"libdevice function {symbol}")
