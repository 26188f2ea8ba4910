"""Log-likelihoods of trees under any reversible nucleotide model, with derivatives for lengths and model.

Felsenstein's pruning over classes of equal columns (classes.py): messages m = P·p go up to the tree's own root, one for
each class of a clade and each rate category; there the three that meet make the likelihood of every pattern; on the way
down the derivatives O with respect to m make those with respect to every P, which the spectrum (spectrum.py) turns into
derivatives for lengths, rates and the rate matrix. One category has its states side by side (one_category.py), several
have four categories side by side (four_categories.py).

Messages that become small are multiplied by a power of two, which is exact, category by category; how often is counted,
so that any number of taxa is possible.

Arrays come in and go out by the tuples below. What stages hand to one another are tuples of pointers: those of arrays
would be seven times as many values, and the compiler would take half as long again.
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import ByteArray, FloatArray, IntArray, LongArray, ShortArray
from phloem.kernels.elementary import log_above_zero
from phloem.kernels.jit import Pointer, at, shift, vector_kernel
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
    VALUES,
    add_rate_derivative,
    fill_transitions,
    time_derivative,
)

LOG_FACTOR = math.log(FACTOR)
LEAST_NORMAL = 2.0**-1022
ENTRIES = 16  # of a matrix
CODES = 16  # sets of states that a tip may have


class Columns(NamedTuple):
    """The patterns in blocks: block b is bounds[b]:bounds[b+1], all of them of one part of the alignment."""

    bounds: LongArray  # (blocks + 1,)
    parts: IntArray  # (blocks,)
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
    """Models by the spectra of their rate matrices, and their categories: one, or a multiple of four.

    `sets` is one if all trees have the same models, else there is a set for each tree.
    """

    frequencies: FloatArray  # (sets, parts, 4)
    values: FloatArray  # (sets, parts, 4)  eigenvalues, ascending, the last is zero
    coefficients: FloatArray  # (sets, parts, 3, 4, 4)
    right: FloatArray  # (sets, parts, 4, 4)
    left: FloatArray  # (sets, parts, 4, 4)
    rates: FloatArray  # (sets, parts, categories)
    weights: FloatArray  # (sets, parts, categories)
    invariant: FloatArray  # (sets, parts, 4)  proportion of invariant sites in each state


class Derivatives(NamedTuple):
    """What is found beside the values, each block its own share, as sums must have one order."""

    lengths: FloatArray  # (trees, blocks, 2n-3)
    inner: FloatArray  # (trees, blocks, 16)  Z · divided differences, from which dQ comes
    rates: FloatArray  # (trees, blocks, categories)
    weights: FloatArray  # (trees, blocks, categories)
    frequencies: FloatArray  # (trees, blocks, 4)
    invariant: FloatArray  # (trees, blocks, 4)


class Task(NamedTuple):
    """One block of patterns on one tree: sizes, and pointers to what is read."""

    tips: int
    branches: int
    patterns: int
    lanes: int  # 1 for one category, else 4
    groups: int  # of so many categories
    children: Pointer  # (n-3, 2)
    root_children: Pointer  # (3,)
    branch_numbers: Pointer  # (branches,)
    clades: Pointer  # (branches,)
    subsplits: Pointer  # (n-3,)
    lengths: Pointer  # (branches,)
    blocks: int  # how far the next clade's count is, and the next subsplit's start
    counts: Pointer
    starts: Pointer
    pairs: Pointer
    all_patterns: int  # how far the next clade's classes are
    classes: Pointer
    weights: Pointer  # (patterns,)
    constant: Pointer  # (patterns,)
    codes: Pointer  # (taxa, CODES)


class Model(NamedTuple):
    """Pointers to the arrays of `Rates`."""

    frequencies: Pointer
    values: Pointer
    coefficients: Pointer
    right: Pointer
    left: Pointer
    rates: Pointer
    weights: Pointer
    invariant: Pointer


class Found(NamedTuple):
    """Pointers to where the derivatives of one task go, as in `Derivatives`."""

    lengths: Pointer
    inner: Pointer
    rates: Pointer
    weights: Pointer
    frequencies: Pointer
    invariant: Pointer


class Workspace(NamedTuple):
    """Room for one task after another. `group` is four categories, or the only one."""

    matrices: Pointer  # (groups · branches · entries)
    columns: Pointer  # the same by columns, for one category
    growth: Pointer
    matrix_derivatives: Pointer
    rows: Pointer  # (groups · rows · row)  messages
    outside: Pointer  # likewise  O
    scales: Pointer  # (groups · rows · lanes)  what each message was multiplied by
    powers: Pointer  # likewise  how often, with the messages that it was made of
    shares: Pointer  # (groups · patterns · lanes)
    relative: Pointer  # likewise
    likelihoods: Pointer  # (patterns,)
    site_scales: Pointer  # (patterns,)
    site_powers: Pointer  # (patterns,)
    small: Pointer  # a few matrices
    offsets: Pointer  # (branches + 1,)  first row of each node
    was_scaled: Pointer  # (groups · branches)  whether any message of a node was
    has_powers: Pointer  # (groups · branches)  whether any of those was that it was made of


@vector_kernel
def _room_for(branches, groups, lanes, rows, patterns):
    """How many doubles the workspace takes: of matrices, growth, messages, numbers for each message, and patterns."""
    padded = branches + 3  # four branches at a time
    matrices, growth = groups * padded * ENTRIES * lanes, groups * padded * GROWTH
    messages, sites = groups * rows * lanes, groups * patterns * lanes
    return matrices, growth, 4 * messages, messages, sites


@vector_kernel
def _divide(room, offsets, marks, branches, groups, lanes, rows, patterns):
    """The workspace in one array."""
    matrices, growth, messages, numbers, sites = _room_for(branches, groups, lanes, rows, patterns)
    after_matrices = 3 * matrices + growth
    after_messages = after_matrices + 2 * messages + 2 * numbers
    after_sites = after_messages + 2 * sites
    return Workspace(
        at(room, 0),
        at(room, matrices),
        at(room, 3 * matrices),
        at(room, 2 * matrices),
        at(room, after_matrices),
        at(room, after_matrices + messages),
        at(room, after_matrices + 2 * messages),
        at(room, after_matrices + 2 * messages + numbers),
        at(room, after_messages),
        at(room, after_messages + sites),
        at(room, after_sites),
        at(room, after_sites + patterns),
        at(room, after_sites + 2 * patterns),
        at(room, after_sites + 3 * patterns),
        at(offsets, 0),
        at(marks, 0),
        at(marks, groups * branches),
    )


@vector_kernel
def _count_rows(clades, counts, blocks, branches, offsets):
    """Where the rows of each node begin; returns how many there are."""
    rows = np.int64(0)
    for node in range(branches):
        offsets[node] = rows
        rows += counts[clades[node] * blocks]
    offsets[branches] = rows
    return rows


@vector_kernel
def _four_lengths(task, first, room):
    """The lengths of four nodes' branches from `first` on, zero beyond the last."""
    for place in range(4):
        room[place] = task.lengths[task.branch_numbers[first + place]] if first + place < task.branches else 0.0
    return four_at(room, 0)


@vector_kernel
def _fill_matrices(task, model, work):
    """P of every branch and category."""
    if task.lanes == 4:
        for group in range(task.groups):
            rate = four_at(model.rates, 4 * group)
            for node in range(task.branches):
                place = group * task.branches + node
                times = rate * four_of(task.lengths[task.branch_numbers[node]])
                matrix, growth = shift(work.matrices, place * MATRIX), shift(work.growth, place * GROWTH)
                fill_transitions(matrix, growth, model.coefficients, model.values, times)
        return
    for first in range(0, task.branches, 4):
        times = _four_lengths(task, first, shift(work.small, MATRIX)) * four_of(model.rates[0])
        fill_transitions(work.small, shift(work.growth, first // 4 * GROWTH), model.coefficients, model.values, times)
        for place in range(4):
            for row in range(4):
                for column in range(4):
                    value = work.small[4 * (4 * row + column) + place]
                    work.matrices[(first + place) * ENTRIES + 4 * row + column] = value
                    work.columns[(first + place) * ENTRIES + 4 * column + row] = value


@vector_kernel
def _go_up(task, group, work):
    """The messages of one group of categories; whether any was rescaled."""
    row, base = 4 * task.lanes, group * work.offsets[task.branches]
    rescaled = False
    for node in range(task.branches):
        rows = shift(work.rows, (base + work.offsets[node]) * row)
        count = work.offsets[node + 1] - work.offsets[node]
        place = (group * task.branches + node) * ENTRIES * task.lanes
        if node < task.tips:
            if task.lanes == 1:
                tip_rows_one(rows, shift(work.columns, place), shift(task.codes, CODES * node), count)
            else:
                tip_rows_four(rows, shift(work.matrices, place), shift(task.codes, CODES * node), count)
            work.was_scaled[group * task.branches + node] = work.has_powers[group * task.branches + node] = 0
            continue
        interior = node - task.tips
        left, right = task.children[2 * interior], task.children[2 * interior + 1]
        left_rows = shift(work.rows, (base + work.offsets[left]) * row)
        right_rows = shift(work.rows, (base + work.offsets[right]) * row)
        pairs = shift(task.pairs, 2 * task.starts[task.subsplits[interior] * task.blocks])
        if task.lanes == 1:
            smallest = go_up_one(rows, shift(work.columns, place), left_rows, right_rows, pairs, count)
        else:
            smallest = go_up_four(rows, shift(work.matrices, place), left_rows, right_rows, pairs, count)
        if _rescale(smallest, node, left, right, pairs, count, group, task, work):
            rescaled = True
    return rescaled


@vector_kernel
def _rescale(smallest, node, left, right, pairs, count, group, task, work):
    """Keep the messages of a node from becoming too small; whether any was multiplied."""
    has_powers = shift(work.has_powers, group * task.branches)
    small = smallest < SMALL
    counted = small or has_powers[left] or has_powers[right]
    work.was_scaled[group * task.branches + node], has_powers[node] = small, counted
    if not counted:
        return False
    base = group * work.offsets[task.branches]
    own = (base + work.offsets[node]) * task.lanes
    powers = shift(work.powers, own)
    for place in range(count * task.lanes):
        powers[place] = 0.0
    for column in range(2):
        child = right if column else left
        if has_powers[child]:
            theirs = shift(work.powers, (base + work.offsets[child]) * task.lanes)
            if task.lanes == 1:
                add_powers_one(powers, theirs, pairs, column, count)
            else:
                add_powers_four(powers, theirs, pairs, column, count)
    if small:
        if task.lanes == 1:
            rescale_one(shift(work.rows, own * 4), count, shift(work.scales, own), powers)
        else:
            rescale_four(shift(work.rows, own * 4), count, shift(work.scales, own), powers)
    return small


@vector_kernel
def _at_root(rows, group, task, work):
    """The rows of the root's three children, of messages or of O."""
    base, row = group * work.offsets[task.branches], 4 * task.lanes
    first, second, third = task.root_children[0], task.root_children[1], task.root_children[2]
    return (
        shift(rows, (base + work.offsets[first]) * row),
        shift(rows, (base + work.offsets[second]) * row),
        shift(rows, (base + work.offsets[third]) * row),
    )


@vector_kernel
def _classes_at_root(task):
    """The classes of the block's patterns in the root's three children."""
    first, second, third = task.root_children[0], task.root_children[1], task.root_children[2]
    return (
        shift(task.classes, task.clades[first] * task.all_patterns),
        shift(task.classes, task.clades[second] * task.all_patterns),
        shift(task.classes, task.clades[third] * task.all_patterns),
    )


@vector_kernel
def _site_likelihoods(task, model, rescaled, work, site_values):
    """Log-likelihoods of the block's patterns; returns their sum."""
    patterns, lanes = task.patterns, task.lanes
    classes = _classes_at_root(task)
    for group in range(task.groups):
        messages, shares = _at_root(work.rows, group, task, work), shift(work.shares, group * patterns * lanes)
        if lanes == 1:
            root_shares_one(shares, model.frequencies, messages, classes, patterns)
        else:
            root_shares_four(shares, model.frequencies, messages, classes, patterns)
    for pattern in range(patterns):
        work.likelihoods[pattern] = 0.0
        work.site_powers[pattern] = 0.0
    if model.invariant[0] > 0.0:
        for pattern in range(patterns):
            for state in range(4):
                if (task.constant[pattern] >> state) & 1:
                    work.likelihoods[pattern] += model.invariant[state]
    if rescaled:
        _bring_together(task, work)
    for group in range(task.groups):
        shares, weights = shift(work.shares, group * patterns * lanes), shift(model.weights, group * lanes)
        if lanes == 1:
            weigh_shares_one(work.likelihoods, shares, weights, patterns)
        else:
            weigh_shares_four(work.likelihoods, shares, weights, patterns)
    tiny = 0
    for pattern in range(patterns):
        likelihood = work.likelihoods[pattern]
        tiny += likelihood < LEAST_NORMAL
        work.site_scales[pattern] = task.weights[pattern] / likelihood
        site_values[pattern] = log_above_zero(likelihood) - work.site_powers[pattern] * LOG_FACTOR
    if tiny:
        for pattern in range(patterns):
            likelihood = work.likelihoods[pattern]
            if likelihood < LEAST_NORMAL:
                site_values[pattern] = math.log(likelihood) - work.site_powers[pattern] * LOG_FACTOR
            if likelihood == 0.0:  # an impossible site has no derivative
                work.site_scales[pattern] = 0.0
    return _weighted_sum(site_values, task.weights, patterns)


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
def _bring_together(task, work):
    """Bring each pattern's categories to the least power that any of them has, and invariant sites to none at all."""
    patterns, lanes = task.patterns, task.lanes
    classes = _classes_at_root(task)
    for place in range(task.groups * patterns * lanes):
        work.relative[place] = 0.0
    for group in range(task.groups):
        for column in range(3):
            node = task.root_children[column]
            if not work.has_powers[group * task.branches + node]:
                continue
            powers = shift(work.powers, (group * work.offsets[task.branches] + work.offsets[node]) * lanes)
            for pattern in range(patterns):
                row = np.int64(classes[column][pattern]) * lanes
                for place in range(lanes):
                    work.relative[(group * patterns + pattern) * lanes + place] += powers[row + place]
    for pattern in range(patterns):
        fewest = np.inf
        for category in range(task.groups * lanes):
            place = (category // lanes * patterns + pattern) * lanes + category % lanes
            if work.shares[place] > 0.0:  # of what is impossible nothing is known
                fewest = min(fewest, work.relative[place])
        if work.likelihoods[pattern] > 0.0 or fewest == np.inf:
            fewest = 0.0
        for category in range(task.groups * lanes):
            place = (category // lanes * patterns + pattern) * lanes + category % lanes
            work.relative[place] = FACTOR ** (fewest - work.relative[place]) if work.shares[place] > 0.0 else 0.0
            work.shares[place] *= work.relative[place]
        work.site_powers[pattern] = fewest


@vector_kernel
def _start_down(task, model, rescaled, full, work, found):
    """O of the root's children, and the derivatives for frequencies, categories' weights and invariant sites."""
    patterns, lanes = task.patterns, task.lanes
    classes = _classes_at_root(task)
    clear(work.outside, task.groups * work.offsets[task.branches] * lanes)
    clear(work.small, 4)
    for group in range(task.groups):
        shares, weights = shift(work.shares, group * patterns * lanes), shift(model.weights, group * lanes)
        by_weight = shift(found.weights, group * lanes)
        for place in range(lanes):
            by_weight[place] = 0.0
        if lanes == 1:
            make_factors_one(shares, weights, work.site_scales, patterns, by_weight)
        else:
            make_factors_four(shares, weights, work.site_scales, patterns, by_weight)
        if rescaled:
            relative = shift(work.relative, group * patterns * lanes)
            for place in range(patterns * lanes):
                shares[place] *= relative[place]
        messages, outside = _at_root(work.rows, group, task, work), _at_root(work.outside, group, task, work)
        if lanes == 1:
            root_outside_one(shares, model.frequencies, messages, classes, patterns, outside, work.small)
        else:
            root_outside_four(shares, model.frequencies, messages, classes, patterns, outside, work.small)
    for state in range(4):
        by_state = work.small[state] if lanes == 1 else sum_of(four_at(work.small, 4 * state))
        found.frequencies[state] = by_state
        found.invariant[state] = 0.0
    if full:
        for pattern in range(patterns):
            for state in range(4):
                if (task.constant[pattern] >> state) & 1:
                    found.invariant[state] += work.site_scales[pattern]


@vector_kernel
def _go_down(task, group, work):
    """O of all nodes, and dP of all branches, parents first, for one group of categories."""
    row, base = 4 * task.lanes, group * work.offsets[task.branches]
    for node in range(task.branches - 1, -1, -1):
        place = (group * task.branches + node) * ENTRIES * task.lanes
        derivative = shift(work.matrix_derivatives, place)
        clear(derivative, 4 * task.lanes)
        outside = shift(work.outside, (base + work.offsets[node]) * row)
        count = work.offsets[node + 1] - work.offsets[node]
        if node < task.tips:
            if task.lanes == 1:
                tip_derivative_one(derivative, outside, shift(task.codes, CODES * node), count)
            else:
                tip_derivative_four(derivative, outside, shift(task.codes, CODES * node), count)
            continue
        if work.was_scaled[group * task.branches + node]:
            scales = shift(work.scales, (base + work.offsets[node]) * task.lanes)
            if task.lanes == 1:
                scale_outside_one(outside, scales, count)
            else:
                scale_outside_four(outside, scales, count)
        interior = node - task.tips
        left, right = task.children[2 * interior], task.children[2 * interior + 1]
        arguments = (
            outside,
            shift(work.matrices, place),
            shift(work.rows, (base + work.offsets[left]) * row),
            shift(work.rows, (base + work.offsets[right]) * row),
            shift(work.outside, (base + work.offsets[left]) * row),
            shift(work.outside, (base + work.offsets[right]) * row),
            shift(task.pairs, 2 * task.starts[task.subsplits[interior] * task.blocks]),
            count,
            derivative,
        )
        if task.lanes == 1:
            go_down_one(*arguments)
        else:
            go_down_four(*arguments)


@vector_kernel
def _chain(task, model, full, work, found):
    """From dP to lengths and, where `full`, to category rates and the rate matrix."""
    derivative, inner, room = work.small, shift(work.small, MATRIX), shift(work.small, 2 * MATRIX)
    clear(inner, ENTRIES)
    for category in range(task.groups * task.lanes):
        found.rates[category] = 0.0
    if task.lanes == 4:
        for branch in range(task.branches):
            found.lengths[branch] = 0.0
        for group in range(task.groups):
            rate = four_at(model.rates, 4 * group)
            for node in range(task.branches):
                branch, place = task.branch_numbers[node], group * task.branches + node
                own, growth = shift(work.matrix_derivatives, place * MATRIX), shift(work.growth, place * GROWTH)
                by_time = time_derivative(own, growth, model.coefficients, model.values)
                found.lengths[branch] += sum_of(by_time * rate)
                if full:
                    time = four_of(task.lengths[branch])
                    put(found.rates, 4 * group, four_at(found.rates, 4 * group) + by_time * time)
                    add_rate_derivative(inner, own, growth, model.right, model.left, model.values, rate * time, room)
    else:
        rate = four_of(model.rates[0])
        for first in range(0, task.branches, 4):
            for place in range(4):
                for entry in range(ENTRIES):
                    value = 0.0
                    if first + place < task.branches:
                        value = work.matrix_derivatives[(first + place) * ENTRIES + 4 * (entry % 4) + entry // 4]
                    derivative[4 * entry + place] = value
            growth = shift(work.growth, first // 4 * GROWTH)
            by_time = time_derivative(derivative, growth, model.coefficients, model.values)
            times = _four_lengths(task, first, room)
            if full:
                found.rates[0] += sum_of(by_time * times)
                scaled = times * rate
                add_rate_derivative(inner, derivative, growth, model.right, model.left, model.values, scaled, room)
            put(room, 0, by_time * rate)
            for place in range(min(4, task.branches - first)):
                found.lengths[task.branch_numbers[first + place]] = room[place]
    for entry in range(ENTRIES):
        found.inner[entry] = sum_of(four_at(inner, 4 * entry))


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
    blocks, all_patterns = len(columns.bounds) - 1, len(columns.weights)
    branches, interior = plans.branches.shape[1], plans.subsplits.shape[1]
    sets, parts, categories = rates.rates.shape
    lanes = 1 if categories == 1 else 4
    groups = categories // lanes
    offsets, marks = np.empty(branches + 1, np.int64), np.empty(2 * groups * branches, np.uint8)
    most_rows, most_patterns = np.int64(0), np.int64(0)  # as constants they would have the callees compiled twice
    for number in range(first_task, last_task):
        tree, block = number // blocks, number % blocks
        clades, counts = at(plans.clades, tree * branches), at(classes.counts, block)
        most_rows = max(most_rows, _count_rows(clades, counts, blocks, branches, at(offsets, 0)))
        most_patterns = max(most_patterns, columns.bounds[block + 1] - columns.bounds[block])
    matrices, growth, messages, numbers, sites = _room_for(branches, groups, lanes, most_rows, most_patterns)
    room = np.empty(3 * matrices + growth + 2 * (messages + numbers + sites) + 3 * (most_patterns + MATRIX))
    work = _divide(room, offsets, marks, branches, groups, lanes, most_rows, most_patterns)
    tree_before, part_before = -1, -1
    for number in range(first_task, last_task):
        tree, block = number // blocks, number % blocks
        start, part = columns.bounds[block], columns.parts[block]
        place = part if sets == 1 else tree * parts + part
        model = Model(
            at(rates.frequencies, place * 4),
            at(rates.values, place * 4),
            at(rates.coefficients, place * VALUES * ENTRIES),
            at(rates.right, place * ENTRIES),
            at(rates.left, place * ENTRIES),
            at(rates.rates, place * categories),
            at(rates.weights, place * categories),
            at(rates.invariant, place * 4),
        )
        task = Task(
            branches - interior,
            branches,
            columns.bounds[block + 1] - start,
            lanes,
            groups,
            at(plans.children, tree * 2 * interior),
            at(plans.root_children, tree * 3),
            at(plans.branches, tree * branches),
            at(plans.clades, tree * branches),
            at(plans.subsplits, tree * interior),
            at(lengths, tree * branches),
            blocks,
            at(classes.counts, block),
            at(classes.starts, block),
            at(classes.pairs, 0),
            all_patterns,
            at(classes.classes, start),
            at(columns.weights, start),
            at(columns.constant, start),
            at(columns.codes, 0),
        )
        if tree != tree_before or part != part_before:
            _fill_matrices(task, model, work)
            tree_before, part_before = tree, part
        _count_rows(task.clades, task.counts, blocks, branches, work.offsets)
        rescaled = np.bool_(False)  # likewise
        for group in range(groups):
            if _go_up(task, group, work):
                rescaled = True
        own_values = at(site_values, tree * all_patterns + start)
        sums[tree, block] = _site_likelihoods(task, model, rescaled, work, own_values)
        if not gradient:
            continue
        found = Found(
            at(derivatives.lengths, number * branches),
            at(derivatives.inner, number * ENTRIES),
            at(derivatives.rates, number * categories),
            at(derivatives.weights, number * categories),
            at(derivatives.frequencies, number * 4),
            at(derivatives.invariant, number * 4),
        )
        _start_down(task, model, rescaled, full, work, found)
        for group in range(groups):
            _go_down(task, group, work)
        _chain(task, model, full, work, found)
    room[0] = offsets[0] = marks[0] = 0  # used here, they are not freed while pointers to them are in use
