"""Sums of a few rows of a table for many places, and the way back."""

from phloem.kernels.arrays import FloatArray, IntArray
from phloem.kernels.jit import kernel


@kernel
def sum_rows(table: FloatArray, rows: IntArray, sums: FloatArray) -> None:
    """sums[i] = Σ_k table[rows[i, k]], leaving out rows of -1."""
    for place in range(len(rows)):
        for column in range(sums.shape[1]):
            total = 0.0
            for term in range(rows.shape[1]):
                if rows[place, term] >= 0:
                    total += table[rows[place, term], column]
            sums[place, column] = total


@kernel
def sum_rows_backward(gradient: FloatArray, rows: IntArray, table_gradient: FloatArray) -> None:
    """Add the gradient of `sum_rows` to that of the table."""
    for place in range(len(rows)):
        for term in range(rows.shape[1]):
            if rows[place, term] >= 0:
                for column in range(gradient.shape[1]):
                    table_gradient[rows[place, term], column] += gradient[place, column]
