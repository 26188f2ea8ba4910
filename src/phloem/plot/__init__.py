"""Figures for a paper, with matplotlib: records in, `Figure` out, drawn on new axes or on those given."""

from phloem.plot.saving import save as save
from phloem.plot.phylogram import tree as tree
