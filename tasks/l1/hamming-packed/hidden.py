"""All-pairs Hamming distance of bit-packed codes: hidden inputs and the exact oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from verifier.inputs import draw_integers

WORD_BITS = 32
FLIPS = 3
# One bit in 2 ** 7 is set.
SPARSE_FACTORS = 7


def _draw_words(rows: int, words: int, generator: torch.Generator) -> torch.Tensor:
    return draw_integers(-(2**31), 2**31, rows * words, generator).int().view(rows, words)


def _draw_sparse(rows: int, words: int, generator: torch.Generator) -> torch.Tensor:
    result = _draw_words(rows, words, generator)
    for _ in range(SPARSE_FACTORS - 1):
        result &= _draw_words(rows, words, generator)
    return result


def _flip_bits(codes: torch.Tensor, rows: int, generator: torch.Generator) -> torch.Tensor:
    """Return random rows of `codes`, each with up to three bits flipped."""
    queries = codes[draw_integers(0, len(codes), rows, generator)]
    row = torch.arange(rows, device=codes.device)
    for _ in range(FLIPS):
        word = draw_integers(0, codes.shape[1], rows, generator)
        queries[row, word] ^= (1 << draw_integers(0, WORD_BITS, rows, generator)).int()
    return queries


def _draw_whole_rows(rows: int, words: int, generator: torch.Generator) -> torch.Tensor:
    return -draw_integers(0, 2, rows, generator).int().unsqueeze(1).repeat(1, words)


def _set_signs(shared: torch.Tensor, rows: int, generator: torch.Generator) -> torch.Tensor:
    """Return rows that differ from `shared` in bit 31 of random words only."""
    signs = draw_integers(0, 2, rows * len(shared), generator).view(rows, -1).int() << (WORD_BITS - 1)
    return shared ^ signs


def generate(distribution: str, dims: Mapping[str, int], generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return seeded inputs. Raises ValueError for an unknown distribution."""
    rows, columns, words = dims["N"], dims["M"], dims["W"]
    match distribution:
        case "sparse-bits":
            codes, queries = _draw_sparse(rows, words, generator), _draw_sparse(columns, words, generator)
        case "near-duplicates":
            codes = _draw_words(rows, words, generator)
            queries = _flip_bits(codes, columns, generator)
        case "all-or-none":
            codes, queries = _draw_whole_rows(rows, words, generator), _draw_whole_rows(columns, words, generator)
        case "sign-bit":
            shared = _draw_words(1, words, generator)[0]
            codes, queries = _set_signs(shared, rows, generator), _set_signs(shared, columns, generator)
        case _:
            raise ValueError(f"unknown distribution {distribution!r}")
    return {"codes": codes, "queries": queries}


def _unpack(words: torch.Tensor) -> torch.Tensor:
    """Return the bits of each row, float64 (rows, 32 * words)."""
    bit = torch.arange(WORD_BITS, device=words.device)
    return ((words.long().unsqueeze(-1) >> bit) & 1).flatten(1).double()


def compute_oracle(
    inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[torch.Tensor, ...]:
    """Return the exact distances in float64: bits set in either, less twice those set in both."""
    codes, queries = _unpack(inputs["codes"]), _unpack(inputs["queries"])
    return (codes.sum(dim=1, keepdim=True) + queries.sum(dim=1) - 2.0 * codes @ queries.T,)
