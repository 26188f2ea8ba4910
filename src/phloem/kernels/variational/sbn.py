"""The arithmetic of subsplit networks: tables, samples, the probabilities of all rootings, counts of used
entries, and sums over all trees of a closed support.

A tree comes with its subsplit indices (`subsplits.py`): entries[v, i, s] is the table entry of the subsplit that node v
shows to its neighbour i beside sister s, -1 where there is none. Entries 0 to splits-1 are the root splits.
"""

import math

import numpy as np

from phloem.arrays import FloatArray, IntArray, LongArray, WordArray
from phloem.kernels.jit import Pointer, at, kernel
from phloem.kernels.philox import fill_uniform
from phloem.kernels.trees.canonical import write_canonical
from phloem.kernels.variational.step_tables import TABLES, ask, tables_at
from phloem.kernels.variational.subsplits import branch_at, other_slot, slot_of


@kernel
def shift_tables(logits: FloatArray, starts: LongArray, shifted: FloatArray, copy: FloatArray) -> None:
    """Each table's logits (starts: tables+1) minus their maximum, so that exponentials cannot overflow; written twice.

    If all are -inf, all become 0: tables that cannot be reached are uniform.
    """
    source, target, other = at(logits, 0), at(shifted, 0), at(copy, 0)
    for table in range(len(starts) - 1):
        first, end = starts[table], starts[table + 1]
        largest = source[first]
        for entry in range(first + 1, end):
            if source[entry] > largest:
                largest = source[entry]
        for entry in range(first, end):
            target[entry] = source[entry] - largest if largest > -np.inf else 0.0
            other[entry] = target[entry]


@kernel
def sum_tables(values: FloatArray, starts: LongArray) -> FloatArray:
    """The sum over each table's entries, (tables,)."""
    source = at(values, 0)
    sums = np.empty(len(starts) - 1)
    for table in range(len(starts) - 1):
        total = 0.0
        for entry in range(starts[table], starts[table + 1]):
            total += source[entry]
        sums[table] = total
    return sums


@kernel
def scale_tables(
    sums: FloatArray, log_sums: FloatArray, starts: LongArray, values: FloatArray, log_values: FloatArray
) -> None:
    """Divide each table's values by their sum, in place, and subtract its logarithm from theirs."""
    numbers, logs = at(values, 0), at(log_values, 0)
    for table in range(len(starts) - 1):
        scale, shift = 1.0 / sums[table], log_sums[table]
        for entry in range(starts[table], starts[table + 1]):
            numbers[entry] *= scale
            logs[entry] -= shift


@kernel
def logit_gradient(counts: FloatArray, probabilities: FloatArray, starts: LongArray) -> FloatArray:
    """From derivatives with respect to log-probabilities to logits: count - probability · (sum of the table's)."""
    gradient = np.empty(starts[-1])
    source, shares, target = at(counts, 0), at(probabilities, 0), at(gradient, 0)
    for table in range(len(starts) - 1):
        first, end = starts[table], starts[table + 1]
        total = 0.0
        for entry in range(first, end):
            total += source[entry]
        for entry in range(first, end):
            target[entry] = source[entry] - total * shares[entry]
    return gradient


@kernel
def sample_trees(
    probabilities: FloatArray,
    starts: LongArray,
    children: IntArray,
    leaf_count: int,
    key: WordArray,
    step: int,
    first_particle: int,
    parents: IntArray,
    trained: LongArray | None,
) -> None:
    """Fill parents (batch, 2n-2) with canonical trees, each drawn with the random numbers of its particle.

    children[entry] are the tables of its two halves, or -1 - taxon for a single taxon. trained: the addresses
    of tables in training, if probabilities are to be asked for.
    """
    numbers = np.empty(leaf_count - 1)
    raw = np.empty(2 * leaf_count - 1, np.int32)
    no_lengths = np.zeros(2 * leaf_count - 1)
    scratch = np.empty((4, 2 * leaf_count - 1), np.int32)
    waiting = np.empty((leaf_count, 2), np.int64)  # tables still to be drawn from, and the nodes above
    if trained is not None:
        own = tables_at(trained)
    for tree in range(len(parents)):
        fill_uniform(key, first_particle + tree, step, numbers)
        node = leaf_count
        waiting[0, 0], waiting[0, 1] = 0, -1
        depth = 1
        while depth > 0:
            depth -= 1
            table, raw[node] = waiting[depth, 0], waiting[depth, 1]
            if trained is not None and table < own.counters[TABLES]:
                ask(own, table)
            entry = draw_entry(probabilities, starts[table], starts[table + 1], numbers[node - leaf_count])
            for half in range(2):
                child = children[entry, half]
                if child < 0:
                    raw[-1 - child] = node
                else:
                    waiting[depth, 0], waiting[depth, 1] = child, node
                    depth += 1
            node += 1
        write_canonical(raw, no_lengths, leaf_count, leaf_count, False, scratch, parents[tree], no_lengths[:0])


@kernel
def draw_entry(probabilities: FloatArray, first: int, end: int, uniform: float) -> int:
    """The entry at which the running sum exceeds `uniform`; rounding never gives one of probability zero."""
    drawn = first
    for entry in range(first, end):
        if probabilities[entry] > 0.0:
            drawn = entry
            uniform -= probabilities[entry]
            if uniform < 0.0:
                break
    return drawn


@kernel
def log_rootings(neighbors: IntArray, splits: IntArray, entries: IntArray, log_probabilities: FloatArray) -> FloatArray:
    """Log-probability of each tree rooted on each branch, (batch, 2n-3), in time linear in n.

    inner[v, i]: all that is below v seen from neighbour i, given how v divides; it is the same for every
    root beyond i.
    """
    batch, branches = splits.shape
    nodes = branches + 1
    leaf_count = nodes // 2 + 1
    totals = np.empty((batch, branches))
    inner = np.empty((nodes - leaf_count, 3))
    logs = at(log_probabilities, 0)
    for tree in range(batch):
        tree_neighbors = at(neighbors, tree * nodes * 3)
        used = at(entries, tree * inner.size * 3)
        for node in range(leaf_count, nodes):
            inner[node - leaf_count, 0] = inner_term(tree_neighbors, used, at(inner, 0), logs, leaf_count, node, 0)
        for node in range(nodes - 1, leaf_count - 1, -1):
            for slot in range(1, 3):
                inner[node - leaf_count, slot] = inner_term(
                    tree_neighbors, used, at(inner, 0), logs, leaf_count, node, slot
                )
        for branch in range(branches):
            above = tree_neighbors[3 * branch]
            slot = slot_of(tree_neighbors, above, branch)
            total = log_of(logs, splits[tree, branch])
            total += log_of(logs, entries[tree, above - leaf_count, slot, 0]) + inner[above - leaf_count, slot]
            if branch >= leaf_count:
                total += log_of(logs, entries[tree, branch - leaf_count, 0, 0]) + inner[branch - leaf_count, 0]
            totals[tree, branch] = total
    return totals


@kernel
def sum_rootings(log_rooted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The log-sum over rootings (batch,) and the share of each (batch, 2n-3), zero where none is possible."""
    batch, branches = log_rooted.shape
    log_sums = np.full(batch, -np.inf)
    shares = np.zeros((batch, branches))
    for tree in range(batch):
        largest = log_rooted[tree].max()
        if largest > -np.inf:
            total = 0.0
            for branch in range(branches):
                shares[tree, branch] = math.exp(log_rooted[tree, branch] - largest)
                total += shares[tree, branch]
            for branch in range(branches):
                shares[tree, branch] /= total
            log_sums[tree] = largest + math.log(total)
    return log_sums, shares


@kernel
def inner_term(
    tree_neighbors: Pointer, used: Pointer, inner: Pointer, logs: Pointer, leaf_count: int, node: int, slot: int
) -> float:
    """What the two subtrees at `node` away from neighbour `slot` contribute, each the other's sister."""
    total = 0.0
    for place in range(1, 3):
        toward = other_slot(slot, place)
        sister = other_slot(slot, 3 - place)
        neighbor = tree_neighbors[3 * node + toward]
        if neighbor >= leaf_count:
            back = slot_of(tree_neighbors, neighbor, node)
            seen = 3 * (neighbor - leaf_count) + back
            total += log_of(logs, used[3 * seen + (1 if other_slot(toward, 1) == sister else 2)]) + inner[seen]
    return total


@kernel
def log_of(logs: Pointer, entry: int) -> float:
    """An entry's log-probability; -inf outside the support."""
    return logs[entry] if entry >= 0 else -np.inf


@kernel
def count_entries(
    neighbors: IntArray,
    splits: IntArray,
    entries: IntArray,
    shares: FloatArray,
    tree_weights: FloatArray,
    counts: FloatArray,
) -> None:
    """Add to counts how often each entry is used, over trees with weights and rootings with shares in them.

    counts: of all entries, or of those with parameters. A sister other than the complement is used by all roots beyond
    the third branch of the neighbour.
    """
    batch, branches = splits.shape
    nodes = branches + 1
    leaf_count = nodes // 2 + 1
    weights = np.empty(branches)
    beyond = np.empty((nodes, 3))  # weight of the roots beyond each neighbour, its branch included
    totals = at(counts, 0)
    for tree in range(batch):
        tree_neighbors = at(neighbors, tree * nodes * 3)
        for branch in range(branches):
            weights[branch] = tree_weights[tree] * shares[tree, branch]
            add_count(totals, len(counts), splits[tree, branch], weights[branch])
        for node in range(leaf_count, nodes):
            for slot in range(1, 3):
                child = tree_neighbors[3 * node + slot]
                beyond[node, slot] = weights[child]
                if child >= leaf_count:
                    beyond[node, slot] += beyond[child, 1] + beyond[child, 2]
        for node in range(nodes - 1, leaf_count - 1, -1):
            if node == nodes - 1:
                beyond[node, 0] = weights[0]
            else:
                above = tree_neighbors[3 * node]
                sibling = 3 - slot_of(tree_neighbors, above, node)
                beyond[node, 0] = weights[node] + beyond[above, 0] + beyond[above, sibling]
        for node in range(leaf_count, nodes):
            for slot in range(3):
                neighbor = tree_neighbors[3 * node + slot]
                used = at(entries, 3 * (3 * (tree * (nodes - leaf_count) + node - leaf_count) + slot))
                branch, _ = branch_at(tree_neighbors, nodes, node, slot)
                add_count(totals, len(counts), used[0], weights[branch])
                if neighbor >= leaf_count:
                    back = slot_of(tree_neighbors, neighbor, node)
                    add_count(totals, len(counts), used[1], beyond[neighbor, other_slot(back, 2)])
                    add_count(totals, len(counts), used[2], beyond[neighbor, other_slot(back, 1)])


@kernel
def add_count(counts: Pointer, size: int, entry: int, weight: float) -> None:
    """Count an entry if it is in the support; rootings that need others have weight zero."""
    if 0 <= entry < size:
        counts[entry] += weight


@kernel
def sum_products(
    potentials: FloatArray,
    halves: IntArray,
    children: IntArray,
    starts: LongArray,
    order: LongArray,
    log_sums: FloatArray,
    log_shares: FloatArray,
) -> None:
    """Sums over the trees of each clade, weighted by the product of their splits' weights.

    Fill log_sums (tables) and log_shares (entries). potentials: logarithms of the weights, (splits,).

    halves and children (entries, 2) are the splits of an entry's two halves and their tables, -1 - taxon for a single
    taxon. `order` has all tables but that of the root splits, halves before the clades that they make up.

    A table's sum is over the trees of its clade, its share the part of each of its entries. An entry of table 0 gets
    no share but the sum over all trees that have the split.
    """
    weights, sums, shares = at(potentials, 0), at(log_sums, 0), at(log_shares, 0)
    for place in range(len(order)):
        table = order[place]
        first, end = starts[table], starts[table + 1]
        largest = -math.inf
        for entry in range(first, end):
            value = side_sum(weights, sums, at(halves, 2 * entry), at(children, 2 * entry), 0)
            value += side_sum(weights, sums, at(halves, 2 * entry), at(children, 2 * entry), 1)
            shares[entry] = value
            largest = max(largest, value)
        total = 0.0
        for entry in range(first, end):
            total += math.exp(shares[entry] - largest)
        sums[table] = largest + math.log(total)
        for entry in range(first, end):
            shares[entry] -= sums[table]
    for split in range(starts[1]):
        value = side_sum(weights, sums, at(halves, 2 * split), at(children, 2 * split), 0)
        value += side_sum(weights, sums, at(halves, 2 * split), at(children, 2 * split), 1)
        shares[split] = value - weights[split]  # both sides have it


@kernel
def side_sum(weights: Pointer, sums: Pointer, halves: Pointer, children: Pointer, side: int) -> float:
    """The log-sum over the trees of one half, with the weight of its own split."""
    child = children[side]
    return weights[halves[side]] + (sums[child] if child >= 0 else 0.0)
