"""libdevice's models against calculations with Python's integers and fractions."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifier.device.faults import NotInterpretable
from verifier.interpreter.libdevice import find_model

SINGLES = st.floats(width=32, allow_subnormal=False)
FINITE_SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)
# Products and quotients that stay clear of overflow and of the subnormal numbers.
MIDDLE_SINGLES = st.builds(
    lambda size, sign: sign * size, st.floats(2.0**-40, 2.0**40, width=32), st.sampled_from((-1.0, 1.0))
)
WORDS = st.integers(-(1 << 31), (1 << 31) - 1)
LONG_WORDS = st.integers(-(1 << 63), (1 << 63) - 1)
Kind = type[np.number[Any]]
Test = Callable[..., None]
DIRECTIONS = st.sampled_from(("rn", "rz", "rd", "ru"))


def examine(**strategies: st.SearchStrategy[Any]) -> Callable[[Test], Test]:
    """Run a test on examples of its arguments, as long as a busy machine takes."""
    return lambda test: settings(max_examples=50, deadline=None)(given(**strategies)(test))


def call(name: str, *values: float, kind: Kind | None = None) -> np.number[Any]:
    """Return what the model of ``__nv_<name>`` gives for one element each: in `kind`, or int32 and float32."""
    kinds = [kind or (np.int32 if type(value) is int else np.float32) for value in values]
    arrays = [np.asarray([value]).astype(chosen) for value, chosen in zip(values, kinds, strict=True)]
    with np.errstate(all="ignore"):
        return find_model(f"__nv_{name}")(*arrays)[0]


def round_fraction(value: Fraction, direction: str) -> float:
    """Return a fraction as a float32, by comparing it with the numbers around it."""
    near = np.float32(float(value))
    around = [
        float(np.nextafter(near, np.float32(-np.inf))),
        float(near),
        float(np.nextafter(near, np.float32(np.inf))),
    ]
    lower = max(item for item in around if Fraction(item) <= value)
    upper = min(item for item in around if Fraction(item) >= value)
    if direction == "rn":
        down, up = value - Fraction(lower), Fraction(upper) - value
        even = struct.unpack("<I", struct.pack("<f", lower))[0] % 2 == 0
        return lower if down < up or (down == up and even) else upper
    return {"rd": lower, "ru": upper, "rz": lower if value > 0 else upper}[direction]


OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "fadd": lambda x, y: x + y,
    "fsub": lambda x, y: x - y,
    "fmul": lambda x, y: x * y,
    "fdiv": lambda x, y: x / y,
}


@pytest.mark.parametrize("name", OPERATIONS)
@examine(x=MIDDLE_SINGLES, y=MIDDLE_SINGLES, direction=DIRECTIONS)
def test_arithmetic_is_rounded_once_in_the_named_direction(name: str, x: float, y: float, direction: str) -> None:
    exact = OPERATIONS[name](Fraction(x), Fraction(y))
    if abs(exact) >= Fraction(2) ** -126:
        assert call(f"{name}_{direction}", x, y) == round_fraction(exact, direction)


@examine(x=MIDDLE_SINGLES, y=MIDDLE_SINGLES, z=MIDDLE_SINGLES, direction=DIRECTIONS)
def test_a_fused_operation_is_rounded_once(x: float, y: float, z: float, direction: str) -> None:
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if abs(exact) >= Fraction(2) ** -126:
        assert call(f"fmaf_{direction}", x, y, z) == round_fraction(exact, direction)


@examine(x=MIDDLE_SINGLES, direction=DIRECTIONS)
def test_a_reciprocal_is_rounded_once(x: float, direction: str) -> None:
    assert call(f"frcp_{direction}", x) == round_fraction(1 / Fraction(x), direction)


@examine(x=st.floats(2.0**-40, 2.0**40, width=32), direction=DIRECTIONS)
def test_a_root_is_rounded_once(x: float, direction: str) -> None:
    # 60 further bits of the root, and a last one that says that there are more.
    scaled = Fraction(x) * (1 << 240)
    whole = math.isqrt(int(scaled))
    exact = Fraction(2 * whole + (whole * whole != scaled), 1 << 121)
    assert call(f"fsqrt_{direction}", x) == round_fraction(exact, direction)


def test_a_product_that_lies_beside_a_middle_is_not_rounded_twice() -> None:
    x, y, z = 1.0 + 2.0**-12, 1.0 + 2.0**-12, 2.0**-60
    middle = Fraction(x) * Fraction(y)
    assert float(np.float32(float(middle + Fraction(z)))) != round_fraction(middle + Fraction(z), "rn")
    assert call("fmaf", x, y, z) == round_fraction(middle + Fraction(z), "rn")


@examine(values=st.lists(st.floats(-1e30, 1e30, allow_subnormal=False), min_size=3, max_size=3))
def test_a_fused_operation_in_double_is_rounded_once(values: list[float]) -> None:
    x, y, z = (value if abs(value) > 1e-30 else 0.0 for value in values)
    assert call("fma", x, y, z, kind=np.float64) == float(Fraction(x) * Fraction(y) + Fraction(z))


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("fadd_rz", (3e38, 3e38), np.finfo(np.float32).max),
        ("fadd_ru", (3e38, 3e38), np.inf),
        ("fmul_ru", (-3e38, 3e38), -np.finfo(np.float32).max),
        ("fadd_rz", (np.inf, 1.0), np.inf),
        ("fdiv_rd", (1.0, 0.0), np.inf),
        ("fmul_rn", (1e-30, 1e-10), 0.0),
        ("fadd_ru", (1e-40, 0.0), 0.0),
    ],
)
def test_arithmetic_beyond_the_range(name: str, values: tuple[float, float], expected: float) -> None:
    assert call(name, *values) == np.float32(expected)


@pytest.mark.parametrize(("direction", "negative"), [("rd", True), ("rn", False), ("ru", False), ("rz", False)])
def test_an_exact_zero_has_the_sign_of_its_direction(direction: str, *, negative: bool) -> None:
    assert bool(np.signbit(call(f"fsub_{direction}", 1.5, 1.5))) is negative


@examine(x=SINGLES)
def test_bits_of_a_float_are_kept(x: float) -> None:
    bits = call("float_as_int", x)
    assert struct.pack("<i", bits) == struct.pack("<f", x) or math.isnan(x)
    assert call("int_as_float", int(bits)).tobytes() == struct.pack("<i", bits)


@examine(word=WORDS)
def test_every_word_survives_as_a_float(word: int) -> None:
    assert find_model("__nv_float_as_int")(call("int_as_float", word).reshape(1))[0] == word


@examine(word=LONG_WORDS)
def test_halves_of_a_double_join(word: int) -> None:
    value = call("longlong_as_double", word, kind=np.int64).reshape(1)
    high, low = find_model("__nv_double2hiint")(value), find_model("__nv_double2loint")(value)
    assert find_model("__nv_hiloint2double")(high, low).view(np.int64)[0] == word


ROUNDED: dict[str, Callable[[Fraction], int]] = {"rn": round, "rz": int, "rd": math.floor, "ru": math.ceil}
LIMITS = {"int": (-(1 << 31), (1 << 31) - 1), "uint": (0, (1 << 32) - 1), "ll": (-(1 << 63), (1 << 63) - 1), "ull": (0, (1 << 64) - 1)}  # fmt: skip


@pytest.mark.parametrize("target", LIMITS)
@examine(x=FINITE_SINGLES, direction=DIRECTIONS, double=st.booleans())
def test_floats_become_integers_within_the_range(target: str, x: float, direction: str, *, double: bool) -> None:
    lowest, highest = LIMITS[target]
    found = call(
        f"{'double' if double else 'float'}2{target}_{direction}", x, kind=np.float64 if double else np.float32
    )
    assert int(found) == min(max(ROUNDED[direction](Fraction(x)), lowest), highest)


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("float2int_rn", np.float32, 0),
        ("float2uint_rz", np.float32, 0),
        ("float2ll_rn", np.float32, -(1 << 63)),
        ("float2ull_rn", np.float32, 1 << 63),
        ("double2int_rn", np.float64, -(1 << 31)),
        ("double2uint_rn", np.float64, 1 << 31),
    ],
)
def test_no_number_becomes_the_integer_that_the_instruction_gives(name: str, kind: Kind, expected: int) -> None:
    assert int(call(name, math.nan, kind=kind)) == expected


@examine(word=WORDS, direction=DIRECTIONS)
def test_integers_become_floats_rounded_once(word: int, direction: str) -> None:
    assert call(f"int2float_{direction}", word) == round_fraction(Fraction(word), direction)
    assert call(f"uint2float_{direction}", word) == round_fraction(Fraction(word % (1 << 32)), direction)


@examine(word=LONG_WORDS, direction=DIRECTIONS)
def test_long_integers_become_floats_rounded_once(word: int, direction: str) -> None:
    assert call(f"ll2float_{direction}", word, kind=np.int64) == round_fraction(Fraction(word), direction)
    unsigned = Fraction(word % (1 << 64))
    assert call(f"ull2float_{direction}", word, kind=np.int64) == round_fraction(unsigned, direction)
    wide = Fraction(float(call(f"ull2double_{direction}", word, kind=np.int64)))
    assert {"rd": wide <= unsigned, "rz": wide <= unsigned, "ru": wide >= unsigned, "rn": True}[direction]
    assert abs(wide - unsigned) < 1 << 11


@examine(x=st.floats(2.0**-40, 2.0**40), direction=DIRECTIONS)
def test_doubles_become_floats_rounded_once(x: float, direction: str) -> None:
    assert call(f"double2float_{direction}", x, kind=np.float64) == round_fraction(Fraction(x), direction)


@pytest.mark.parametrize(("suffix", "bits", "kind"), [("", 32, np.int32), ("ll", 64, np.int64)])
@examine(word=LONG_WORDS)
def test_places_of_bits(suffix: str, bits: int, kind: Kind, word: int) -> None:
    word = (word + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    text = format(word % (1 << bits), f"0{bits}b")
    assert call(f"clz{suffix}", word, kind=kind) == len(text) - len(text.lstrip("0"))
    assert call(f"ffs{suffix}", word, kind=kind) == text[::-1].find("1") + 1
    assert int(call(f"brev{suffix}", word, kind=kind)) % (1 << bits) == int(text[::-1], 2)
    assert call(f"popc{suffix}", word, kind=kind) == text.count("1")


@examine(x=WORDS, y=WORDS, z=WORDS)
def test_integer_arithmetic(x: int, y: int, z: int) -> None:
    a, b, c = (value % (1 << 32) for value in (x, y, z))
    low_x, low_y = ((value + (1 << 23)) % (1 << 24) - (1 << 23) for value in (x, y))
    expected = {
        "mulhi": (x * y >> 32, (x, y)), "umulhi": (a * b >> 32, (x, y)),
        "mul24": (low_x * low_y, (x, y)), "umul24": (a % (1 << 24) * (b % (1 << 24)), (x, y)),
        "hadd": (x + y >> 1, (x, y)), "uhadd": (a + b >> 1, (x, y)),
        "rhadd": (x + y + 1 >> 1, (x, y)), "urhadd": (a + b + 1 >> 1, (x, y)),
        "sad": (abs(x - y) + z, (x, y, z)), "usad": (abs(a - b) + c, (x, y, z)), "abs": (abs(x), (x,)),
    }  # fmt: skip
    for name, (result, values) in expected.items():
        assert int(call(name, *values)) % (1 << 32) == result % (1 << 32), name


@examine(x=LONG_WORDS, y=LONG_WORDS)
def test_high_halves_of_long_products(x: int, y: int) -> None:
    assert call("mul64hi", x, y, kind=np.int64) == x * y >> 64
    unsigned = (x % (1 << 64)) * (y % (1 << 64)) >> 64
    assert int(call("umul64hi", x, y, kind=np.int64)) % (1 << 64) == unsigned


@examine(x=WORDS, y=WORDS, selector=WORDS)
def test_bytes_are_picked_by_three_bits_each(x: int, y: int, selector: int) -> None:
    octets = struct.pack("<ii", x, y)
    digits = [selector % (1 << 32) >> 4 * place & 7 for place in range(4)]
    assert struct.pack("<i", call("byte_perm", x, y, selector)) == bytes(octets[digit] for digit in digits)


@examine(x=FINITE_SINGLES, y=FINITE_SINGLES)
def test_remainders_and_neighbours(x: float, y: float) -> None:
    if y:
        assert call("remainderf", x, y) == np.float32(math.remainder(x, y))
    assert call("nextafterf", x, y) == np.nextafter(np.float32(x), np.float32(y))


@examine(x=FINITE_SINGLES)
def test_exponents(x: float) -> None:
    exponent = math.frexp(x)[1] - 1
    assert call("ilogbf", x) == (exponent if x else -(1 << 31))
    assert call("logbf", x) == (exponent if x else -math.inf)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("llrintf", (2.5,), 2),
        ("llroundf", (-2.5,), -3),
        ("roundf", (0.49999997,), 0.0),
        ("norm3df", (2.0, 3.0, 6.0), 7.0),
        ("rnorm4df", (1.0, 1.0, 1.0, 1.0), 0.5),
        ("rhypotf", (3.0, 4.0), 0.2),
        ("tgammaf", (5.0,), 24.0),
        ("tgammaf", (-0.5,), -2.0 * math.sqrt(math.pi)),
        ("powif", (1.5, 3), 3.375),
        ("scalbnf", (0.75, -2), 0.1875),
        ("erfcinvf", (math.erfc(0.25),), 0.25),
        ("frsqrt_rn", (0.25,), 2.0),
        ("saturatef", (math.nan,), 0.0),
    ],
)
def test_values_that_are_known(name: str, values: tuple[float, ...], expected: float) -> None:
    assert call(name, *values) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["rcp64h", "jnf", "ynf", "dadd_ru", "fma_rz", "no_such_function"])
def test_what_has_no_model_is_a_gap(name: str) -> None:
    with pytest.raises(NotInterpretable):
        find_model(f"__nv_{name}")
