"""Classes of equal columns, and where each tree of a batch is best evaluated from.

Within a clade many columns of an alignment are equal, whatever the others have there, and so are their partial
likelihoods, whatever the topology inside the clade. A clade's classes are its distinct columns; a class of a clade that
divides into two is a pair of theirs. All of it depends on the alignment alone, so it is kept from call to call:

    clades     their leaves as bit sets, found by hashing; their classes: one number a pattern, and how many there are
    subsplits  two clades that make a third; the pairs of their classes, one for each class of the whole

The likelihood of a reversible model does not depend on the root. Each tree is rooted at that interior node which leaves
the fewest classes to compute; as these are not known before, size^0.7 stands for the classes of a clade.

Patterns come in blocks, each with its own classes: a class has 16 bits, what is computed for a block stays in the
processor's cache, and blocks can be shared between threads.
"""

from typing import NamedTuple

import numpy as np

from phloem.arrays import IntArray, LongArray, ShortArray, WordArray
from phloem.kernels.jit import kernel

FACTOR = np.uint64(0x9E3779B97F4A7C15)
SIZE_POWER = 0.7
EMPTY = -1


class KnownClades(NamedTuple):
    """The clades and subsplits that have been seen. Clades 0 to n-1 are the tips."""

    bits: WordArray  # (clades, words)  leaf i is bit i % 64 of word i // 64
    clade_slots: IntArray  # (a power of two,)  numbers of clades, hashed by their bits
    first_parts: IntArray  # (clades, 2)  the two clades of the subsplit in which each was first seen
    subsplits: IntArray  # (subsplits, 3)  two clades, and their union
    subsplit_slots: IntArray  # (a power of two,)  numbers of subsplits, hashed by their two clades
    used: LongArray  # (2,)  how many clades and subsplits there are


class Plans(NamedTuple):
    """How to go over each tree from its own root. Tips and interior nodes are numbered, children first."""

    children: IntArray  # (trees, n-3, 2)  of interior nodes but the root
    root_children: IntArray  # (trees, 3)
    branches: IntArray  # (trees, 2n-3)  the tree's own number of the branch above each node
    clades: IntArray  # (trees, 2n-3)
    subsplits: IntArray  # (trees, n-3)


@kernel
def _choose_root(neighbors, sizes, weights, excess):
    """The interior node from which the sum of all interior clades' weights is least."""
    nodes = len(neighbors)
    leaf_count = nodes // 2 + 1
    for node in range(nodes - 1):
        sizes[node] = 1 if node < leaf_count else sizes[neighbors[node, 1]] + sizes[neighbors[node, 2]]
    best, lowest = nodes - 1, 0.0
    excess[best] = 0.0
    for node in range(nodes - 2, leaf_count - 1, -1):  # moving the root across a branch turns one clade round
        excess[node] = excess[neighbors[node, 0]] - weights[sizes[node]] + weights[leaf_count - sizes[node]]
        if excess[node] < lowest:
            best, lowest = node, excess[node]
    return best


@kernel
def _number_nodes(neighbors, root, order, origins, numbers, children, root_children, branches):
    """Number the nodes children first, the other way round than a walk from the root meets them."""
    nodes = len(neighbors)
    leaf_count = nodes // 2 + 1
    interior = nodes - leaf_count - 1
    for leaf in range(leaf_count):
        numbers[leaf] = leaf
        branches[leaf] = leaf
    found, done = 0, 0
    for column in range(3):
        if neighbors[root, column] >= leaf_count:
            order[found], origins[found] = neighbors[root, column], root
            found += 1
    while done < found:
        node, origin = order[done], origins[done]
        number = nodes - 2 - done
        numbers[node] = number
        branches[number] = node if neighbors[node, 0] == origin else origin
        for column in range(3):
            other = neighbors[node, column]
            if other != origin and other >= leaf_count:
                order[found], origins[found] = other, node
                found += 1
        done += 1
    for place in range(interior):
        node, origin = order[place], origins[place]
        column = 0
        for direction in range(3):
            other = neighbors[node, direction]
            if other != origin:
                children[interior - 1 - place, column] = numbers[other]
                column += 1
    for column in range(3):
        root_children[column] = numbers[neighbors[root, column]]


@kernel
def _clade_slot(known, wanted):
    """Where a clade is in the table, or would be."""
    mixed = np.uint64(0)
    for word in range(len(wanted)):
        mixed = (mixed ^ wanted[word]) * FACTOR
        mixed ^= mixed >> np.uint64(32)
    mask = len(known.clade_slots) - 1
    slot = np.int64(mixed) & mask
    while known.clade_slots[slot] != EMPTY:
        clade = known.clade_slots[slot]
        same = True
        for word in range(len(wanted)):
            same &= known.bits[clade, word] == wanted[word]
        if same:
            break
        slot = (slot + 1) & mask
    return slot


@kernel
def _subsplit_slot(known, left, right):
    """Where a subsplit is in the table, or would be."""
    mixed = (np.uint64(left) * FACTOR ^ np.uint64(right)) * FACTOR
    mixed ^= mixed >> np.uint64(32)
    mask = len(known.subsplit_slots) - 1
    slot = np.int64(mixed) & mask
    while known.subsplit_slots[slot] != EMPTY:
        subsplit = known.subsplit_slots[slot]
        if known.subsplits[subsplit, 0] == left and known.subsplits[subsplit, 1] == right:
            break
        slot = (slot + 1) & mask
    return slot


@kernel
def _add_clade(known, left, right, wanted):
    """The number of the union of two clades, the next one if it was never seen."""
    for word in range(len(wanted)):
        wanted[word] = known.bits[left, word] | known.bits[right, word]
    slot = _clade_slot(known, wanted)
    if known.clade_slots[slot] == EMPTY:
        clade = known.used[0]
        known.used[0] += 1
        known.clade_slots[slot] = clade
        for word in range(len(wanted)):
            known.bits[clade, word] = wanted[word]
        known.first_parts[clade, 0], known.first_parts[clade, 1] = left, right
    return known.clade_slots[slot]


@kernel
def _find_parts(known, children, clades, subsplits, wanted):
    """Clades and subsplits of one tree; new ones get the next numbers."""
    leaf_count = len(clades) - len(children)
    for leaf in range(leaf_count):
        clades[leaf] = leaf
    for place in range(len(children)):
        left, right = clades[children[place, 0]], clades[children[place, 1]]
        if left > right:  # one subsplit, whichever comes first
            left, right = right, left
            children[place, 0], children[place, 1] = children[place, 1], children[place, 0]
        slot = _subsplit_slot(known, left, right)
        if known.subsplit_slots[slot] == EMPTY:
            subsplit = known.used[1]
            known.used[1] += 1
            known.subsplit_slots[slot] = subsplit
            known.subsplits[subsplit, 0], known.subsplits[subsplit, 1] = left, right
            known.subsplits[subsplit, 2] = _add_clade(known, left, right, wanted)
        subsplits[place] = known.subsplit_slots[slot]
        clades[leaf_count + place] = known.subsplits[subsplits[place], 2]


@kernel
def plan_trees(neighbors: IntArray, known: KnownClades, plans: Plans) -> None:
    """Fill in the plans. There must be room for as many new clades and subsplits as the trees have."""
    nodes = neighbors.shape[1]
    leaf_count = nodes // 2 + 1
    weights = np.zeros(leaf_count + 1)  # of clades by their size; none for tips
    for size in range(2, leaf_count + 1):
        weights[size] = size**SIZE_POWER
    sizes, excess = np.empty(nodes, np.int64), np.empty(nodes)
    order, origins, numbers = np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    wanted = np.empty(known.bits.shape[1], np.uint64)
    for tree in range(len(neighbors)):
        table = neighbors[tree]
        root = _choose_root(table, sizes, weights, excess)
        children = plans.children[tree]
        _number_nodes(table, root, order, origins, numbers, children, plans.root_children[tree], plans.branches[tree])
        _find_parts(known, children, plans.clades[tree], plans.subsplits[tree], wanted)


@kernel
def hash_known(known: KnownClades) -> None:
    """Fill in both hash tables, which are empty, with all that is known."""
    for clade in range(known.used[0]):
        known.clade_slots[_clade_slot(known, known.bits[clade])] = clade
    for subsplit in range(known.used[1]):
        left, right = known.subsplits[subsplit, 0], known.subsplits[subsplit, 1]
        known.subsplit_slots[_subsplit_slot(known, left, right)] = subsplit


@kernel
def _number_pairs(left, right, left_count, right_count, table, keys, classes):
    """Number the distinct pairs in the order in which they come; returns how many there are.

    table holds a number for each pair, or, where there are too many, for each place of a hash table with its keys.
    """
    patterns, found = len(left), 0
    if left_count * right_count <= len(table):
        for place in range(left_count * right_count):
            table[place] = EMPTY
        for pattern in range(patterns):
            place = np.int64(left[pattern]) * right_count + right[pattern]
            if table[place] == EMPTY:
                table[place] = found
                found += 1
            classes[pattern] = table[place]
        return found
    mask = len(table) - 1
    for place in range(len(table)):
        table[place] = EMPTY
    for pattern in range(patterns):
        key = (np.int64(left[pattern]) << 16) | np.int64(right[pattern])
        place = np.int64((np.uint64(key) * FACTOR) >> np.uint64(32)) & mask
        while table[place] != EMPTY and keys[place] != key:
            place = (place + 1) & mask
        if table[place] == EMPTY:
            table[place] = found
            keys[place] = key
            found += 1
        classes[pattern] = table[place]
    return found


@kernel
def classify(
    first_block: int,
    last_block: int,
    bounds: LongArray,
    first_clade: int,
    last_clade: int,
    first_parts: IntArray,
    classes: ShortArray,
    counts: IntArray,
) -> None:
    """Classes (clades, patterns) and their counts (clades, blocks) of new clades; block b is bounds[b]:bounds[b+1]."""
    size = 2
    for block in range(first_block, last_block):  # parts of the alignment have blocks of any size
        while size < 4 * (bounds[block + 1] - bounds[block]):
            size *= 2
    table, keys = np.empty(size, np.int32), np.empty(size, np.int64)
    for block in range(first_block, last_block):
        start, end = bounds[block], bounds[block + 1]
        for clade in range(first_clade, last_clade):
            left, right = first_parts[clade, 0], first_parts[clade, 1]
            counts[clade, block] = _number_pairs(
                classes[left, start:end],
                classes[right, start:end],
                counts[left, block],
                counts[right, block],
                table,
                keys,
                classes[clade, start:end],
            )


@kernel
def list_pairs(
    first_block: int,
    last_block: int,
    bounds: LongArray,
    first_subsplit: int,
    last_subsplit: int,
    subsplits: IntArray,
    classes: ShortArray,
    starts: LongArray,
    pairs: ShortArray,
) -> None:
    """Write the pair of each class, in order, to pairs (room, 2) from starts[subsplit, block] on."""
    for block in range(first_block, last_block):
        for subsplit in range(first_subsplit, last_subsplit):
            left, right, whole = subsplits[subsplit]
            place = starts[subsplit, block]
            found = 0
            for pattern in range(bounds[block], bounds[block + 1]):
                if classes[whole, pattern] == found:  # numbered as they come, so this is its first
                    pairs[place + found, 0] = classes[left, pattern]
                    pairs[place + found, 1] = classes[right, pattern]
                    found += 1
