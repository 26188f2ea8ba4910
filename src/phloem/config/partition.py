"""How an alignment's sites are divided into parts with models of their own."""

from dataclasses import dataclass
from typing import Final

from phloem.config.model import ModelConfig
from phloem.config.settings import check_choice
from phloem.errors import ConfigError, quoted

BY_CODON: Final = "by-codon"
LINKABLE: Final = ("kappa", "rates", "frequencies", "alpha", "invariant")  # settings of models
ALL: Final = "all"
PART_RATES: Final = ("inferred", "equal")


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """Parts of an alignment: the tree and its branch lengths are the same for all, up to a rate of each part.

    sites: a partition file, `by-codon`, or none. models: of the parts, by names such as GTR+G4 with commas between
    them; without any, those that the file says, or the one model for all. link: which inferred parameters parts share
    where their models have them, by the names of the model's settings with commas between them, or `all`. rates: of the
    parts, inferred or equal.
    """

    sites: str | None = None
    models: str | None = None
    link: str | None = None
    rates: str = "inferred"

    def __post_init__(self) -> None:
        check_choice("--part-rates", self.rates, PART_RATES)
        for name in self.model_names:
            ModelConfig(name)
        for name in self._linked():
            if name not in LINKABLE:
                known = ", ".join(LINKABLE)
                raise ConfigError(f"--link {quoted(name)}: no such parameter. Give some of {known}, or {ALL}.")
        given = {"partition.models": self.models, "--link": self.link}
        options = [option for option, value in given.items() if value is not None]
        options += ["--part-rates"] if self.rates != "inferred" else []
        if self.sites is None and options:
            option = options[0]
            raise ConfigError(f"{option}: it is about parts of the alignment. Give --partition too, or leave it out.")

    @property
    def model_names(self) -> tuple[str, ...]:
        """Of the parts, if they are given."""
        return () if self.models is None else tuple(name.strip() for name in self.models.split(","))

    @property
    def linked(self) -> frozenset[str]:
        """The settings of models whose parameters are shared."""
        return frozenset(self._linked())

    def _linked(self) -> tuple[str, ...]:
        if self.link is None:
            return ()
        names = tuple(name.strip() for name in self.link.split(","))
        return LINKABLE if names == (ALL,) else names
