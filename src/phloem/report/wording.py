"""Numbers, names and lists of names as pages, figures and the terminal show them."""

import math
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from phloem.errors import counted

if TYPE_CHECKING:
    from phloem.inference.chain_check import ChainCheck
    from phloem.inference.measurement import Annealed

UNKNOWN = "–"
MINUS = "\N{MINUS SIGN}"
NO_BREAK = "\N{NARROW NO-BREAK SPACE}"
LONGEST_NAME = 34  # characters of a name beside a tree
MOST_ZEROS = 3  # of a power of ten that is written in digits
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def count(number: int, noun: str = "", plural: str = "") -> str:
    """`1 run`, `2 runs`, `12,000 steps`; without a noun the number alone."""
    return counted(number, noun, plural) if noun else f"{number:,}"


def likelihood_error(error: float | None) -> str:
    """What follows where estimates are described, if their mean's error is known."""
    return "" if error is None else f"; the standard error of the log marginal likelihood is {error:.4f}"


def annealing(annealed: "Annealed", draws: int) -> str:
    """What was done to the draws, in a sentence or two; if they were annealed in place of others, what those said."""
    which = (
        f"All {count(draws, 'draw')}" if annealed.draws == draws else f"{annealed.draws:,} of {count(draws, 'draw')}"
    )
    done = (
        f"{which} were annealed: moved from Q to the posterior at {count(annealed.temperatures, 'temperature')}, which "
        "evens out their weights."
    )
    plain = annealed.plain
    if plain is None:
        return done
    shape = "" if plain.pareto_shape is None else f", k̂ {plain.pareto_shape:.2f}"
    return (
        f"{done} Of {count(plain.draws, 'plain draw')} {plain.effective_sample_size:,.0f} were effective{shape}; the "
        f"ELBO of Q itself is {decimal(plain.evaluation.elbo.mean)}."
    )


def added(check: "ChainCheck") -> str:
    """What was added to the draws, in a sentence."""
    share, error = check.outside
    return (
        f"{percent(share)} {error_bar(error)} of the posterior lies outside the support of Q: among the draws "
        f"{count(check.added, 'tree')} of Markov chains stand for it, and the marginal likelihood counts it."
    )


def percent(share: float) -> str:
    """`97.3 %`, or `<0.1 %` where rounding would give 0."""
    if not math.isfinite(share):
        return UNKNOWN
    if 0 < share < 0.0005:
        return f"<0.1{NO_BREAK}%"
    if 0.9995 <= share < 1:
        return f">99.9{NO_BREAK}%"
    return f"{100 * share:.1f}".removesuffix(".0") + f"{NO_BREAK}%"


def error_bar(error: float) -> str:
    """`± 0.4 %` after a share, or nothing where all draws agree, so that there is no telling."""
    return f"±{NO_BREAK}{percent(error)}" if error > 0 else ""


def support_number(share: float) -> str:
    """A support on a branch: whole percents, 100 only if it is practically certain."""
    if not math.isfinite(share):
        return "?"
    if share >= 0.9995:
        return "100"
    return "<1" if 0 < share < 0.005 else str(min(99, round(100 * share)))


def length(value: float) -> str:
    """A branch length: four decimals, or two significant digits if it is very small."""
    if not math.isfinite(value):
        return UNKNOWN
    return f"{value:.4f}" if value == 0 or value >= 0.001 else f"{value:.1e}".replace("-", MINUS)


def interval(lower: float, upper: float) -> str:
    """`0.0123 to 0.0456`."""
    return f"{length(lower)} to {length(upper)}" if math.isfinite(lower) and math.isfinite(upper) else UNKNOWN


def decimal(value: float, places: int = 2) -> str:
    """`−7108.42`; no minus before a zero."""
    if not math.isfinite(value):
        return UNKNOWN
    return f"{value:z.{places}f}".replace("-", MINUS)


def decimals(deviations: Sequence[float]) -> int:
    """How many decimals numbers with these standard deviations need, from 2 to 6: two digits of each deviation."""
    known = [deviation for deviation in deviations if math.isfinite(deviation) and deviation > 0]
    return min(6, max(2, 1 - math.floor(math.log10(min(known))))) if known else 4


def deviation(value: float | None) -> str:
    """A standard deviation, or nothing."""
    if value is None or not math.isfinite(value):
        return ""
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def spread(mean: float, value: float) -> str:
    """A standard deviation with as many decimals as `length` gives its mean."""
    if not math.isfinite(value) or not mean >= 0.001:
        return length(value)
    return f"{value:.4f}" if value == 0 or value >= 0.00005 else "<0.0001"


def powers_of_ten(powers: Sequence[int]) -> list[str]:
    """`0.01`, `0.1`, `1`; or all of them like `10⁻⁸`, `10⁻⁷` where one would have to count zeros."""
    if all(abs(power) <= MOST_ZEROS for power in powers):
        return [f"{10.0**power:,g}" for power in powers]
    return [f"10{str(power).translate(RAISED)}" for power in powers]


def duration(seconds: float) -> str:
    """`40 s`, `12 min` or `3.5 h`."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 99.5:
        return f"{seconds:.0f}{NO_BREAK}s" if seconds >= 9.95 else f"{seconds:.1f}{NO_BREAK}s"
    minutes = seconds / 60
    return f"{minutes:.0f}{NO_BREAK}min" if minutes < 99.5 else f"{minutes / 60:.1f}{NO_BREAK}h"


def brief(names: Sequence[str], shown: int = 3) -> str:
    """`a, b, c and 4 more`."""
    named = ", ".join(short_name(name) for name in names[:shown])
    return named if len(names) <= shown else f"{named} and {len(names) - shown:,} more"


def short_name(name: str, longest: int = LONGEST_NAME) -> str:
    """A long name with its middle left out: names often differ at their ends."""
    if len(name) <= longest:
        return name
    tail = (longest - 1) // 3
    return f"{name[: longest - 1 - tail]}…{name[-tail:]}"


def printable(text: str) -> str:
    """User text with blanks for control characters, which would move a cursor or break a line."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def text_width(text: str) -> float:
    """About how many ems a text takes in a sans-serif font; an overestimate, as fonts differ."""
    return sum(map(_sign_width, text))


def _sign_width(sign: str) -> float:
    if unicodedata.east_asian_width(sign) in "WF":
        return 1.0
    if unicodedata.combining(sign):
        return 0.0
    if sign.isupper() or sign in "mw%@…":
        return 0.75
    return 0.4 if sign in "ijlftr.,:;|'()[]-/ " else 0.61
