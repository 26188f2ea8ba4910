"""MrBayes' blocks as settings of `phloem infer`: what is taken, what the user replaces, what is refused."""

from collections.abc import Collection

import pytest

from phloem.config import InferConfig, ModelConfig
from phloem.config.infer import INFER
from phloem.data.mrbayes_block import read_mrbayes_block
from phloem.errors import ConfigError
from phloem.tasks.mrbayes_settings import BlockSettings, block_settings
from support.messages import assert_says

TAXA = ("Human", "Chimp", "Gorilla", "Orang")
TWO = "charset a=1-6; charset b=7-12; partition p=2: a, b; set partition=p; "
THREE = "charset a=1-4; charset b=5-8; charset c=9-12; partition p=3: a, b, c; set partition=p; "


def found(commands: str, given: Collection[str] = ()) -> BlockSettings:
    block = read_mrbayes_block("dna.nex", f"#NEXUS begin mrbayes; {commands} end;", TAXA, 12)
    return block_settings("dna.nex", block, given)


def resolved(commands: str, **flags: object) -> InferConfig:
    """With settings of the user over those of the block."""
    return INFER.resolve(settings=[found(commands, flags).layer, flags])


@pytest.mark.parametrize(
    ("commands", "model"),
    [
        ("lset nst=1;", ModelConfig("F81")),
        ("prset statefreqpr=fixed(equal);", ModelConfig("JC")),
        ("lset nst=2; prset statefreqpr=fixed(equal);", ModelConfig("K80")),
        ("lset nst=2 rates=propinv; prset statefreqpr=fixed(empirical);", ModelConfig("HKY+F+I")),
        ("lset nst=6 rates=gamma; prset statefreqpr=fixed(equal);", ModelConfig("SYM+G4")),
        ("lset nst=6 rates=invgamma ngammacat=8;", ModelConfig("GTR+I+G8")),
        (
            "lset nst=2 rates=gamma; prset tratiopr=fixed(4) shapepr=fixed(0.5);",
            ModelConfig("HKY+G4", (4.0,), alpha=0.5),
        ),
        ("lset rates=propinv; prset pinvarpr=fixed(0.25);", ModelConfig("F81", invariant=0.25)),
        (
            "lset nst=6; prset revmatpr=fixed(1,2,3,4,5,6) statefreqpr=fixed(.1,.2,.3,.4);",
            ModelConfig("GTR", frequencies=(0.1, 0.2, 0.3, 0.4), rates=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)),
        ),
    ],
)
def test_models(commands, model):
    config = resolved(commands)
    assert config.model == model
    assert config.branch_prior == "gamma-dirichlet:1,0.1"
    assert config.partition.sites is None


@pytest.mark.parametrize(
    ("prior", "settings"),
    [
        ("exponential(3)", ("exponential", 3.0)),
        ("gammadir(2,.5,1,1)", ("gamma-dirichlet:2,0.5", 10.0)),
        ("uniform(0,7)", ("uniform:7", 10.0)),
    ],
)
def test_priors_on_lengths(prior, settings):
    config = resolved(f"prset brlenspr=unconstrained:{prior};")
    assert (config.branch_prior, config.prior_rate) == settings


@pytest.mark.parametrize(
    ("commands", "models", "link", "rates"),
    [
        ("lset nst=2;", None, "kappa,frequencies", "equal"),
        ("lset nst=2; unlink tratio=(all) statefreq=(all); prset ratepr=variable;", None, None, "inferred"),
        (
            "lset app=(1) nst=6 rates=gamma; lset app=(2) nst=2 rates=gamma;",
            "GTR+G4,HKY+G4",
            "frequencies,alpha",
            "equal",
        ),
        ("lset app=(1) nst=6; prset app=(2) statefreqpr=fixed(empirical);", "GTR,F81+F", None, "equal"),
        ("", None, "frequencies", "equal"),
    ],
)
def test_parts(commands, models, link, rates):
    config = resolved(TWO + commands)
    assert config.partition.sites == "dna.nex"
    assert (config.partition.models, config.partition.link, config.partition.rates) == (models, link, rates)


def test_the_model_recorded_for_parts_that_differ_is_the_largest():
    assert resolved(TWO + "lset app=(2) nst=6 rates=gamma;").model == ModelConfig("GTR+G4")


def test_what_the_user_says_replaces_what_the_block_says():
    commands = TWO + "lset nst=6 rates=gamma; lset app=(2) nst=2; prset brlenspr=unconstrained:exp(5);"
    config = resolved(commands, **{"model.name": "HKY"})
    assert (config.model, config.partition.models) == (ModelConfig("HKY"), None)
    assert config.partition.linked == {"kappa", "rates", "frequencies", "alpha", "invariant"}
    assert (config.branch_prior, config.prior_rate) == ("exponential", 5)
    config = resolved(commands, **{"partition.link": "alpha", "branch_prior": "uniform:3"})
    assert config.partition.models == "GTR+G4,HKY+G4"
    assert (config.partition.link, config.branch_prior, config.prior_rate) == ("alpha", "uniform:3", 10)
    config = resolved("prset brlenspr=unconstrained:gammadir(1,1,1,1);", prior_rate=20.0)
    assert (config.branch_prior, config.prior_rate) == ("exponential", 20)
    config = resolved(TWO + "lset nst=2; prset ratepr=fixed;", **{"partition.sites": "by-codon"})
    assert (config.partition.sites, config.partition.link, config.partition.rates) == ("by-codon", None, "inferred")
    assert resolved("lset nst=6 rates=gamma;", **{"model.alpha": 0.5}).model == ModelConfig("GTR+G4", alpha=0.5)


def test_a_block_about_chains_leaves_the_usual_model():
    block = found("mcmc ngen=1000; outgroup Human; sump;")
    assert block.layer == {"outgroup": "Human"}
    rooted, line = block.notices
    assert rooted == "taken from the MrBayes block of dna.nex: trees are rooted at outgroup Human, for display"
    assert found("outgroup Human;", ["outgroup"]).layer == {}
    assert_says(line, "dna.nex: mcmc, sump: about MrBayes' own chains")
    assert resolved("mcmc;") == InferConfig()


def test_what_is_taken_is_said_in_a_line():
    line, *others = found(TWO + "lset app=(2) nst=2;").notices
    assert others == []
    assert line == (
        "taken from the MrBayes block of dna.nex: models F81, HKY, 2 parts, branch lengths gamma-dirichlet:1,0.1; "
        "flags override it"
    )
    line, loose = found("lset nst=6 rates=invgamma; prset brlens=unc:exp(3); constraint apes = 1 2;").notices
    assert_says(line, "dna.nex: model GTR+I+G4, branch lengths exponential with rate 3; flags")
    assert_says(loose, "dna.nex: constraint 'apes': defined, but … enforces it.")


@pytest.mark.parametrize(
    ("commands", "says"),
    [
        ("lset nst=mixed;", "dna.nex, line 1, lset: phloem has no nst=mixed."),
        ("lset rates=lnorm covarion=yes;", "no rates=lnorm. The block has 1 more problem."),
        ("lset nucmodel=codon;", "no nucmodel=codon"),
        ("prset brlenspr=clock:uniform;", "no brlenspr=clock:uniform"),
        ("prset statefreqpr=dirichlet(2,2,2,2);", "no statefreqpr=dirichlet(2,2,2,2). Make it … or fixed."),
        ("lset nst=6; prset revmatpr=dirichlet(1,1,1,1,1,3);", "no revmatpr=dirichlet(1,1,1,1,1,3)"),
        ("lset nst=2; prset tratiopr=beta(2,1);", "no tratiopr=beta(2,1). Make it beta(1,1)"),
        ("lset rates=gamma; prset shapepr=uniform(0,200);", "no shapepr=uniform(0,200). Make it exponential(1)"),
        ("lset rates=propinv; prset pinvarpr=uniform(0,0.5);", "no pinvarpr=uniform(0,0.5)"),
        ("prset brlenspr=unconstrained:gammadir(1,1,0.5,1);", "gammadir(1,1,0.5,1), only one with alpha"),
        ("prset brlenspr=unconstrained:uniform(1,2);", "only one from 0"),
        (TWO + "lset nst=2; prset app=(1) tratiopr=fixed(3);", "in one of them a parameter is fixed"),
        (TWO + "prset app=(1) ratepr=variable;", "ratepr varies for some parts only"),
        (TWO + "prset ratepr=dirichlet(3,1);", "no ratepr=dirichlet(3,1). Make it variable"),
        (THREE + "unlink statefreq=(1);", "statefreq is shared by some parts only"),
    ],
)  # fmt: skip
def test_what_would_be_another_model_is_an_error_of_one_line(commands, says):
    with pytest.raises(ConfigError) as caught:
        found(commands)
    assert_says(str(caught.value), says)
    assert str(caught.value).endswith("--no-mrbayes (in Python, mrbayes=False) leaves the block aside.")
    assert "\n" not in str(caught.value)


def test_constraints_are_those_of_the_file():
    commands = "lset nst=6; constraint apes = 1 2; constraint loose = 2 3; prset topologypr=constraints(apes);"
    assert found(commands).layer["constrain"] == "dna.nex"
    assert_says(found(commands).notices[0], "model GTR, … 1 constraint; flags override it")
    assert "constrain" not in found(commands, ["constrain"]).layer
    assert "constrain" not in found("lset nst=6; constraint apes = 1 2;").layer


def test_a_model_of_the_users_own_makes_up_for_one_that_phloem_does_not_have():
    commands = "lset nst=2; prset tratiopr=beta(2,1);"
    assert resolved(commands, **{"model.name": "HKY"}).model == ModelConfig("HKY")


@pytest.mark.parametrize("given", ["partition.sites", "model.kappa"])
def test_parts_with_models_of_their_own_need_their_parts(given):
    with pytest.raises(ConfigError) as caught:
        found(TWO + "lset app=(1) nst=6;", [given])
    assert_says(str(caught.value), "dna.nex, MrBayes block: its parts have different models … with --model.")
