"""A directory of bootstrap replicates: one tree file each, and a manifest that says how they were made."""

import gzip
import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from phloem.arrays import BoolArray
from phloem.config import BootstrapConfig
from phloem.config.search import BOOTSTRAP_METHODS
from phloem.data.alignment import Alignment
from phloem.errors import FileProblem
from phloem.storage.files import atomic_write, cannot_read, refuse_links
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.sample import TreeSample
from phloem.trees.writing import format_newick

MANIFEST = "bootstrap.json"
TREE_FILE = re.compile(r"replicate_\d+\.nwk\.gz")
# Settings of manifests written when IQ-TREE was the only method.
BEFORE_METHODS: dict[str, Any] = {"method": "iqtree", "keep": 0, "within": None}
WITHOUT_CONSTRAINTS: dict[str, Any] = {"constraints": None}  # as manifests are where there are none
WAY_OUT = "Choose another --out, or delete the files in this one."


class ReplicateDirectory:
    """Tree files `replicate_01.nwk.gz`, …, all made from the same alignment with the same settings.

    `bootstrap.json` holds those settings and, for every complete file, its hash and the program that made it. Files
    that it does not list, or with another hash, count as missing. Several threads may add files.
    """

    def __init__(
        self,
        directory: Path,
        alignment: Alignment,
        config: BootstrapConfig,
        constraints: TopologyConstraints | None = None,
    ) -> None:
        """Read the manifest, if there is one, and change nothing; replicates made otherwise are an error.

        The method must not be `auto`.
        """
        self.directory = directory
        self._settings = {
            "alignment": alignment_hash(alignment),
            "method": config.method,
            "model": config.model,
            "count": config.count,
            "seed": config.seed,
            "keep": config.keep,
            "within": config.within if config.keep else None,
            "constraints": None if constraints is None else sorted(map(_stars, constraints.members)),
        }
        with suppress(OSError):  # a directory that cannot be read, as the manifest will say
            refuse_links(directory, [MANIFEST, *(path.name for path in directory.glob("replicate_*"))])
        self._files = self._read_manifest()
        self._lock = Lock()

    def tree_file(self, replicate: int) -> Path:
        """Where the trees of a replicate are, or will be; the name does not depend on the number of replicates."""
        return self.directory / f"replicate_{replicate:02}.nwk.gz"

    def log_file(self, replicate: int) -> Path:
        """Where the log of a failed replicate is kept."""
        return self.directory / f"replicate_{replicate:02}.log"

    def is_whole(self, replicate: int) -> bool:
        """Whether the file of a replicate exists, byte for byte as it was written."""
        path = self.tree_file(replicate)
        if path.name not in self._files:
            return False
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return False
        except OSError as problem:
            raise cannot_read(path, problem) from None
        return hashlib.sha256(content).hexdigest() == self._files[path.name]["sha256"]

    def program(self, replicate: int) -> str:
        """The program, with its version, that made the replicate."""
        return self._files[self.tree_file(replicate).name]["program"]

    def prepare(self) -> None:
        """Create the directory and its manifest, so that a directory that cannot be written fails before any work."""
        try:
            self.directory.mkdir(exist_ok=True)
        except FileNotFoundError:
            raise FileProblem(f"{self.directory}: its parent directory does not exist. Create it first.") from None
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise FileProblem(f"{self.directory}: cannot be created ({reason}). Choose another --out.") from None
        try:
            self._write_manifest()
        except FileProblem:
            with suppress(OSError):  # it was there before, with files in it
                self.directory.rmdir()
            raise

    def add(self, replicate: int, sample: TreeSample, program: str) -> None:
        """Write the trees of a replicate, equal trees as equal bytes, and remove the log of an earlier failure."""
        path = self.tree_file(replicate)
        lines = format_newick(sample.topologies, sample.taxa)
        content = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
        with self._lock:
            with atomic_write(path) as stream:
                stream.write(content)
            self._files[path.name] = {"sha256": hashlib.sha256(content).hexdigest(), "program": program}
            self._write_manifest()
            with suppress(OSError):  # usually there is none
                self.log_file(replicate).unlink()

    def keep_log(self, replicate: int, log: bytes) -> Path:
        """Save what a program printed before it failed."""
        path = self.log_file(replicate)
        with self._lock, atomic_write(path) as stream:
            stream.write(log)
        return path

    def _write_manifest(self) -> None:
        settings = {key: value for key, value in self._settings.items() if (key, value) != ("constraints", None)}
        manifest = settings | {"files": dict(sorted(self._files.items()))}
        with atomic_write(self.directory / MANIFEST) as stream:
            stream.write(json.dumps(manifest, indent=2).encode() + b"\n")

    def _read_manifest(self) -> dict[str, dict[str, str]]:
        """The files that the manifest lists, none if there is no manifest."""
        path = self.directory / MANIFEST
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            self._check_no_foreign_files()
            return {}
        except NotADirectoryError:
            raise FileProblem(f"{self.directory}: is not a directory. Choose another --out.") from None
        except (OSError, ValueError) as problem:
            raise cannot_read(path, problem) from None
        try:
            found: dict[str, Any] = json.loads(content)
            settings = {key: (BEFORE_METHODS | WITHOUT_CONSTRAINTS | found)[key] for key in self._settings}
            files = {
                str(name): {"sha256": str(entry["sha256"]), "program": str(entry["program"])}
                for name, entry in found["files"].items()
            }
        except (ValueError, TypeError, KeyError, AttributeError):
            raise FileProblem(f"{path}: is damaged, or not a manifest of phloem. {WAY_OUT}") from None
        if settings == self._settings:
            return files
        if any((self.directory / name).exists() for name in files):
            raise FileProblem(f"{self.directory}: holds replicates {self._difference(settings)}. {WAY_OUT}")
        return {}  # nothing was ever finished with those settings

    def _check_no_foreign_files(self) -> None:
        """Raise if there are tree files without a manifest: they are not ours to overwrite."""
        if foreign := sorted(self.directory.glob("replicate_*.nwk.gz")):
            raise FileProblem(f"{foreign[0]}: would be overwritten, and no {MANIFEST} says what it is. {WAY_OUT}")

    def _difference(self, settings: dict[str, Any]) -> str:
        """How the settings of a manifest differ from ours."""
        differing = [key for key, value in settings.items() if value != self._settings[key]]
        others = {"alignment": "of another alignment", "constraints": "under other constraints"}
        return " and ".join(
            others.get(key) or f"with {key} {settings[key]}, not {self._settings[key]}" for key in differing
        )


def _stars(side: BoolArray) -> str:
    return "".join("*" if member else "." for member in side.tolist())


def method_in(directory: Path) -> str | None:
    """The method of the replicates in a directory; None if there are none, or if the method is unknown."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        found = BEFORE_METHODS | json.loads((directory / MANIFEST).read_bytes())
        if any((directory / name).exists() for name in found["files"]) and found["method"] in BOOTSTRAP_METHODS[1:]:
            return str(found["method"])
    return None


def remove_replicates(directory: Path) -> None:
    """Remove the replicates that a manifest lists, and nothing else: other files are not ours."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        listed = json.loads((directory / MANIFEST).read_bytes())["files"]
        for name in [name for name in listed if TREE_FILE.fullmatch(name)]:
            (directory / name).unlink(missing_ok=True)
        (directory / MANIFEST).unlink()


def alignment_hash(alignment: Alignment) -> str:
    """SHA-256 over the taxa, in their order, and their states."""
    digest = hashlib.sha256(json.dumps(alignment.taxa).encode())
    digest.update(alignment.states.tobytes())
    return digest.hexdigest()
