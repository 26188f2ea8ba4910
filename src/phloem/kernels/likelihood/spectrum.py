"""Transition matrices from the eigenvalues of the rate matrix, and derivatives back through them, four at a time.

With Q = R Λ L, and A_k the product of column k of R and row k of L,

    P(τ) = I + Σ_k A_k · (exp(λ_k τ) - 1)

which keeps small probabilities exact on short branches; one eigenvalue is zero. From dP, the derivative with respect to
every entry of P, with Z = Rᵀ dP Lᵀ:

    dτ = Σ_k λ_k exp(λ_k τ) Z_kk        dQ = Lᵀ (Z · divided differences) Rᵀ        (Daleckii and Krein)

where the divided difference of λ_k and λ_l is (exp(λ_k τ) - exp(λ_l τ)) / (λ_k - λ_l), or τ exp(λ_k τ) where they are
equal, as they are in JC69, K80, F81 and HKY85. dQ is summed over branches and categories before the outer products.

The four lanes are four rate categories of one branch, or four branches.
"""

from phloem.kernels.jit import shift, vector_kernel
from phloem.kernels.lanes import expm1_below_zero, four_at, four_of, put

VALUES = 3  # eigenvalues below zero
GROWTH = 4 * VALUES  # doubles
MATRIX = 64
EQUAL = 1e-14  # the gap between eigenvalues that are one


@vector_kernel
def fill_transitions(matrix, growth, coefficients, values, times):
    """P (16 entries), and exp(λτ) - 1 for each eigenvalue, for four times τ."""
    first = expm1_below_zero(times * four_of(values[0]))
    second = expm1_below_zero(times * four_of(values[1]))
    third = expm1_below_zero(times * four_of(values[2]))
    put(growth, 0, first)
    put(growth, 4, second)
    put(growth, 8, third)
    for entry in range(16):
        value = four_of(1.0 if entry % 5 == 0 else 0.0)
        value += first * four_of(coefficients[entry])
        value += second * four_of(coefficients[16 + entry])
        value += third * four_of(coefficients[32 + entry])
        put(matrix, 4 * entry, value)


@vector_kernel
def time_derivative(derivative, growth, coefficients, values):
    """dτ from dP."""
    result = four_of(0.0)
    for k in range(VALUES):
        inner = four_of(0.0)
        for entry in range(16):
            inner += four_at(derivative, 4 * entry) * four_of(coefficients[16 * k + entry])
        result += (four_at(growth, 4 * k) + four_of(1.0)) * four_of(values[k]) * inner
    return result


@vector_kernel
def add_rate_derivative(inner, derivative, growth, right, left, values, times, room):
    """inner (16 entries) += Z · divided differences. The eigenvalues ascend, and zero is the last of them."""
    for column in range(4):
        d0, d1 = four_at(derivative, 4 * column), four_at(derivative, 16 + 4 * column)
        d2, d3 = four_at(derivative, 32 + 4 * column), four_at(derivative, 48 + 4 * column)
        for k in range(4):
            value = d0 * four_of(right[k]) + d1 * four_of(right[4 + k])
            value += d2 * four_of(right[8 + k]) + d3 * four_of(right[12 + k])
            put(room, 4 * (4 * k + column), value)
    for k in range(4):
        row = shift(room, 16 * k)
        z0, z1, z2, z3 = four_at(row, 0), four_at(row, 4), four_at(row, 8), four_at(row, 12)
        for other in range(4):
            z = z0 * four_of(left[4 * other]) + z1 * four_of(left[4 * other + 1])
            z += z2 * four_of(left[4 * other + 2]) + z3 * four_of(left[4 * other + 3])
            difference = _divided_difference(min(k, other), max(k, other), growth, values, times)
            entry = 4 * (4 * k + other)
            put(inner, entry, z * difference + four_at(inner, entry))


@vector_kernel
def _divided_difference(low, high, growth, values, times):
    """From the larger exponential, nothing is lost to cancellation, and however long τ is, nothing overflows."""
    larger = four_of(1.0)
    if high < VALUES:
        larger += four_at(growth, 4 * high)
    gap = values[high] - values[low]
    if gap < EQUAL:
        return times * larger
    if high == VALUES:
        return four_at(growth, 4 * low) * four_of(-1.0 / gap)
    return larger * expm1_below_zero(times * four_of(-gap)) * four_of(-1.0 / gap)
