"""Decimal numbers in a byte buffer, read to the nearest double for up to 19 digits and 1e-250 to 1e270.

A branch length written with 17 digits must come back as the same bits, so the product
mantissa × 10^exponent is formed in double-double arithmetic (106 bits) and rounded once.
"""

from fractions import Fraction

import numpy as np

from phloem.kernels.arrays import ByteArray, FloatArray
from phloem.kernels.jit import kernel

# Powers outside this range would overflow Dekker's splitting; such exponents take a second, plain factor.
LARGEST_POWER = 270


def _powers_of_ten() -> FloatArray:
    table = np.empty((2 * LARGEST_POWER + 1, 2))
    for row, exponent in enumerate(range(-LARGEST_POWER, LARGEST_POWER + 1)):
        exact = Fraction(10) ** exponent
        table[row, 0] = float(exact)
        table[row, 1] = float(exact - Fraction(float(exact)))
    return table


POWERS = _powers_of_ten()  # (2·270+1, 2)  high and low part of each power

ZERO, NINE = ord("0"), ord("9")
PLUS, MINUS, POINT = ord("+"), ord("-"), ord(".")
EXPONENT_SMALL, EXPONENT_LARGE = ord("e"), ord("E")
# Below this, one more digit cannot overflow 64 bits; the digits after that are beyond a double's precision.
MANTISSA_LIMIT = np.uint64(10**18)


@kernel
def _product_error(a: float, b: float, product: float) -> float:
    """a·b − product, exactly (Dekker 1971)."""
    split = 134217729.0  # 2^27 + 1
    a_scaled, b_scaled = a * split, b * split
    a_high = a_scaled - (a_scaled - a)
    b_high = b_scaled - (b_scaled - b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel
def _scale(mantissa: int, exponent: int) -> float:
    """mantissa · 10^exponent, rounded once unless the exponent is beyond the table."""
    power = min(max(exponent, -LARGEST_POWER), LARGEST_POWER)
    high = np.float64(mantissa)
    low = np.float64(np.int64(mantissa - np.uint64(high)))
    power_high = POWERS[power + LARGEST_POWER, 0]
    power_low = POWERS[power + LARGEST_POWER, 1]
    product = high * power_high
    rest = _product_error(high, power_high, product) + (high * power_low + low * power_high)
    value = product + rest
    if power != exponent:
        value *= 10.0 ** float(exponent - power)
    return value


@kernel
def parse_decimal(buffer: ByteArray, start: int, end: int) -> tuple[float, int]:
    """The number that begins at `start` and the position after it; (nan, start) where none begins."""
    position = start
    negative = False
    if position < end and (buffer[position] == PLUS or buffer[position] == MINUS):
        negative = buffer[position] == MINUS
        position += 1
    mantissa = np.uint64(0)
    exponent = 0
    digits = 0
    seen_point = False
    while position < end:
        byte = buffer[position]
        if ZERO <= byte <= NINE:
            digits += 1
            if mantissa < MANTISSA_LIMIT:
                mantissa = mantissa * np.uint64(10) + np.uint64(byte - ZERO)
                if seen_point:
                    exponent -= 1
            elif not seen_point:
                exponent += 1
        elif byte == POINT and not seen_point:
            seen_point = True
        else:
            break
        position += 1
    if digits == 0:
        return np.nan, start
    if position < end and (buffer[position] == EXPONENT_SMALL or buffer[position] == EXPONENT_LARGE):
        after = position + 1
        exponent_negative = False
        if after < end and (buffer[after] == PLUS or buffer[after] == MINUS):
            exponent_negative = buffer[after] == MINUS
            after += 1
        written = 0
        first_digit = after
        while after < end and ZERO <= buffer[after] <= NINE:
            if written < 100_000:
                written = written * 10 + np.int64(buffer[after] - ZERO)
            after += 1
        if after == first_digit:
            return np.nan, start
        exponent += -written if exponent_negative else written
        position = after
    value = 0.0 if mantissa == 0 else _scale(mantissa, exponent)
    return -value if negative else value, position
