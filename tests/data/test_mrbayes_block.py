"""MRBAYES blocks: the commands that matter, MrBayes' own table of parameters as judge, what is said of the rest."""

import gzip
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.data.mrbayes_block import DEFAULTS, LINKABLE, MrBayesBlock, Setting, read_mrbayes_block
from phloem.data.reading import parse_alignment
from phloem.errors import PhloemError
from support.messages import assert_says, saying

TAXA = ("Homo_sapiens", "Pan", "O'Brien", "Gorilla g.", "Mus-2")
SITES = 12
THREE = "charset a=1-4; charset b=5-8; charset c=9-12; partition p=3: a,b,c; set partition=p;"
DATA = """#NEXUS
begin data; dimensions ntax=5 nchar=12; format datatype=dna gap=-; matrix
A ACGTACGTACGA
B ACGTTCGTACGC
C ACGTACGAACGT
D ACTTACGTACGG
E ACGTACCTACGA
; end;
"""


def block(commands: str, taxa=TAXA) -> MrBayesBlock:
    return read_mrbayes_block("dna.nex", f"#NEXUS\nbegin mrbayes;\n{commands}\nend;", taxa, SITES)


def only(commands: str):
    found = block(commands)
    assert found.unsupported == found.ignored == ()
    (part,) = found.parts
    return part


def test_without_a_block_there_is_nothing():
    assert read_mrbayes_block("dna.nex", DATA, TAXA, SITES) is None
    assert read_mrbayes_block("dna.fasta", ">a\nACGT", TAXA, SITES) is None


def test_the_defaults_are_those_of_mrbayes():
    found = block("charset a = 1;")
    assert found.parts == (DEFAULTS,)
    assert (DEFAULTS.nst, DEFAULTS.rates, DEFAULTS.categories) == ("1", "equal", 4)
    assert DEFAULTS.brlens == Setting("unconstrained:gammadir", (1, 0.1, 1, 1))
    assert found.partition is found.outgroup is None
    assert found.constraints == found.unsupported == found.ignored == ()


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ("lset nst=6 rates=invgamma ngammacat=8;", {"nst": "6", "rates": "invgamma", "categories": 8}),
        ("LSET NST = 2 Rat=G; [lset nst=1;] lset rates = prop;", {"nst": "2", "rates": "propinv"}),
        ("lset nst=6; lset nst=1 app=(all) rates=equal;", {}),
        ("prset statefreqpr=fixed(equal);", {"statefreq": Setting("equal")}),
        ("prset statefreq=fixed(emp);", {"statefreq": Setting("empirical")}),
        ("prset statefreqpr=fixed(.1,.2,.3,.4);", {"statefreq": Setting("fixed", (0.1, 0.2, 0.3, 0.4))}),
        ("prset statefreqpr = dir ( 10 );", {"statefreq": Setting("dirichlet", (2.5,) * 4)}),
        ("prset statefreqpr=dirichlet(1,2,3,4);", {"statefreq": Setting("dirichlet", (1, 2, 3, 4))}),
        ("prset revmatpr=fixed(1,2.5,1,1,2e0,1);", {"revmat": Setting("fixed", (1, 2.5, 1, 1, 2, 1))}),
        ("prset tratiopr=fixed(4);", {"tratio": Setting("fixed", (4,))}),
        ("prset tratiopr=beta(2,1);", {"tratio": Setting("beta", (2, 1))}),
        ("prset shapepr=exp(2);", {"shape": Setting("exponential", (2,))}),
        ("prset ratepr=fixed pinvarpr=fixed(0.2);", {"pinvar": Setting("fixed", (0.2,))}),
        ("prset shapepr=uni(0,200);", {"shape": Setting("uniform", (0, 200))}),
        ("prset pinvarpr=uniform(0,0.8);", {"pinvar": Setting("uniform", (0, 0.8))}),
        ("prset brlenspr=uncons:exp(10);", {"brlens": Setting("unconstrained:exponential", (10,))}),
        ("prset brlens=unconstrained : uniform ( 0 , 5 );", {"brlens": Setting("unconstrained:uniform", (0, 5))}),
        ("prset brlenspr=uncons:gamma(1,1,.7,.5);", {"brlens": Setting("unconstrained:gammadir", (1, 1, 0.7, 0.5))}),
        ("prset ratepr=variable;", {"ratemultiplier": Setting("dirichlet", (1,))}),
        ("prset topologypr=fixed(t) brlenspr=clock:uniform topology=uniform brlens=unc:gamma(1,.1,1,1);", {}),
        ("lset; prset;", {}),
        ("lset nucmodel=4by4 covarion=no coding=all parsmodel=no code=vertmt;", {}),
    ],
)  # fmt: skip
def test_what_lset_and_prset_say(commands, expected):
    part = only(commands)
    assert {name: getattr(part, name) for name in expected} == expected
    others = {name for name in DEFAULTS.__slots__ if getattr(part, name) != getattr(DEFAULTS, name)}
    assert others == {name for name, value in expected.items() if value != getattr(DEFAULTS, name)}


def test_applyto_counts_for_what_stands_after_it():
    found = block(
        THREE + "lset nst=6 applyto=(1,3) rates=gamma; prset app=(2-.) shapepr=exp(3); prset ratepr=dir(3,2,1);"
    )
    assert [(part.nst, part.rates) for part in found.parts] == [("6", "gamma"), ("6", "equal"), ("6", "gamma")]
    assert [part.shape.numbers for part in found.parts] == [(1,), (3,), (3,)]
    assert [part.ratemultiplier.numbers for part in found.parts] == [(3,), (2,), (1,)]
    assert found.partition.names == ("a", "b", "c")


def test_a_choice_of_partition_undoes_the_model_before_it():
    """MrBayes 3.2.7a says `Setting model defaults`, and `showmodel` then shows them."""
    found = block("lset nst=6; prset ratepr=variable; unlink shape=(all);" + THREE)
    assert found.parts == (DEFAULTS,) * 3
    assert found.groups["shape"] == (0, 0, 0)
    (line,) = found.ignored
    assert_says(line, "dna.nex, line 3, set partition: undoes lset, prset, link and unlink before it, as in MrBayes.")
    assert block(THREE + "lset nst=6;" + "set partition=default;").parts == (DEFAULTS,)
    (line,) = block(THREE.replace("set partition=p;", "")).ignored
    assert_says(line, "partition 'p': no set partition=NAME; chooses it: one part.")


SHARING = [
    "",
    "lset rates=gamma nst=6; lset app=(2) rates=invgamma; lset app=(3) ngammacat=8;",
    "lset rates=gamma; unlink shape=(1);",
    "lset rates=gamma; unlink shape=(all); link shape=(2,3);",
    "lset rates=gamma; prset app=(2) ratepr=variable;",
    "lset nst=6 rates=invgamma; unlink revmat=(all) pinvar=(1-2) statef=(all); prset app=(3) shapepr=exp(2);",
    "lset nst=mixed; lset app=(2) nst=6; prset app=(3) brlenspr=uncons:exp(10);",
    "lset nst=2; prset app=(2) tratiopr=fixed(2); lset app=(3) nst=6;",
    "lset app=(1) rates=lnorm; lset app=(2) rates=gamma; lset app=(3) rates=kmix;",
    "lset nst=6; prset app=(3) statefreqpr=dir(2,2,2,2) revmatpr=fixed(1,1,1,1,1,1);",
]


@pytest.mark.parametrize("commands", SHARING)
def test_parts_share_the_parameters_that_mrbayes_says_they_share(mrbayes, commands, tmp_path):
    """The line end matters: MrBayes cuts off the last line of a file where it has none."""
    text = f"{DATA}begin mrbayes; set autoclose=yes nowarn=yes; {THREE} {commands} showmodel; end;\n"
    (tmp_path / "dna.nex").write_text(text)
    run = subprocess.run(
        [mrbayes],
        input="execute dna.nex\nquit\n",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    table = run.stdout.partition("Active parameters")[2]
    rows = dict(re.findall(r"^ {9}([A-Z][a-z]+)((?: +(?:\d+|\.)){3})$", table, re.M))
    judged = {}
    for name in LINKABLE:
        numbers = rows.get(name.capitalize(), ". . .").split()
        judged[name] = tuple(None if number == "." else numbers.index(number) for number in numbers)
    found = read_mrbayes_block("dna.nex", text, tuple("ABCDE"), SITES)
    ours = {name: found.shared(name) for name in LINKABLE}
    if "kmix" in commands:  # MrBayes lists a proportion of invariant sites there
        judged["pinvar"] = (None, None, None)
    assert ours == judged


def test_frequencies_that_mrbayes_would_link_across_kinds_of_priors_are_said():
    line = "statefreqpr is a Dirichlet in one part and fixed in another: phloem takes each … unlink statefreq=(all)."
    assert_says(block(THREE + "prset app=(2) statefreqpr=fixed(equal);").ignored[0], line)
    assert block(THREE + "prset app=(2) statefreqpr=fixed(equal); unlink statefreq=(all);").ignored == ()


def test_outgroup_by_name_number_and_in_any_case():
    for text in ("2", "Pan", "pan", "'Pan'"):
        assert block(f"outgroup {text};").outgroup == "Pan"
    assert block("outgroup O'Brien;").outgroup == "O'Brien"
    assert block("outgroup 'Gorilla g.';").outgroup == "Gorilla g."
    assert block("outgroup 1; outgroup Mus-2;").outgroup == "Mus-2"


def test_constraints_and_which_of_them_count():
    found = block(
        """taxset apes = Pan 'Gorilla g.'; constraint c1 = apes 1; constraint c2 100 = 1-2; constraint c3 -1=Mus-2 4-.;
        constraint c4 negative = pan homo_sapiens; constraint c5 part = 1 2 : 'Gorilla g.' mus-2;
        constraint c6 hard = 1-5\\2;
        prset topologypr=constraints(c1); prset topologypr = constraints ( C2, 4-5, c6);"""
    )
    one, two, three, four, five = TAXA
    assert [(each.name, each.kind, each.taxa, each.others, each.is_enforced) for each in found.constraints] == [
        ("c1", "hard", (one, two, four), (), False),
        ("c2", "hard", (one, two), (), True),
        ("c3", "hard", (four, five), (), False),
        ("c4", "negative", (one, two), (), True),
        ("c5", "partial", (one, two), (four, five), True),
        ("c6", "hard", (one, three, five), (), True),
    ]
    assert found.unsupported == found.ignored == ()
    assert not any(each.is_enforced for each in block("constraint a = 1 2;").constraints)


def test_sites_and_taxa_that_would_be_left_out():
    found = block("charset x = 1-.\\3; exclude x 12; include 4; delete Pan 3; restore pan;")
    assert found.excluded_sites == (0, 6, 9, 11)
    assert found.deleted_taxa == ("O'Brien",)
    assert found.ignored == (
        "dna.nex: exclude would leave out 4 sites: all are used.",
        "dna.nex: delete would leave out 1 taxon: all are used.",
    )


UNSUPPORTED = [
    ("lset nst=mixed;", "dna.nex, line 3, lset: phloem has no nst=mixed."),
    ("lset rates=lnorm;", "dna.nex, line 3, lset: phloem has no rates=lnorm."),
    ("lset nucmodel=codon;", "phloem has no nucmodel=codon."),
    ("lset covarion=yes;", "phloem has no covarion=yes."),
    ("lset coding=variable;", "phloem has no coding=variable."),
    ("prset brlenspr=clock:uniform;", "dna.nex, line 3, prset: phloem has no brlenspr=clock:uniform."),
    ("prset brlenspr=fixed(tree);", "phloem has no brlenspr=fixed(tree)."),
    ("prset brlenspr=uncons:invgam(3,2,1,1);", "phloem has no brlenspr=uncons:invgam(3,2,1,1)."),
    ("prset topologypr=fixed(tree);", "phloem has no topologypr=fixed(tree)."),
    (THREE + "unlink topology=(all);", "topologies differ between parts: phloem has one tree for all."),
    (THREE + "unlink brlens=(all);", "branch lengths differ between parts: phloem has them proportional."),
    (THREE + "prset app=(1) brlenspr=uncons:exp(1);", "branch lengths differ between parts"),
]


@pytest.mark.parametrize(("commands", "facts"), UNSUPPORTED)
def test_what_makes_it_another_model_is_said(commands, facts):
    (line,) = block(commands).unsupported
    assert_says(line, facts)


def test_only_the_last_setting_counts():
    assert block("lset nst=mixed nucmodel=codon; lset nst=6 nuc=4by4;").unsupported == ()


IGNORED = [
    ("mcmc ngen=10 file='a;b'; sumt; sump; mcmc;", "dna.nex: mcmc, sumt, sump: about MrBayes' own chains and files."),
    ("set autoclose=yes nowarn=yes; log start filename=x.log; quit;", "set, log, quit: about MrBayes' own"),
    ("execute other.nex;", "line 3, execute: other files are not read. Give phloem that file itself."),
    ("exe other.nex;", "line 3, execute: other files"),
    ("calibrate Pan=fixed(3);", "line 3, calibrate: ignored, it belongs to models that phloem does not have."),
    ("foo x=y;", "dna.nex, line 3, foo: ignored, an unknown command."),
    ("s x;", "line 3, s: ignored, an unknown command."),
]


@pytest.mark.parametrize(("commands", "facts"), IGNORED)
def test_what_is_ignored_is_said_in_a_line(commands, facts):
    (line,) = block(commands).ignored
    assert_says(line, facts)


WRONG = [
    ("lset nst=5;", "dna.nex, line 3, lset: nst=5 is not possible. Choose one of 1, 2, 6, mixed."),
    ("lset nts=6;", "dna.nex, line 3, lset: MrBayes has no parameter 'nts' here. Correct its name."),
    ("lset n=6;", "MrBayes has no parameter 'n' here"),
    ("lset nst;", "'nst' is no parameter with a value. Write them as in nst=6."),
    ("lset nst=;", "nst has no value. Give it one."),
    ("lset ngammacat=0;", "ngammacat=0 is no number of categories. Correct it."),
    ("lset app=(2) nst=6;", "no part '2', there is 1 part. Correct it."),
    (THREE + "lset app=(0) nst=6;", "no part '0', there are 3 parts. Correct it."),
    ("lset app=1 nst=6;", "'1' is no list of parts. Write (all), or numbers as in (1,3)."),
    ("unlink shape=all;", "unlink: 'all' is no list of parts"),
    ("unlink nothing=(all);", "MrBayes has no parameter 'nothing' here"),
    ("prset statefreqpr=equal;", "statefreqpr=equal is not possible. Choose one of dirichlet, fixed."),
    ("prset statefreqpr=fixed(.1,.2,.3,.3);", "frequencies must sum to 1, not to 0.9. Correct it."),
    ("prset statefreqpr=fixed(.1 .2 .3 .4);", "is not of the form fixed(…) with 4 numbers. Correct it."),
    ("prset statefreqpr=fixed(0,.3,.3,.4);", "its numbers must be above 0. Correct it."),
    ("prset revmatpr=fixed(1,2,3);", "revmatpr=fixed(1,2,3) is not of the form fixed(…) with 6 numbers."),
    ("prset revmatpr=dirichlet;", "revmatpr=dirichlet is not of the form dirichlet(…) with 1 or 6 numbers."),
    ("prset shapepr=exp(-1);", "shapepr=exp(-1): its numbers must be above 0. Correct it."),
    ("prset shapepr=exp(1e999);", "shapepr=exp(1e999) is not of the form exponential(…) with 1 numbers"),
    ("prset pinvarpr=uniform(0,10);", "pinvarpr=uniform(0,10): its bounds must be from 0 to 1, in order."),
    ("prset pinvarpr=fixed(1);", "it must be from 0 up to 1"),
    ("prset brlenspr=exp(10);", "brlenspr=exp is not possible … unconstrained:exponential"),
    ("prset brlenspr=uncons:exp;", "is not of the form unconstrained:exponential(…) with 1 numbers"),
    (THREE + "prset ratepr=dirichlet(1,2);", "ratepr=dirichlet has 2 numbers for 3 parts. Correct it."),
    ("prset topologypr=constraints(x);", "no constraint is called 'x'. Define it before, constraint NAME = taxa;"),
    ("prset topologypr=constraints;", "'' is no list of constraints. Name them in brackets."),
    ("set partition=q;", "dna.nex: no partition is called 'q'. The file has no partition."),
    ("outgroup Mus;", "dna.nex, line 3, outgroup: 'Mus' is no taxon of the alignment. Use its names, or num"),
    ("outgroup 6;", "'6' is no taxon of the alignment"),
    ("outgroup 1 2;", "2 names where MrBayes takes one. Name one taxon."),
    ("constraint a = Pan Mus;", "line 3, constraint: 'Mus' is no taxon of the alignment"),
    ("constraint a = 2-9;", "'2-9' is no taxon of the alignment"),
    ("constraint a soft = 1 2;", "not of the form constraint NAME = taxa, with hard, negative or partial"),
    ("constraint a;", "not of the form constraint NAME"),
    ("constraint a =;", "'a' has no taxa. Name some."),
    ("constraint a partial = 1 2;", "only partial constraints have two lists of taxa, with a colon between."),
    ("constraint a = 1 2 : 3;", "only partial constraints have two lists"),
    ("constraint a partial = 1 2 : 2 3;", "'Pan' on both sides of the colon. Leave each on one side."),
    ("constraint a=1 2; constraint A=1 3;", "'A' is defined twice. Rename one of the two."),
    ("exclude 13;", "line 3, exclude: '13' goes beyond the alignment, which has 12 sites."),
    ("taxset t 1 2;", "line 3, taxset: no name and an equals sign. Write taxset NAME = …;"),
]  # fmt: skip


@pytest.mark.parametrize(("commands", "facts"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_said_in_one_line(commands, facts):
    with pytest.raises(PhloemError, match=saying(facts)) as caught:
        block(commands)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_a_block_that_breaks_off():
    with pytest.raises(
        PhloemError, match=saying("dna.nex, line 2, lset: no ';' at its end. The file may have been cut")
    ):
        read_mrbayes_block("dna.nex", "#NEXUS begin mrbayes; \nlset nst=6", TAXA, SITES)


GENEIOUS = """begin mrbayes;
   set autoclose=yes nowarn=yes;
   lset nst=6 rates=gamma;
   prset brlenspr=unconstrained:gammadir(1,0.1,1,1);
   mcmcp ngen=1100000 printfreq=1000 samplefreq=200 nchains=4 savebrlens=yes starttree=random;
   outgroup 1;
   mcmc;
   sumt burnin=100000;
end;"""
# The last lines of hymfossil.nex, with five taxa.
HYMENOPTERA = f"""begin MrBayes; charset b = 5-8 [4]; charset MV=1-4; charset rest = 9-12; exclude b;
  partition without = 3: MV, b, rest; set partition=without;
  lset applyto=(1) coding=variable rates=gamma; [morphology]
  lset applyto=(2,3) nucmodel=4by4 nst=6 rates=gamma covarion=no; [GTR+G]
  prset applyto=(3) statefreqpr=fixed(equal); [SYM+G]
  unlink statefreq=(all) revmat=(all) shape=(all) [pinvar=(all)];
  prset applyto=(all) ratepr=variable; calibrate Pan=unif(228,242)\n Mus-2=unif(1,2)\n ;
  delete Pan; [prset brlenspr=clock:uniform;] prset brlenspr=clock:fossilization; prset sampleprob=0.0005;
  prset samplestrat=diversity [1: 252 0]; prset samplestrat=random 2: 252 0, 66 0; prset nodeagepr=calibrated;
  constraint root = 1-.; prset topologypr=constraints(root); prset clockratepr=lognorm(-7.1,0.5);
  mcmcp nruns=4 temp=0.07 ngen=100000000; [{"mcmc;" * 3}]
end;"""


def test_blocks_of_other_programs():
    found = read_mrbayes_block("dna.nex", f"{DATA}{GENEIOUS}", tuple("ABCDE"), SITES)
    assert (found.outgroup, found.parts[0].nst, found.parts[0].rates) == ("A", "6", "gamma")
    assert len(found.ignored) == 1
    found = read_mrbayes_block("run.nex", HYMENOPTERA, TAXA, SITES)  # which need not say #NEXUS
    assert [part.nst for part in found.parts] == ["1", "6", "6"]
    assert found.shared("revmat") == (None, 1, 2)
    assert found.parts[2].statefreq == Setting("equal")
    assert len(found.unsupported) == 2
    assert len(found.ignored) == 4


VALID = [
    f"#NEXUS begin mrbayes; {THREE} {commands} end;"
    for commands in (*SHARING, *(text for text, _ in UNSUPPORTED if THREE not in text), *(text for text, _ in IGNORED))
] + [GENEIOUS, HYMENOPTERA]


@given(data=st.data())
def test_damaged_blocks_are_read_or_refused(data):
    text = data.draw(st.sampled_from(VALID))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(len(text), start + 5)))
        pieces = st.sampled_from(
            [*"=,:;()[]{}'\"*-.\\/ \n0179", "prset", "fixed(", "all", "²", "\x1b", "constraint a=1;"]
        )
        text = text[:start] + "".join(data.draw(st.lists(pieces, max_size=3))) + text[stop:]
    try:
        found = read_mrbayes_block("dna.nex", text, TAXA, SITES)
    except PhloemError as problem:
        lines = [str(problem)]
    else:
        lines = [*found.unsupported, *found.ignored] if found else []
    assert all(map(str.isprintable, lines))


EXAMPLES = sorted(
    [
        *Path("/usr/share/doc/mrbayes/examples").glob("*.nex*"),
        *Path("/usr/share/doc/beast2-mcmc/examples/benchmark/mrbayes").glob("*.nex*"),
    ]
)


@pytest.mark.skipif(not EXAMPLES, reason="the examples of Debian's mrbayes-doc are not installed")
def test_the_examples_of_mrbayes_give_a_record_or_one_line():
    outcomes = {}
    for path in EXAMPLES:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        text = content.decode("utf-8-sig")
        try:
            alignment = parse_alignment(content, source=path.name).alignment
            taxa, sites = alignment.taxa, alignment.site_count
        except PhloemError:  # proteins, morphology, or a block alone
            names = re.search(r"taxlabels([^;]*);", text, re.I)
            taxa, sites = tuple(re.sub(r"\[.*?\]", "", names[1]).split()) if names else TAXA, 10_000
        try:
            outcomes[path.name] = read_mrbayes_block(path.name, text, taxa, sites)
        except PhloemError as problem:
            outcomes[path.name] = str(problem)
    for name, found in outcomes.items():
        if not isinstance(found, str):
            continue
        assert_says(found, name)
        assert name == "hymfossil.nex", found  # its taxa are those of a matrix of several kinds of data
    if "sceloporus.nex" in outcomes:
        found = outcomes["sceloporus.nex"]
        assert found.parts[0].brlens == Setting("unconstrained:gammadir", (1, 1, 0.7, 0.5))
        assert len(found.excluded_sites) == 40
        assert len(outcomes["finch.nex"].partition) == 30
        assert outcomes["avian_ovomucoids.nex"] is None  # in a comment
