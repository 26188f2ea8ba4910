"""Philox4x64-10 (Salmon et al. 2011) inside kernels: the numbers of `RandomStream` without a generator object.

A block is a function of a key and a counter alone, so any kernel can draw any particle's numbers. The doubles are
those of numpy's `Generator(Philox(key, counter)).random()`, bit for bit.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from phloem.arrays import FloatArray, WordArray
from phloem.kernels.jit import kernel

ROUNDS = 10
FIRST_MULTIPLIER = np.uint64(0xD2E7470EE14C6C93)
SECOND_MULTIPLIER = np.uint64(0xCA5A826395121157)
FIRST_KEY_STEP = np.uint64(0x9E3779B97F4A7C15)
SECOND_KEY_STEP = np.uint64(0xBB67AE8584CAA73B)
UNIT = 2.0**-53


@intrinsic
def high_product(_context: Any, _first: Any, _second: Any) -> Any:
    """The upper 64 bits of the 128-bit product of two words."""
    word, double_word = ir.IntType(64), ir.IntType(128)

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        first, second = (builder.zext(argument, double_word) for argument in arguments)
        return builder.trunc(builder.lshr(builder.mul(first, second), ir.Constant(double_word, 64)), word)

    return types.uint64(types.uint64, types.uint64), generate


@kernel
def block(key: WordArray, low: int, particle: int, step: int) -> tuple[int, int, int, int]:
    """Four random words for the counter (low, 0, particle, step)."""
    first, second, third, fourth = np.uint64(low), np.uint64(0), np.uint64(particle), np.uint64(step)
    first_key, second_key = key[0], key[1]
    for _ in range(ROUNDS):
        first, second, third, fourth = (
            high_product(SECOND_MULTIPLIER, third) ^ second ^ first_key,
            SECOND_MULTIPLIER * third,
            high_product(FIRST_MULTIPLIER, first) ^ fourth ^ second_key,
            FIRST_MULTIPLIER * first,
        )
        first_key += FIRST_KEY_STEP
        second_key += SECOND_KEY_STEP
    return first, second, third, fourth


@kernel
def fill_uniform(key: WordArray, particle: int, step: int, numbers: FloatArray) -> None:
    """Uniform numbers in [0, 1): the first that the stream's generator gives for that particle and step."""
    for start in range(0, len(numbers), 4):
        # numpy counts before it draws, so its first block has number 1.
        words = block(key, start // 4 + 1, particle, step)
        for place in range(min(4, len(numbers) - start)):
            numbers[start + place] = (words[place] >> np.uint64(11)) * UNIT


@kernel
def fill_normal(key: WordArray, particle: int, step: int, numbers: FloatArray) -> None:
    """Standard normal numbers by Box & Muller (1958) from that particle's uniform ones at that step."""
    for start in range(0, len(numbers), 4):
        words = block(key, start // 4 + 1, particle, step)
        for pair in range(2):
            # 1 - u is never zero, so its logarithm is finite.
            radius = math.sqrt(-2.0 * math.log(1.0 - (words[2 * pair] >> np.uint64(11)) * UNIT))
            angle = 2.0 * math.pi * ((words[2 * pair + 1] >> np.uint64(11)) * UNIT)
            place = start + 2 * pair
            if place < len(numbers):
                numbers[place] = radius * math.cos(angle)
            if place + 1 < len(numbers):
                numbers[place + 1] = radius * math.sin(angle)


@kernel
def fill_normal_rows(key: WordArray, first_particle: int, step: int, rows: FloatArray) -> None:
    """Standard normal numbers, one particle a row, starting with `first_particle`."""
    for row in range(len(rows)):
        fill_normal(key, first_particle + row, step, rows[row])
