"""Written alignments are read back as they were."""

import numpy as np
import pytest

from phloem.data.alignment import CODE_OF_BYTE
from phloem.data.reading import read_alignment
from phloem.data.writing import SUFFIXES, write_letters
from phloem.errors import BadArgument

SYMBOLS = np.frombuffer(b"ACGT-?N" * 3 + b"TTTTTTT", np.uint8).reshape(4, 7)


@pytest.mark.parametrize("form", SUFFIXES)
def test_what_is_written_is_read_back(form, tmp_path):
    taxa = ("t1", "Homo_sapiens", "x.2", "a-b" if form != "nexus" else "it's a-b")
    path = tmp_path / f"x{SUFFIXES[form]}"
    write_letters(taxa, SYMBOLS, path, form)
    found = read_alignment(path)
    assert found.taxa == taxa
    np.testing.assert_array_equal(found.states, CODE_OF_BYTE[SYMBOLS])


@pytest.mark.parametrize("form", ["fasta", "phylip"])
def test_names_that_a_form_would_cut_are_refused(form, tmp_path):
    with pytest.raises(BadArgument, match="'b c' has a blank"):
        write_letters(("a", "b c", "d", "e"), SYMBOLS, tmp_path / "x", form)
    assert list(tmp_path.iterdir()) == []
