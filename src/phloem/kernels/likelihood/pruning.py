"""Log-likelihoods of trees under any reversible nucleotide model, with derivatives for lengths and model.

Felsenstein's pruning over classes of equal columns (classes.py): messages m = P·p go up to the tree's own root, one for
each class of a clade and each rate category; there the three that meet make the likelihood of every pattern; on the way
down the derivatives O with respect to m make those with respect to every P, which the spectrum (spectrum.py) turns into
derivatives for lengths, rates and the rate matrix. One category has its states side by side (one_category.py), several
have four categories side by side (four_categories.py).

Messages that become small are multiplied by a power of two, which is exact, category by category; how often is counted,
so that any number of taxa is possible.
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import ByteArray, FloatArray, IntArray, LongArray, ShortArray
from phloem.kernels.elementary import log_above_zero
from phloem.kernels.jit import at, vector_kernel
from phloem.kernels.lanes import clear, four_at, four_of, put, sum_of
from phloem.kernels.likelihood.classes import Plans
from phloem.kernels.likelihood.four_categories import (
    FACTOR,
    SMALL,
    add_powers_four,
    go_down_four,
    go_up_four,
    make_factors_four,
    rescale_four,
    root_outside_four,
    root_shares_four,
    scale_outside_four,
    tip_derivative_four,
    tip_rows_four,
    weigh_shares_four,
)
from phloem.kernels.likelihood.one_category import (
    add_powers_one,
    go_down_one,
    go_up_one,
    make_factors_one,
    rescale_one,
    root_outside_one,
    root_shares_one,
    scale_outside_one,
    tip_derivative_one,
    tip_rows_one,
    weigh_shares_one,
)
from phloem.kernels.likelihood.spectrum import (
    GROWTH,
    MATRIX,
    add_rate_derivative,
    fill_transitions,
    time_derivative,
)

LOG_FACTOR = math.log(FACTOR)
LEAST_NORMAL = 2.0**-1022
ENTRIES = 16  # of a matrix
CODES = 16  # sets of states that a tip may have


class Columns(NamedTuple):
    """The patterns in blocks: block b is bounds[b]:bounds[b+1]."""

    bounds: LongArray  # (blocks + 1,)
    weights: FloatArray  # (patterns,)
    constant: ByteArray  # (patterns,)  bits of the states that all tips may have
    codes: ByteArray  # (taxa, CODES)  bits of the states of each tip's classes


class Classes(NamedTuple):
    """Classes of equal columns, kept from call to call."""

    classes: ShortArray  # (clades, patterns)
    counts: IntArray  # (clades, blocks)
    starts: LongArray  # (subsplits, blocks)
    pairs: ShortArray  # (room, 2)


class Rates(NamedTuple):
    """A model by the spectrum of its rate matrix, and its categories: one, or a multiple of four."""

    frequencies: FloatArray  # (4,)
    values: FloatArray  # (4,)  eigenvalues, ascending, the last is zero
    coefficients: FloatArray  # (3, 4, 4)
    right: FloatArray  # (4, 4)
    left: FloatArray  # (4, 4)
    rates: FloatArray  # (categories,)
    weights: FloatArray  # (categories,)
    invariant: FloatArray  # (4,)  proportion of invariant sites in each state


class Derivatives(NamedTuple):
    """What is found beside the values, each block its own share, as sums must have one order."""

    lengths: FloatArray  # (trees, blocks, 2n-3)
    inner: FloatArray  # (trees, blocks, 16)  Z · divided differences, from which dQ comes
    rates: FloatArray  # (trees, blocks, categories)
    weights: FloatArray  # (trees, blocks, categories)
    frequencies: FloatArray  # (trees, blocks, 4)
    invariant: FloatArray  # (trees, blocks, 4)


class Workspace(NamedTuple):
    """Room for one task after another. `group` is four categories, or the only one."""

    matrices: FloatArray  # (groups · branches · entries)
    columns: FloatArray  # the same by columns, for one category
    growth: FloatArray
    matrix_derivatives: FloatArray
    offsets: LongArray  # (branches + 1,)  first row of each node
    rows: FloatArray  # (groups · rows · row)  messages
    outside: FloatArray  # likewise  O
    scales: FloatArray  # (groups · rows · lanes)  what each message was multiplied by
    powers: FloatArray  # likewise  how often, with the messages that it was made of
    was_scaled: ByteArray  # (groups, branches)  whether any message of a node was
    has_powers: ByteArray  # (groups, branches)  whether any of those was that it was made of
    shares: FloatArray  # (groups · patterns · lanes)
    relative: FloatArray  # likewise
    likelihoods: FloatArray  # (patterns,)
    site_scales: FloatArray  # (patterns,)
    site_powers: FloatArray  # (patterns,)
    small: FloatArray  # a few matrices


@vector_kernel
def _make_workspace(branches, groups, lanes, rows, patterns):
    """lanes: 1 for one category, else 4."""
    row, matrix = 4 * lanes, ENTRIES * lanes
    padded = branches + 3  # four branches at a time
    return Workspace(
        np.empty(groups * padded * matrix),
        np.empty(padded * matrix if lanes == 1 else 1),
        np.empty(groups * padded * GROWTH),
        np.empty(groups * padded * matrix),
        np.empty(branches + 1, np.int64),
        np.empty(groups * rows * row),
        np.empty(groups * rows * row),
        np.empty(groups * rows * lanes),
        np.empty(groups * rows * lanes),
        np.empty((groups, branches), np.uint8),
        np.empty((groups, branches), np.uint8),
        np.empty(groups * patterns * lanes),
        np.empty(groups * patterns * lanes),
        np.empty(patterns),
        np.empty(patterns),
        np.empty(patterns),
        np.empty(3 * MATRIX),
    )


@vector_kernel
def _count_rows(clades, counts, block, offsets):
    """Where the rows of each node begin; returns how many there are."""
    rows = 0
    for node in range(len(clades)):
        offsets[node] = rows
        rows += counts[clades[node], block]
    offsets[len(clades)] = rows
    return rows


@vector_kernel
def _four_lengths(lengths, branches, first, room):
    """The lengths of four nodes' branches from `first` on, zero beyond the last."""
    for place in range(4):
        room[place] = lengths[branches[first + place]] if first + place < len(branches) else 0.0
    return four_at(room, 0)


@vector_kernel
def _fill_matrices(rates, lengths, branches, lanes, work):
    """P of every branch and category."""
    count = len(branches)
    coefficients, values, small = at(rates.coefficients, 0), at(rates.values, 0), at(work.small, 0)
    if lanes == 4:
        for group in range(len(rates.rates) // 4):
            rate = four_at(at(rates.rates, 4 * group), 0)
            for node in range(count):
                place = group * count + node
                times = rate * four_of(lengths[branches[node]])
                fill_transitions(
                    at(work.matrices, place * MATRIX), at(work.growth, place * GROWTH), coefficients, values, times
                )
        return
    for first in range(0, count, 4):
        times = _four_lengths(lengths, branches, first, at(work.small, MATRIX)) * four_of(rates.rates[0])
        fill_transitions(small, at(work.growth, first // 4 * GROWTH), coefficients, values, times)
        for place in range(4):
            for row in range(4):
                for column in range(4):
                    value = small[4 * (4 * row + column) + place]
                    work.matrices[(first + place) * ENTRIES + 4 * row + column] = value
                    work.columns[(first + place) * ENTRIES + 4 * column + row] = value


@vector_kernel
def _go_up(children, subsplits, classes, block, codes, group, lanes, work):
    """The messages of one group of categories; whether any was rescaled."""
    branches, interior = len(work.offsets) - 1, len(children)
    leaf_count = branches - interior
    row, base = 4 * lanes, group * work.offsets[branches]
    rescaled = False
    for node in range(branches):
        rows = at(work.rows, (base + work.offsets[node]) * row)
        count = work.offsets[node + 1] - work.offsets[node]
        place = (group * branches + node) * ENTRIES * lanes
        if node < leaf_count:
            if lanes == 1:
                tip_rows_one(rows, at(work.columns, place), at(codes, CODES * node), count)
            else:
                tip_rows_four(rows, at(work.matrices, place), at(codes, CODES * node), count)
            work.was_scaled[group, node] = work.has_powers[group, node] = 0
            continue
        left, right = children[node - leaf_count, 0], children[node - leaf_count, 1]
        left_rows = at(work.rows, (base + work.offsets[left]) * row)
        right_rows = at(work.rows, (base + work.offsets[right]) * row)
        pairs = at(classes.pairs, 2 * classes.starts[subsplits[node - leaf_count], block])
        if lanes == 1:
            smallest = go_up_one(rows, at(work.columns, place), left_rows, right_rows, pairs, count)
        else:
            smallest = go_up_four(rows, at(work.matrices, place), left_rows, right_rows, pairs, count)
        if _rescale(smallest, node, left, right, pairs, count, group, lanes, work):
            rescaled = True
    return rescaled


@vector_kernel
def _rescale(smallest, node, left, right, pairs, count, group, lanes, work):
    """Keep the messages of a node from becoming too small; whether any was multiplied."""
    small = smallest < SMALL
    counted = small or work.has_powers[group, left] or work.has_powers[group, right]
    work.was_scaled[group, node], work.has_powers[group, node] = small, counted
    if not counted:
        return False
    base = group * work.offsets[len(work.offsets) - 1]
    own = (base + work.offsets[node]) * lanes
    for place in range(count * lanes):
        work.powers[own + place] = 0.0
    for column in range(2):
        child = right if column else left
        if work.has_powers[group, child]:
            theirs = at(work.powers, (base + work.offsets[child]) * lanes)
            if lanes == 1:
                add_powers_one(at(work.powers, own), theirs, pairs, column, count)
            else:
                add_powers_four(at(work.powers, own), theirs, pairs, column, count)
    if small:
        rows = at(work.rows, own * 4)
        if lanes == 1:
            rescale_one(rows, count, at(work.scales, own), at(work.powers, own))
        else:
            rescale_four(rows, count, at(work.scales, own), at(work.powers, own))
    return small


@vector_kernel
def _site_likelihoods(tree, block, plans, classes, columns, rates, lanes, rescaled, work, site_values):
    """Log-likelihoods of the block's patterns; returns their sum."""
    start, patterns = columns.bounds[block], columns.bounds[block + 1] - columns.bounds[block]
    groups, total_rows = len(rates.rates) // lanes, work.offsets[len(work.offsets) - 1]
    first, second, third = plans.root_children[tree]
    width = classes.classes.shape[1]
    for group in range(groups):
        base = group * total_rows
        arguments = (
            at(work.rows, (base + work.offsets[first]) * 4 * lanes),
            at(classes.classes, plans.clades[tree, first] * width + start),
            at(work.rows, (base + work.offsets[second]) * 4 * lanes),
            at(classes.classes, plans.clades[tree, second] * width + start),
            at(work.rows, (base + work.offsets[third]) * 4 * lanes),
            at(classes.classes, plans.clades[tree, third] * width + start),
        )
        shares = at(work.shares, group * patterns * lanes)
        if lanes == 1:
            root_shares_one(shares, at(rates.frequencies, 0), *arguments, patterns)
        else:
            root_shares_four(shares, at(rates.frequencies, 0), *arguments, patterns)
    for pattern in range(patterns):
        work.likelihoods[pattern] = 0.0
        work.site_powers[pattern] = 0.0
    if rates.invariant[0] > 0.0:
        for pattern in range(patterns):
            for state in range(4):
                if (columns.constant[start + pattern] >> state) & 1:
                    work.likelihoods[pattern] += rates.invariant[state]
    if rescaled:
        _bring_together(tree, block, plans, classes, columns, rates, lanes, work)
    for group in range(groups):
        shares, weights = at(work.shares, group * patterns * lanes), at(rates.weights, group * lanes)
        if lanes == 1:
            weigh_shares_one(at(work.likelihoods, 0), shares, weights, patterns)
        else:
            weigh_shares_four(at(work.likelihoods, 0), shares, weights, patterns)
    tiny = 0
    for pattern in range(patterns):
        likelihood = work.likelihoods[pattern]
        tiny += likelihood < LEAST_NORMAL
        work.site_scales[pattern] = columns.weights[start + pattern] / likelihood
        site_values[start + pattern] = log_above_zero(likelihood) - work.site_powers[pattern] * LOG_FACTOR
    if tiny:
        for pattern in range(patterns):
            likelihood = work.likelihoods[pattern]
            if likelihood < LEAST_NORMAL:
                site_values[start + pattern] = math.log(likelihood) - work.site_powers[pattern] * LOG_FACTOR
            if likelihood == 0.0:  # an impossible site has no derivative
                work.site_scales[pattern] = 0.0
    return _weighted_sum(at(site_values, start), at(columns.weights, start), patterns)


@vector_kernel
def _weighted_sum(values, weights, count):
    """In one order, whatever else is computed, with eight partial sums."""
    low, high = four_of(0.0), four_of(0.0)
    for place in range(0, count - 7, 8):
        low += four_at(values, place) * four_at(weights, place)
        high += four_at(values, place + 4) * four_at(weights, place + 4)
    rest = 0.0
    for place in range(count - count % 8, count):
        rest += values[place] * weights[place]
    return sum_of(low + high) + rest


@vector_kernel
def _bring_together(tree, block, plans, classes, columns, rates, lanes, work):
    """Bring each pattern's categories to the least power that any of them has, and invariant sites to none at all."""
    start, patterns = columns.bounds[block], columns.bounds[block + 1] - columns.bounds[block]
    groups, total_rows = len(rates.rates) // lanes, work.offsets[len(work.offsets) - 1]
    for place in range(groups * patterns * lanes):
        work.relative[place] = 0.0
    for group in range(groups):
        for column in range(3):
            node = plans.root_children[tree, column]
            if not work.has_powers[group, node]:
                continue
            first_row = group * total_rows + work.offsets[node]
            for pattern in range(patterns):
                row = first_row + np.int64(classes.classes[plans.clades[tree, node], start + pattern])
                for place in range(lanes):
                    work.relative[(group * patterns + pattern) * lanes + place] += work.powers[row * lanes + place]
    for pattern in range(patterns):
        fewest = np.inf
        for category in range(groups * lanes):
            place = (category // lanes * patterns + pattern) * lanes + category % lanes
            if work.shares[place] > 0.0:  # of what is impossible nothing is known
                fewest = min(fewest, work.relative[place])
        if work.likelihoods[pattern] > 0.0 or fewest == np.inf:
            fewest = 0.0
        for category in range(groups * lanes):
            place = (category // lanes * patterns + pattern) * lanes + category % lanes
            work.relative[place] = FACTOR ** (fewest - work.relative[place]) if work.shares[place] > 0.0 else 0.0
            work.shares[place] *= work.relative[place]
        work.site_powers[pattern] = fewest


@vector_kernel
def _start_down(tree, block, plans, classes, columns, rates, lanes, rescaled, full, work, derivatives):
    """O of the root's children, and the derivatives for frequencies, categories' weights and invariant sites."""
    start, patterns = columns.bounds[block], columns.bounds[block + 1] - columns.bounds[block]
    groups, total_rows = len(rates.rates) // lanes, work.offsets[len(work.offsets) - 1]
    first, second, third = plans.root_children[tree]
    width = classes.classes.shape[1]
    small = at(work.small, 0)
    clear(at(work.outside, 0), groups * total_rows * lanes)
    clear(small, 4)
    for group in range(groups):
        base = group * total_rows
        shares, weights = at(work.shares, group * patterns * lanes), at(rates.weights, group * lanes)
        by_weight = at(
            derivatives.weights, (tree * derivatives.weights.shape[1] + block) * groups * lanes + group * lanes
        )
        for place in range(lanes):
            by_weight[place] = 0.0
        if lanes == 1:
            make_factors_one(shares, weights, at(work.site_scales, 0), patterns, by_weight)
        else:
            make_factors_four(shares, weights, at(work.site_scales, 0), patterns, by_weight)
        if rescaled:
            relative = at(work.relative, group * patterns * lanes)
            for place in range(patterns * lanes):
                shares[place] *= relative[place]
        arguments = (
            at(work.rows, (base + work.offsets[first]) * 4 * lanes),
            at(classes.classes, plans.clades[tree, first] * width + start),
            at(work.rows, (base + work.offsets[second]) * 4 * lanes),
            at(classes.classes, plans.clades[tree, second] * width + start),
            at(work.rows, (base + work.offsets[third]) * 4 * lanes),
            at(classes.classes, plans.clades[tree, third] * width + start),
        )
        outside = (
            at(work.outside, (base + work.offsets[first]) * 4 * lanes),
            at(work.outside, (base + work.offsets[second]) * 4 * lanes),
            at(work.outside, (base + work.offsets[third]) * 4 * lanes),
        )
        if lanes == 1:
            root_outside_one(shares, at(rates.frequencies, 0), *arguments, patterns, *outside, small)
        else:
            root_outside_four(shares, at(rates.frequencies, 0), *arguments, patterns, *outside, small)
    for state in range(4):
        by_state = small[state] if lanes == 1 else sum_of(four_at(small, 4 * state))
        derivatives.frequencies[tree, block, state] = by_state
        derivatives.invariant[tree, block, state] = 0.0
    if full:
        for pattern in range(patterns):
            for state in range(4):
                if (columns.constant[start + pattern] >> state) & 1:
                    derivatives.invariant[tree, block, state] += work.site_scales[pattern]


@vector_kernel
def _go_down(children, subsplits, classes, block, codes, group, lanes, work):
    """O of all nodes, and dP of all branches, parents first, for one group of categories."""
    branches, interior = len(work.offsets) - 1, len(children)
    leaf_count = branches - interior
    row, base = 4 * lanes, group * work.offsets[branches]
    for node in range(branches - 1, -1, -1):
        place = (group * branches + node) * ENTRIES * lanes
        derivative = at(work.matrix_derivatives, place)
        clear(derivative, 4 * lanes)
        outside = at(work.outside, (base + work.offsets[node]) * row)
        count = work.offsets[node + 1] - work.offsets[node]
        if node < leaf_count:
            if lanes == 1:
                tip_derivative_one(derivative, outside, at(codes, CODES * node), count)
            else:
                tip_derivative_four(derivative, outside, at(codes, CODES * node), count)
            continue
        if work.was_scaled[group, node]:
            scales = at(work.scales, (base + work.offsets[node]) * lanes)
            if lanes == 1:
                scale_outside_one(outside, scales, count)
            else:
                scale_outside_four(outside, scales, count)
        left, right = children[node - leaf_count, 0], children[node - leaf_count, 1]
        arguments = (
            outside,
            at(work.matrices, place),
            at(work.rows, (base + work.offsets[left]) * row),
            at(work.rows, (base + work.offsets[right]) * row),
            at(work.outside, (base + work.offsets[left]) * row),
            at(work.outside, (base + work.offsets[right]) * row),
            at(classes.pairs, 2 * classes.starts[subsplits[node - leaf_count], block]),
            count,
            derivative,
        )
        if lanes == 1:
            go_down_one(*arguments)
        else:
            go_down_four(*arguments)


@vector_kernel
def _chain(tree, block, lengths, branches, rates, lanes, full, work, derivatives):
    """From dP to lengths and, where `full`, to category rates and the rate matrix."""
    count = len(branches)
    coefficients, values = at(rates.coefficients, 0), at(rates.values, 0)
    right, left = at(rates.right, 0), at(rates.left, 0)
    derivative, inner, room = at(work.small, 0), at(work.small, MATRIX), at(work.small, 2 * MATRIX)
    clear(inner, ENTRIES)
    own = derivatives.lengths[tree, block]
    by_rate = derivatives.rates[tree, block]
    by_rate[:] = 0.0
    if lanes == 4:
        own[:] = 0.0
        for group in range(len(rates.rates) // 4):
            rate = four_at(at(rates.rates, 4 * group), 0)
            for node in range(count):
                branch, place = branches[node], group * count + node
                found, growth = at(work.matrix_derivatives, place * MATRIX), at(work.growth, place * GROWTH)
                by_time = time_derivative(found, growth, coefficients, values)
                own[branch] += sum_of(by_time * rate)
                if full:
                    time = four_of(lengths[branch])
                    put(at(by_rate, 4 * group), 0, four_at(at(by_rate, 4 * group), 0) + by_time * time)
                    add_rate_derivative(inner, found, growth, right, left, values, rate * time, room)
    else:
        for first in range(0, count, 4):
            for place in range(4):
                for entry in range(ENTRIES):
                    value = 0.0
                    if first + place < count:
                        value = work.matrix_derivatives[(first + place) * ENTRIES + 4 * (entry % 4) + entry // 4]
                    derivative[4 * entry + place] = value
            growth = at(work.growth, first // 4 * GROWTH)
            by_time = time_derivative(derivative, growth, coefficients, values)
            times = _four_lengths(lengths, branches, first, room)
            if full:
                by_rate[0] += sum_of(by_time * times)
                scaled = times * four_of(rates.rates[0])
                add_rate_derivative(inner, derivative, growth, right, left, values, scaled, room)
            put(room, 0, by_time * four_of(rates.rates[0]))
            for place in range(min(4, count - first)):
                own[branches[first + place]] = room[place]
    for entry in range(ENTRIES):
        derivatives.inner[tree, block, entry] = sum_of(four_at(inner, 4 * entry))


@vector_kernel
def evaluate(
    first_task: int,
    last_task: int,
    plans: Plans,
    classes: Classes,
    columns: Columns,
    rates: Rates,
    lengths: FloatArray,
    site_values: FloatArray,
    sums: FloatArray,
    derivatives: Derivatives,
    gradient: bool,
    full: bool,
) -> None:
    """Log-likelihoods of patterns (trees, patterns) and of blocks (trees, blocks), and derivatives if `gradient`.

    full: derivatives for the model too.


    Task tree · blocks + block writes to places that no other task writes to, so tasks can run in parallel.
    """
    blocks = len(columns.bounds) - 1
    branches = plans.branches.shape[1]
    lanes = 1 if len(rates.rates) == 1 else 4
    groups = len(rates.rates) // lanes
    offsets = np.empty(branches + 1, np.int64)
    most_rows, most_patterns = np.int64(0), np.int64(0)  # as constants they would have the callees compiled twice
    for task in range(first_task, last_task):
        tree, block = task // blocks, task % blocks
        most_rows = max(most_rows, _count_rows(plans.clades[tree], classes.counts, block, offsets))
        most_patterns = max(most_patterns, columns.bounds[block + 1] - columns.bounds[block])
    work = _make_workspace(branches, groups, lanes, most_rows, most_patterns)
    before = -1
    for task in range(first_task, last_task):
        tree, block = task // blocks, task % blocks
        children, subsplits, own_branches = plans.children[tree], plans.subsplits[tree], plans.branches[tree]
        if tree != before:
            _fill_matrices(rates, lengths[tree], own_branches, lanes, work)
            before = tree
        _count_rows(plans.clades[tree], classes.counts, block, work.offsets)
        rescaled = np.bool_(False)  # likewise
        for group in range(groups):
            if _go_up(children, subsplits, classes, block, columns.codes, group, lanes, work):
                rescaled = True
        sums[tree, block] = _site_likelihoods(
            tree, block, plans, classes, columns, rates, lanes, rescaled, work, site_values[tree]
        )
        if not gradient:
            continue
        _start_down(tree, block, plans, classes, columns, rates, lanes, rescaled, full, work, derivatives)
        for group in range(groups):
            _go_down(children, subsplits, classes, block, columns.codes, group, lanes, work)
        _chain(tree, block, lengths[tree], own_branches, rates, lanes, full, work, derivatives)
