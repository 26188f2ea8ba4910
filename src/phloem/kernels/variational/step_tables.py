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
sum is as good as a loop over the steps: to 2e-14, for moves of up to 1. Every `MEMORY` steps all tables are brought up
to date, so that no more rates than these are needed.
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, IntArray, LongArray
from phloem.kernels.elementary import exp_below_zero
from phloem.kernels.jit import at, from_address, kernel, shift, vector_kernel, wide_vectors
from phloem.kernels.training import DECAY, EPSILON, SQUARE_DECAY

MEMORY = 320  # steps, of which the most are missed
PIECES = 8
LANES = 16  # partial sums side by side, as in `kernels/training.py`
LEAST = -708.0  # the logarithm of the least normal number
# Places among the counters: steps of Adam, draws, tables that this draw asked for; how many there are of each.
STEP, DRAW, ASKED, TABLES, PARAMETERS = 0, 1, 2, 3, 4


class StepTables(NamedTuple):
    """The tables with parameters of a network in training.

    What the entries of a table have in `probabilities` is of this draw if the table was asked for, and a logarithm if
    the entry itself was. In rows of two: a rate divided by 1 - β₁^t, and 1 / √(1 - β₂^t); powers of β₁ and √β₂.

    Python makes it of arrays (`addresses`), kernels of pointers (`tables_at`): so many arrays would take longer from
    one to the other than some kernels take, and an array in a tuple costs two atomic counts at every use.
    """

    logits: FloatArray  # (parameters,)
    mean: FloatArray  # (parameters,)
    square: FloatArray  # (parameters,)
    gradient: FloatArray  # (parameters,)    zero where no table was asked for
    probabilities: FloatArray  # (entries,)
    log_probabilities: FloatArray  # (entries,)
    log_sums: FloatArray  # (tables,)        of exponentials of logits
    recent: FloatArray  # (MEMORY, 2)        of the last steps, step t in row t % MEMORY
    powers: FloatArray  # (MEMORY + 1, 2)
    series: FloatArray  # (MEMORY, 11)       sums over missed steps, those from step t on in row t % MEMORY
    lanes: FloatArray  # (LANES,)            room for partial sums
    starts: LongArray  # (tables + 1,)
    table_steps: LongArray  # (tables,)      the step of Adam up to which a table is up to date
    drawn: LongArray  # (tables,)            the draw that last asked for a table
    counters: LongArray  # (5,)              see `STEP` and those after it
    table_of: IntArray  # (parameters,)
    asked: IntArray  # (tables,)             tables that this draw asked for, in that order


def addresses(tables: StepTables) -> LongArray:
    """Where the arrays are in memory, for kernels. They must stay there, and live as long."""
    return np.array([array.ctypes.data for array in tables], np.int64)


@kernel
def tables_at(places):
    """The same as pointers, from their addresses."""
    real, long, word = np.empty(0, np.float64), np.empty(0, np.int64), np.empty(0, np.int32)
    return StepTables(
        from_address(real, places[0]),
        from_address(real, places[1]),
        from_address(real, places[2]),
        from_address(real, places[3]),
        from_address(real, places[4]),
        from_address(real, places[5]),
        from_address(real, places[6]),
        from_address(real, places[7]),
        from_address(real, places[8]),
        from_address(real, places[9]),
        from_address(real, places[10]),
        from_address(long, places[11]),
        from_address(long, places[12]),
        from_address(long, places[13]),
        from_address(long, places[14]),
        from_address(word, places[15]),
        from_address(word, places[16]),
    )


@vector_kernel
def series_of(tables, last, missed):
    """The sums over so many steps after the last one: M_0, r and M_2 to M_8, as all tables need that missed them."""
    row = shift(tables.series, 11 * (last % MEMORY))
    series = shift(row, 2)
    if row[0] == last and row[1] == missed:
        return series
    row[0], row[1] = last, missed
    for power in range(9):
        series[power] = 0.0
    for step in range(1, missed + 1):
        recent, powers = shift(tables.recent, 2 * ((last + step) % MEMORY)), shift(tables.powers, 2 * step)
        scale = recent[0] * powers[0]
        series[0] += scale
        series[1] += scale * recent[1] * powers[1]
    if series[0] > 0.0:
        series[1] /= series[0]
        for step in range(1, missed + 1):
            recent, powers = shift(tables.recent, 2 * ((last + step) % MEMORY)), shift(tables.powers, 2 * step)
            scale = recent[0] * powers[0]
            part = 1.0 - recent[1] * powers[1] / series[1]
            scale *= part
            for power in range(2, 9):
                scale *= part
                series[power] += scale
    return series


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
    while last < now:
        missed = min(now - last, max(1, last // PIECES))
        sums = series_of(tables, last, missed)
        m0, root, m2, m3, m4, m5, m6, m7, m8 = (
            sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7], sums[8],
        )  # fmt: skip
        fade, fade_root = tables.powers[2 * missed], tables.powers[2 * missed + 1]
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
            target[place] -= first[place] / whole * (m0 + share * share * series)
            first[place] *= fade
            second[place] *= fade_root * fade_root
        last += missed


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
def ask_tables(places: LongArray, wanted: IntArray) -> None:
    """Ask for some tables."""
    tables = tables_at(places)
    for place in range(len(wanted)):
        ask(tables, wanted[place])


@kernel
def ask_entries(places: LongArray, splits: IntArray, entries: IntArray) -> None:
    """Log-probabilities of all entries that the rootings of some trees use; the entries of root splits are the splits.

    Entries without parameters have theirs already.
    """
    tables = tables_at(places)
    for part in range(2):
        used, count = (at(splits, 0), splits.size) if part == 0 else (at(entries, 0), entries.size)
        for place in range(count):
            entry = used[place]
            if 0 <= entry < tables.counters[PARAMETERS]:
                table = tables.table_of[entry]
                ask(tables, table)
                if tables.log_sums[table] > -math.inf:
                    tables.log_probabilities[entry] = tables.logits[entry] - tables.log_sums[table]
                else:
                    tables.log_probabilities[entry] = math.log(tables.probabilities[entry])


@vector_kernel
def differentiate(places: LongArray) -> None:
    """From derivatives with respect to log-probabilities to logits, in place, in the tables that were asked for.

    Count - probability · (sum of the table's counts).
    """
    wide_vectors()
    tables = tables_at(places)
    for number in range(tables.counters[ASKED]):
        start, end = tables.starts[tables.asked[number]], tables.starts[tables.asked[number] + 1]
        target, shares = shift(tables.gradient, start), shift(tables.probabilities, start)
        total = sum_of(target, end - start, tables.lanes)
        for place in range(end - start):
            target[place] -= total * shares[place]


@kernel
def clear_gradient(places: LongArray) -> None:
    """Zero the gradient of the tables that were asked for: all others have none."""
    tables = tables_at(places)
    for number in range(tables.counters[ASKED]):
        start, end = tables.starts[tables.asked[number]], tables.starts[tables.asked[number] + 1]
        for place in range(start, end):
            tables.gradient[place] = 0.0


@vector_kernel
def move(places: LongArray, rate: float) -> bool:
    """A step of Adam, at which all tables that were not asked for have no gradient: they move when they are needed.

    A gradient that is not finite moves nothing, and the result is False.
    """
    wide_vectors()
    tables = tables_at(places)
    counters, lanes = tables.counters, tables.lanes
    for lane in range(LANES):
        lanes[lane] = 0.0
    for number in range(counters[ASKED]):
        start, end = tables.starts[tables.asked[number]], tables.starts[tables.asked[number] + 1]
        source = shift(tables.gradient, start)
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
    tables.recent[row], tables.recent[row + 1] = scale, root
    for number in range(counters[ASKED]):
        table = tables.asked[number]
        tables.table_steps[table] = now
        start, end = tables.starts[table], tables.starts[table + 1]
        target, source = shift(tables.logits, start), shift(tables.gradient, start)
        first, second = shift(tables.mean, start), shift(tables.square, start)
        for place in range(end - start):
            slope = source[place]
            moment = DECAY * first[place] + (1 - DECAY) * slope
            spread = SQUARE_DECAY * second[place] + (1 - SQUARE_DECAY) * slope * slope
            first[place] = moment
            second[place] = spread
            target[place] -= scale * moment / (root * math.sqrt(spread) + EPSILON)
    if now % MEMORY == 0:
        for table in range(counters[TABLES]):
            advance(tables, table)
    return True


@kernel
def advance_all(places: LongArray) -> None:
    """Bring all tables up to date."""
    tables = tables_at(places)
    for table in range(tables.counters[TABLES]):
        advance(tables, table)
