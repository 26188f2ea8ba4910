"""A support's arrays as the dictionaries of `reference.dictionary_sbn`."""

from phloem.arrays import FloatArray
from phloem.trees.splits import unpack_bits
from phloem.variational.sbn import SubsplitSupport
from reference.dictionary_sbn import Counts


def as_dictionary(support: SubsplitSupport, values: FloatArray) -> Counts:
    """The value of every entry, by parent (sister, clade) and subsplit."""
    taxa = len(support.taxa)
    sets = [frozenset(row.nonzero()[0].tolist()) for row in unpack_bits(support.clades, taxa)]
    tables: Counts = {}
    for table in range(support.table_count):
        for entry in range(support.starts[table], support.starts[table + 1]):
            number = support.divisions[entry]
            one, two = (sets[clade] for clade in (support.splits if table == 0 else support.subsplits)[number])
            sister = frozenset() if support.sisters[entry] < 0 else sets[support.sisters[entry]]
            tables.setdefault((sister, one | two), {})[frozenset([one, two])] = float(values[entry])
    return tables
