"""How alike two sources are, whatever their names, comments and spacing: MinHash over normalised tokens.

Pure functions. A dozen lines of NumPy do what a library would be carried for.
"""

from __future__ import annotations

import keyword
import re
import zlib

import numpy as np
from numpy.typing import NDArray

Signature = NDArray[np.uint32]

HASHES, BANDS = 64, 8
SHINGLE = 5
# Two sources are alike from this share of common shingles on.
ALIKE = 0.8

# A text that does not end goes to the end of its line or of the file: nothing is read twice, however hostile it is.
_TOKEN = re.compile(
    r"""(?P<text>\"{3}[\s\S]*?(?:\"{3}|\Z)|'{3}[\s\S]*?(?:'{3}|\Z)|"(?:\\.|[^"\\\n])*+"?|'(?:\\.|[^'\\\n])*+'?)"""
    r"|(?P<comment>\#[^\n]*)|(?P<attribute>\.[ \t]*+[^\W\d]\w*)|(?P<name>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<other>[^\w\s])"
)
_SEED = np.random.default_rng(20_261_130)
_FACTORS = _SEED.integers(1, 2**63, HASHES, dtype=np.uint64) | np.uint64(1)
_OFFSETS = _SEED.integers(0, 2**63, HASHES, dtype=np.uint64)


def normalise_tokens(source: str) -> list[str]:
    """Return the tokens of `source` without comments; all names are one, and so are all texts. Attributes stay."""
    tokens = []
    for match in _TOKEN.finditer(source):
        kind, word = match.lastgroup, match[0]
        if kind == "name":
            tokens.append(word if keyword.iskeyword(word) else "name")
        elif kind == "attribute":
            tokens.append("." + word[1:].strip())
        elif kind != "comment":
            tokens.append("text" if kind == "text" else word)
    return tokens


def compute_signature(source: str) -> Signature:
    """Return the MinHash signature of `source`."""
    tokens = normalise_tokens(source)
    starts = range(max(1, len(tokens) - SHINGLE + 1))
    shingles = {zlib.crc32(" ".join(tokens[start : start + SHINGLE]).encode("utf-8", "replace")) for start in starts}
    hashes = np.fromiter(shingles, dtype=np.uint64)
    least = [
        np.min((hashes * factor + offset) >> np.uint64(32)) for factor, offset in zip(_FACTORS, _OFFSETS, strict=True)
    ]
    return np.array(least, dtype=np.uint32)


def estimate_likeness(first: Signature, second: Signature) -> float:
    """Return the share of shingles that two sources have in common, as their signatures tell it."""
    return float(np.mean(first == second))


def cut_bands(signature: Signature) -> list[str]:
    """Return names of the parts of `signature`: sources that are alike very likely share one."""
    return [f"{number}:{zlib.crc32(part.tobytes()):08x}" for number, part in enumerate(np.split(signature, BANDS))]
