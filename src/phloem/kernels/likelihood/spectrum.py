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
from phloem.kernels.lanes import expm1_below_zero, load, spread, store

VALUES = 3  # eigenvalues below zero
GROWTH = 4 * VALUES  # doubles
MATRIX = 64
EQUAL = 1e-14  # the gap between eigenvalues that are one


@vector_kernel
def fill_transitions(matrix, growth, coefficients, values, times):
    """P (16 entries), and exp(λτ) - 1 for each eigenvalue, for four times τ."""
    first = expm1_below_zero(times * spread(values[0]))
    second = expm1_below_zero(times * spread(values[1]))
    third = expm1_below_zero(times * spread(values[2]))
    store(growth, 0, first)
    store(growth, 4, second)
    store(growth, 8, third)
    for entry in range(16):
        value = spread(1.0 if entry % 5 == 0 else 0.0)
        value += first * spread(coefficients[entry])
        value += second * spread(coefficients[16 + entry])
        value += third * spread(coefficients[32 + entry])
        store(matrix, 4 * entry, value)


@vector_kernel
def time_derivative(derivative, growth, coefficients, values):
    """dτ from dP."""
    result = spread(0.0)
    for k in range(VALUES):
        inner = spread(0.0)
        for entry in range(16):
            inner += load(derivative, 4 * entry) * spread(coefficients[16 * k + entry])
        result += (load(growth, 4 * k) + spread(1.0)) * spread(values[k]) * inner
    return result


@vector_kernel
def add_rate_derivative(inner, derivative, growth, right, left, values, times, room):
    """inner (16 entries) += Z · divided differences. The eigenvalues ascend, and zero is the last of them."""
    for column in range(4):
        d0, d1 = load(derivative, 4 * column), load(derivative, 16 + 4 * column)
        d2, d3 = load(derivative, 32 + 4 * column), load(derivative, 48 + 4 * column)
        for k in range(4):
            value = d0 * spread(right[k]) + d1 * spread(right[4 + k])
            value += d2 * spread(right[8 + k]) + d3 * spread(right[12 + k])
            store(room, 4 * (4 * k + column), value)
    for k in range(4):
        row = shift(room, 16 * k)
        z0, z1, z2, z3 = load(row, 0), load(row, 4), load(row, 8), load(row, 12)
        for other in range(4):
            z = z0 * spread(left[4 * other]) + z1 * spread(left[4 * other + 1])
            z += z2 * spread(left[4 * other + 2]) + z3 * spread(left[4 * other + 3])
            difference = _divided_difference(min(k, other), max(k, other), growth, values, times)
            entry = 4 * (4 * k + other)
            store(inner, entry, z * difference + load(inner, entry))


@vector_kernel
def _divided_difference(low, high, growth, values, times):
    """From the larger exponential, nothing is lost to cancellation, and however long τ is, nothing overflows."""
    larger = spread(1.0)
    if high < VALUES:
        larger += load(growth, 4 * high)
    gap = values[high] - values[low]
    if gap < EQUAL:
        return times * larger
    if high == VALUES:
        return load(growth, 4 * low) * spread(-1.0 / gap)
    return larger * expm1_below_zero(times * spread(-gap)) * spread(-1.0 / gap)
