"""Where to look: bootstrap trees and the maximum-likelihood tree, by our own search or by external programs."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from phloem.search.bootstrap import bootstrap_files as bootstrap_files
    from phloem.search.jobs import SearchResult as SearchResult
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
