"""What was observed: alignments, site patterns, bundled examples."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from phloem.data.alignment import Alignment as Alignment
    from phloem.data.patterns import SitePatterns as SitePatterns
    from phloem.data.patterns import compress as compress
    from phloem.data.reading import find_trees as find_trees
    from phloem.data.reading import read_alignment as read_alignment
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
