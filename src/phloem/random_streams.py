"""Every random number of phloem: counter-based, so that a key gives the same numbers in any process.

Philox (Salmon et al. 2011) turns a key and a counter into random bits. The key comes from the seed and
the purpose, the counter starts at the step; nothing depends on what was drawn before or elsewhere.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from phloem.errors import BadArgument


@dataclass(frozen=True, slots=True)
class RandomStream:
    """The random numbers that belong to (seed, purpose, step)."""

    seed: int
    purpose: str
    step: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0 or not 0 <= self.step < 2**64:
            raise BadArgument(f"random stream: seed {self.seed}, step {self.step}. Both must not be negative.")

    def at(self, step: int) -> "RandomStream":
        """The same stream's numbers for another step."""
        return replace(self, step=step)

    def generator(self) -> np.random.Generator:
        """A fresh generator at this stream's beginning: two calls give the same numbers."""
        digest = hashlib.blake2b(f"{self.seed}:{self.purpose}".encode(), digest_size=16).digest()
        key = np.frombuffer(digest, "<u8")
        # The generator counts in the lowest word; steps in the highest can never run into each other.
        counter = np.array([0, 0, 0, self.step], np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))
