"""`import phloem` offers the names of a short script and modules by subject; all are loaded when they are used."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import phloem

ROOT = Path(__file__).parent.parent
MODULES = {name: getattr(phloem, name) for name in phloem.__all__ if isinstance(getattr(phloem, name), ModuleType)}
NAMES = [(module, name) for module in (phloem, *MODULES.values()) for name in module.__all__]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]


def label(part: ModuleType | str) -> str:
    return part if isinstance(part, str) else part.__name__


@pytest.mark.parametrize(("module", "name"), NAMES, ids=label)
def test_every_name_is_there(module, name):
    assert getattr(module, name).__name__.removeprefix("phloem.") == name
    assert name in dir(module)


@pytest.mark.parametrize("module", [phloem, *MODULES.values()], ids=label)
def test_names_are_sorted_and_no_files_hide_them(module):
    assert module.__all__ == sorted(set(module.__all__))
    files = {path.stem for folder in getattr(module, "__path__", ()) for path in Path(folder).iterdir()}
    assert not files & set(module.__all__) - MODULES.keys()


def test_the_top_can_be_held_in_the_head():
    assert len(set(phloem.__all__) - MODULES.keys()) <= 17


@pytest.mark.parametrize(("module", "name"), [case for case in NAMES if case[1] not in phloem.__all__], ids=label)
def test_a_name_that_was_at_the_top_says_where_it_is(module, name):
    hint = rf"phloem\.{name} is {module.__name__}\.{name} since 0\.2"
    with pytest.raises(ImportError, match=hint):
        getattr(phloem, name)
    with pytest.raises(ImportError, match=hint):
        exec(f"from phloem import {name}")


@pytest.mark.parametrize("module", [phloem, phloem.trees], ids=label)
def test_a_name_that_is_not_there(module):
    with pytest.raises(AttributeError, match="no attribute 'inferr'"):
        _ = module.inferr
    with pytest.raises(ImportError, match="'inferr'"):
        exec(f"from {module.__name__} import inferr")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_public_names_only(page):
    parts = "|".join(MODULES)
    for part, name in re.findall(rf"\bphloem\.(?:({parts})\.)?([A-Za-z_]\w*)", page.read_text()):
        assert name in (MODULES[part] if part else phloem).__all__, f"phloem.{part}.{name}"


def test_the_page_of_names_is_complete():
    page = (ROOT / "docs" / "api.md").read_text()
    rows = re.findall(r"^\| `(phloem(?:\.\w+)?)` \| (.*?) \|", page, re.MULTILINE)
    listed = [(module, name) for module, names in rows for name in re.findall(r"`(\w+)`", names)]
    assert sorted(listed) == sorted((module.__name__, name) for module, name in NAMES if name not in MODULES)


def test_importing_is_quick_because_it_loads_nothing():
    modules = ", ".join(f"phloem.{name}" for name in MODULES)
    script = f"import sys, {modules}; sys.exit(bool({{'numpy', 'numba', 'typer', 'matplotlib'}} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", script], check=True)
