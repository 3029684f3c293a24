"""What the presets stand for, backbone by backbone, and what the suites ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homefold.classifier import build_classifier
from homefold.config import preset_config, replace_settings
from homefold.errors import ConfigError
from homefold.evaluation.execution import count_parameters
from homefold.evaluation.presets import bench_config
from homefold.evaluation.suites import SUITES
from homefold.manifold import build_manifold
from homefold.methods import find_method
from homefold.report.tables.published import published_table
from homefold.stages.encoder import build_net


class TestPaper:
    """The numbers that the text gives."""

    @pytest.mark.parametrize("backbone", ["resnet18", "resnet50"])
    def test_resnets(self, backbone):
        config = bench_config("paper", backbone)
        assert config == preset_config("paper", {"features.backbone": backbone})
        assert (config.features.learning_rate, config.features.epochs, config.features.batch_size) == (0.001, 200, 128)
        assert (config.manifold.epochs, config.manifold.batch_size) == (350, 64)
        assert (config.classifier.epochs, config.classifier.batch_size) == (20, 64)

    def test_the_resnet_has_the_papers_11_32_million_parameters_to_the_last_one(self):
        """f of 11,307,840, the convolutional VAE of 9,265 and C of 1,799, for the seven classes of PACS."""
        config = bench_config("paper", "resnet18", weights="none")
        net = build_net(config, (224, 224), pretrained=False)
        parts = (
            net,
            build_manifold(config.manifold, net.feature_dim),
            build_classifier(config.classifier, net.feature_dim, 7),
        )
        assert count_parameters(parts) == 11_318_904
        printed = published_table("cost", "pacs", "resnet18")
        assert printed is not None
        assert printed.find("vae", "", "parameters").mean == round(count_parameters(parts) / 1e6, 2)

    def test_alexnet(self):
        config = bench_config("paper", "alexnet")
        assert (config.features.epochs, config.features.feature_dim, config.classifier.epochs) == (250, 1024, 30)
        assert (config.manifold.latent_dim, config.manifold.epochs) == (64, 350)

    def test_digits(self):
        config = bench_config("paper", "digits")
        assert (config.preprocessing.image_size, config.features.head) == (32, "none")
        assert (config.features.learning_rate, config.features.epochs) == (0.05, 100)
        assert (config.manifold.epochs, config.classifier.epochs) == (150, 15)

    def test_wide_resnet(self):
        features = bench_config("paper", "wrn-16-4").features
        assert (features.learning_rate, features.weight_decay, features.epochs) == (0.1, 5e-4, 200)
        assert (features.schedule, features.decay) == ("step", 0.2)
        assert [fraction * 200 for fraction in features.milestones] == [50, 100, 150]


def test_a_network_without_batch_norm_has_a_rate_of_its_own():
    alexnet = preset_config("default", {"features.backbone": "alexnet"})
    assert alexnet.features.learning_rate == 0.003
    resnet = preset_config("default")
    changed = {"features.backbone": "resnet18", "features.learning_rate": resnet.features.learning_rate}
    assert replace_settings(alexnet, changed) == resnet
    for preset in ("default", "thorough", "quick"):
        assert bench_config(preset, "alexnet").features.learning_rate == 0.003
    assert (
        preset_config("default", {"features.backbone": "alexnet", "features.learning_rate": 0.1}).features.learning_rate
        == 0.1
    )
    assert bench_config("paper", "alexnet").features.learning_rate == 0.001


def test_the_default_is_the_packages_own():
    assert bench_config("default", "resnet18") == preset_config("default")
    assert bench_config("default", "digits-bn") == preset_config("small")


def test_thorough_is_the_default_that_keeps_pretrained_weights_and_looks_more_often():
    photos, digits = bench_config("thorough", "resnet18"), bench_config("thorough", "digits-bn")
    assert (photos, digits) == (preset_config("thorough"), preset_config("small-thorough"))
    look = {"look.views": 1, "style.manifold": "mean", "features.keep_pretrained": 0.0}
    assert replace_settings(photos, look) == preset_config("default")
    assert replace_settings(digits, {"look.textures": 0}) == preset_config("small")
    assert (len(photos.views()), len(digits.views()), digits.style.manifold) == (8, 5, "domains")


@pytest.mark.parametrize("backbone", ["resnet18", "digits-bn"])
def test_under_thorough_every_method_looks_as_often_as_it_can(backbone):
    preset = bench_config("thorough", backbone)
    looks = {}
    for name in ("vae", "without-projection", "deep-all", "jigen", "t3a+without-projection", "tent", "memo+vae"):
        method = find_method(name)
        looks[name] = len(method.configure(method.starting(preset), "thorough").views())
    several = len(preset.views())
    assert looks == {
        "vae": several, "without-projection": several, "deep-all": several, "jigen": several,
        "t3a+without-projection": several, "tent": 1, "memo+vae": 1,
    }  # fmt: skip


def test_quick_is_the_default_cut_short():
    assert bench_config("quick", "digits-bn").features.epochs < bench_config("default", "digits-bn").features.epochs
    assert bench_config("quick", "resnet18").features.epochs < bench_config("default", "resnet18").features.epochs


def test_weights_and_the_search_to_the_elbow():
    config = bench_config("default", "resnet18", weights="none", elbow_search=True)
    assert config.features.weights == "none"
    assert (config.search.stop, config.search.starts, config.search.step) == ("elbow", 1, "normalised")
    assert config.style == replace(preset_config("default").style, blocks=())
    paper = bench_config("paper", "resnet18", elbow_search=True).search
    assert (paper.step, paper.steps) == ("gradient", 20_000)


def test_an_unknown_preset():
    with pytest.raises(ConfigError, match="no preset 'small'; choose one of paper, default, thorough, quick"):
        bench_config("small", "resnet18")


def test_every_suite_names_methods_that_exist_and_says_what_it_shows():
    assert len(SUITES) == 14
    for suite in SUITES.values():
        assert suite.description.endswith(".")
        assert [find_method(name).info.name for name in suite.methods] == list(suite.methods)
        assert len({variation.name for variation in suite.variations}) == len(suite.variations)


def test_the_backbones_of_a_suite():
    assert SUITES["pacs"].backbones_for("paper") == ("alexnet", "resnet18", "resnet50")
    assert SUITES["pacs"].backbones_for("quick") == ("digits-bn",)
    assert SUITES["digits-dg"].backbones_for("paper") == ("digits",)
    assert SUITES["digits-dg"].backbones_for("default") == ("digits-bn",)


def test_suites_compare_with_the_rivals_of_the_papers_figures():
    assert {"deep-all", "jigen", "rsc", "vae"} <= set(SUITES["single-source"].methods) & set(SUITES["scarce"].methods)
    assert {"ccsa", "fada", "m-ada"} <= set(SUITES["few-shot"].methods)
    assert "m-ada" in SUITES["cifar10-c"].methods
    assert SUITES["cifar10-c"].backbones_for("default") == ("wrn-16-4",)
    for suite in SUITES.values():
        assert len(set(suite.methods)) == len(suite.methods)
        for name in suite.methods:
            find_method(name)
