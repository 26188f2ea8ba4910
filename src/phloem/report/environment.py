"""The templates of all pages, and what they can call."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from phloem.report import wording

FILTERS = ("percent", "decimal", "deviation", "brief", "short_name", "spread", "duration")


@cache
def environment() -> Environment:
    """Texts are escaped, and a name that is not there is an error."""
    made = Environment(
        loader=PackageLoader("phloem.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["counted"] = wording.count  # jinja's own `count` is a length
    made.filters["number"] = wording.length  # and its `length` is a count
    for name in FILTERS:
        made.filters[name] = getattr(wording, name)
    made.globals["source"] = _source
    return made


def _source(name: str) -> str:
    """A style sheet or script of ours as it is."""
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), name)[0]
