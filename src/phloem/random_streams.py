"""Every random number of phloem: counter-based, so that a key gives the same numbers in any process.

Philox (Salmon et al. 2011) turns a key and a counter into random bits. The key comes from the seed and
the purpose, the counter starts at the step and particle; nothing depends on what was drawn before or elsewhere.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from phloem.errors import BadArgument


@dataclass(frozen=True, slots=True)
class RandomStream:
    """The random numbers that belong to (seed, purpose, step, particle)."""

    seed: int
    purpose: str
    step: int = 0
    particle: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise BadArgument(f"random stream: seed {self.seed}. It must not be negative.")
        if not (0 <= self.step < 2**63 and 0 <= self.particle < 2**63):
            raise BadArgument(f"random stream: step {self.step}, particle {self.particle}. Both are 63-bit counters.")

    def at(self, step: int, particle: int = 0) -> "RandomStream":
        """The same stream's numbers for another step and particle."""
        return replace(self, step=step, particle=particle)

    def named(self, part: str) -> "RandomStream":
        """The numbers of the same step and particle for a part of the purpose, independent of those of other parts."""
        return replace(self, purpose=f"{self.purpose}/{part}")

    def key(self) -> NDArray[np.uint64]:
        """The two words that the seed and the purpose stand for: what a kernel needs to draw for itself."""
        digest = hashlib.blake2b(f"{self.seed}:{self.purpose}".encode(), digest_size=16).digest()
        return np.frombuffer(digest, "<u8")

    def generator(self) -> np.random.Generator:
        """A fresh generator at this stream's beginning: two calls give the same numbers."""
        # The generator counts in the lowest words; steps and particles in the highest never run into each other.
        counter = np.array([0, 0, self.particle, self.step], np.uint64)
        return np.random.Generator(np.random.Philox(key=self.key(), counter=counter))
