"""Figures for a paper, with matplotlib: records in, `Figure` out, drawn on new axes or on those given."""

from phloem.plot.gaps import gaps as gaps
from phloem.plot.saving import save as save
