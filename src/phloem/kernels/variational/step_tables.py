"""The tables that a training step asks for: brought up to date, normalised, differentiated and moved; no others.

Ten trees touch a few hundred tables, and a closed support may have ten thousand. Adam moves a logit without a gradient
too, as its momentum fades: parameter -= rate · m̂ / (√v̂ + ε), where every step takes m to β₁m and v to β₂v. All entries
of a table have missed the same steps, so that these moves are summed when the table is next asked for, at a cost that
does not grow with their number.

With s = √v before the missed steps t = a + 1, a + 2, …, these move a parameter by

    m Σ_t c_t / (r_t s + ε),   c_t = rate_t β₁^(t-a) / (1 - β₁^t),   r_t = β₂^((t-a)/2) / √(1 - β₂^t),

and r_t hardly changes while c_t fades. Around its mean r, weighted by c, with x = r s / (r s + ε) between 0 and 1,

    m Σ_t c_t / (r_t s + ε) = m / (r s + ε) · Σ_k M_k (-x)^k,   M_k = Σ_t c_t (r_t / r - 1)^k.

Up to k = 8, and where r_t still changes quickly, at the beginning, in pieces of an eighth of the steps before, the
sum is as good as a loop over the steps: to 2e-14, for moves of up to 1.
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, IntArray, LongArray
from phloem.kernels.elementary import exp_below_zero
from phloem.kernels.jit import Pointer, at, kernel, shift, vector_kernel, wide_vectors
from phloem.kernels.training import DECAY, EPSILON, SQUARE_DECAY

MEMORY = 320  # missed steps that still move anything: 0.9^320 is 2e-15
PIECES = 8
LANES = 16  # partial sums side by side, as in `kernels/training.py`
LEAST = -708.0  # the logarithm of the least normal number
STEP, DRAW, ASKED = 0, 1, 2  # places among the counters


class StepTables(NamedTuple):
    """The tables with parameters of a network in training.

    What the entries of a table have in `probabilities` is of this draw if the table was asked for, and a logarithm if
    the entry itself was. In rows of two: a rate divided by 1 - β₁^t, and 1 / √(1 - β₂^t); powers of β₁ and √β₂.
    """

    starts: LongArray  # (tables + 1,)
    table_of: IntArray  # (parameters,)
    logits: FloatArray  # (parameters,)
    mean: FloatArray  # (parameters,)
    square: FloatArray  # (parameters,)
    table_steps: LongArray  # (tables,)      the step of Adam up to which a table is up to date
    recent: FloatArray  # (MEMORY, 2)        of the last steps, step t in row t % MEMORY
    powers: FloatArray  # (MEMORY + 1, 2)
    counters: LongArray  # (3,)              steps of Adam, draws, tables that were asked for
    drawn: LongArray  # (tables,)            the draw that last asked for a table
    asked: IntArray  # (tables,)             tables that this draw asked for, in that order
    log_sums: FloatArray  # (tables,)        of exponentials of logits
    probabilities: FloatArray  # (entries,)
    log_probabilities: FloatArray  # (entries,)
    lanes: FloatArray  # (LANES,)            room for partial sums


class Pointers(NamedTuple):
    """Where the arrays of `StepTables` are in memory: access to an array in a tuple would cost two atomic counts."""

    starts: Pointer
    table_of: Pointer
    logits: Pointer
    mean: Pointer
    square: Pointer
    table_steps: Pointer
    recent: Pointer
    powers: Pointer
    counters: Pointer
    drawn: Pointer
    asked: Pointer
    log_sums: Pointer
    probabilities: Pointer
    log_probabilities: Pointer
    lanes: Pointer


@kernel
def pointers_to(tables):
    """The same tables for the functions below."""
    return Pointers(
        at(tables.starts, 0),
        at(tables.table_of, 0),
        at(tables.logits, 0),
        at(tables.mean, 0),
        at(tables.square, 0),
        at(tables.table_steps, 0),
        at(tables.recent, 0),
        at(tables.powers, 0),
        at(tables.counters, 0),
        at(tables.drawn, 0),
        at(tables.asked, 0),
        at(tables.log_sums, 0),
        at(tables.probabilities, 0),
        at(tables.log_probabilities, 0),
        at(tables.lanes, 0),
    )


@vector_kernel
def advance(tables, table):
    """Bring a table's logits and moments up to date: what Adam would have done at steps that did not ask for it."""
    wide_vectors()
    now, last = tables.counters[STEP], tables.table_steps[table]
    if last == now:
        return
    tables.table_steps[table] = now
    start, count = tables.starts[table], tables.starts[table + 1] - tables.starts[table]
    target, first, second = shift(tables.logits, start), shift(tables.mean, start), shift(tables.square, start)
    recent, powers = tables.recent, tables.powers
    end = min(now, last + MEMORY)
    while last < end:
        missed = min(end - last, max(1, last // PIECES))
        weight, root = 0.0, 0.0
        for step in range(1, missed + 1):
            row = 2 * ((last + step) % MEMORY)
            scale = recent[row] * powers[2 * step]
            weight += scale
            root += scale * recent[row + 1] * powers[2 * step + 1]
        m2, m3, m4, m5, m6, m7, m8 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        if weight > 0.0:
            root /= weight
            for step in range(1, missed + 1):
                row = 2 * ((last + step) % MEMORY)
                scale = recent[row] * powers[2 * step]
                part = 1.0 - recent[row + 1] * powers[2 * step + 1] / root
                square = part * part
                scale *= square
                m2 += scale
                m3 += scale * part
                scale *= square
                m4 += scale
                m5 += scale * part
                scale *= square
                m6 += scale
                m7 += scale * part
                m8 += scale * square
        fade, fade_root = powers[2 * missed], powers[2 * missed + 1]
        for place in range(count):
            size = root * math.sqrt(second[place])
            whole = size + EPSILON
            share = size / whole
            series = m7 + share * m8
            series = m6 + share * series
            series = m5 + share * series
            series = m4 + share * series
            series = m3 + share * series
            series = m2 + share * series
            target[place] -= first[place] / whole * (weight + share * share * series)
            first[place] *= fade
            second[place] *= fade_root * fade_root
        last += missed
    if last < now:
        fade = powers[2] ** (now - last)
        fade_square = (powers[3] * powers[3]) ** (now - last)
        for place in range(count):
            first[place] *= fade
            second[place] *= fade_square


@vector_kernel
def sum_of(values, count, lanes):
    """The sum of so many values, with room for LANES partial sums."""
    for lane in range(LANES):
        lanes[lane] = 0.0
    for first in range(0, count - LANES + 1, LANES):
        for lane in range(LANES):
            lanes[lane] += values[first + lane]
    total = 0.0
    for place in range(count - count % LANES, count):
        total += values[place]
    for lane in range(LANES):
        total += lanes[lane]
    return total


@vector_kernel
def normalize(tables, table):
    """Softmax of a table: its probabilities, and the logarithm of its sum. If all logits are -inf, it is uniform."""
    wide_vectors()
    start, count = tables.starts[table], tables.starts[table + 1] - tables.starts[table]
    source, target = shift(tables.logits, start), shift(tables.probabilities, start)
    lanes = tables.lanes
    whole = count - count % LANES
    largest = source[0]
    for place in range(whole, count):
        largest = source[place] if source[place] > largest else largest
    if whole > 0:
        for lane in range(LANES):
            lanes[lane] = source[lane]
        for first in range(LANES, whole, LANES):
            for lane in range(LANES):
                value = source[first + lane]
                lanes[lane] = value if value > lanes[lane] else lanes[lane]
        for lane in range(LANES):
            largest = lanes[lane] if lanes[lane] > largest else largest
    if largest == -math.inf:
        for place in range(count):
            target[place] = 1.0 / count
        tables.log_sums[table] = -math.inf
        return
    for place in range(count):
        value = source[place] - largest
        power = exp_below_zero(value)
        target[place] = power if value > LEAST else 0.0
    total = sum_of(target, count, lanes)
    scale = 1.0 / total
    for place in range(count):
        target[place] *= scale
    tables.log_sums[table] = largest + math.log(total)


@kernel
def ask(tables, table):
    """A table's probabilities are those of this draw."""
    counters = tables.counters
    if tables.drawn[table] != counters[DRAW]:
        tables.drawn[table] = counters[DRAW]
        tables.asked[counters[ASKED]] = table
        counters[ASKED] += 1
        advance(tables, table)
        normalize(tables, table)


@kernel
def ask_entries(tables: StepTables, splits: IntArray, entries: IntArray) -> None:
    """Log-probabilities of all entries that the rootings of some trees use; the entries of root splits are the splits.

    Entries without parameters have theirs already.
    """
    own, parameters = pointers_to(tables), len(tables.logits)
    for part in range(2):
        used, count = (at(splits, 0), splits.size) if part == 0 else (at(entries, 0), entries.size)
        for place in range(count):
            entry = used[place]
            if 0 <= entry < parameters:
                table = own.table_of[entry]
                ask(own, table)
                if own.log_sums[table] > -math.inf:
                    own.log_probabilities[entry] = own.logits[entry] - own.log_sums[table]
                else:
                    own.log_probabilities[entry] = math.log(own.probabilities[entry])


@vector_kernel
def differentiate(tables: StepTables, counts: FloatArray) -> None:
    """From derivatives with respect to log-probabilities to logits, in place, in the tables that were asked for.

    Count - probability · (sum of the table's counts); counts: (parameters,).
    """
    wide_vectors()
    own = pointers_to(tables)
    for number in range(own.counters[ASKED]):
        start, end = own.starts[own.asked[number]], own.starts[own.asked[number] + 1]
        target, shares = at(counts, start), shift(own.probabilities, start)
        total = sum_of(target, end - start, own.lanes)
        for place in range(end - start):
            target[place] -= total * shares[place]


@kernel
def clear(tables: StepTables, gradient: FloatArray) -> None:
    """Zero the gradient of the tables that were asked for: all others have none."""
    own = pointers_to(tables)
    for number in range(own.counters[ASKED]):
        start, end = own.starts[own.asked[number]], own.starts[own.asked[number] + 1]
        gradient[start:end] = 0.0


@vector_kernel
def move(tables: StepTables, gradient: FloatArray, rate: float) -> bool:
    """A step of Adam, at which all tables that were not asked for have no gradient: they move when they are needed.

    A gradient that is not finite moves nothing, and the result is False.
    """
    wide_vectors()
    own = pointers_to(tables)
    counters, lanes = own.counters, own.lanes
    for lane in range(LANES):
        lanes[lane] = 0.0
    for number in range(counters[ASKED]):
        start, end = own.starts[own.asked[number]], own.starts[own.asked[number] + 1]
        source = at(gradient, start)
        whole = (end - start) - (end - start) % LANES
        for first in range(0, whole, LANES):
            for lane in range(LANES):
                lanes[lane] += source[first + lane] * source[first + lane]
        for place in range(whole, end - start):
            lanes[0] += source[place] * source[place]
    total = 0.0
    for lane in range(LANES):
        total += lanes[lane]
    if not total < math.inf:
        return False
    counters[STEP] += 1
    now = counters[STEP]
    scale, root = rate / (1 - DECAY**now), 1 / math.sqrt(1 - SQUARE_DECAY**now)
    row = 2 * (now % MEMORY)
    own.recent[row], own.recent[row + 1] = scale, root
    for number in range(counters[ASKED]):
        table = own.asked[number]
        own.table_steps[table] = now
        start, end = own.starts[table], own.starts[table + 1]
        target, source = shift(own.logits, start), at(gradient, start)
        first, second = shift(own.mean, start), shift(own.square, start)
        for place in range(end - start):
            slope = source[place]
            moment = DECAY * first[place] + (1 - DECAY) * slope
            spread = SQUARE_DECAY * second[place] + (1 - SQUARE_DECAY) * slope * slope
            first[place] = moment
            second[place] = spread
            target[place] -= scale * moment / (root * math.sqrt(spread) + EPSILON)
    return True


@kernel
def advance_all(tables: StepTables) -> None:
    """Bring all tables up to date."""
    own = pointers_to(tables)
    for table in range(len(tables.table_steps)):
        advance(own, table)
