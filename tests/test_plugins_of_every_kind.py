"""The examples under examples/plugins: a manifold, a backbone and a dataset of one's own, each in one file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from cli.scene import make_photos
from forgetting import forget_plugins, forgetting
from homefold import Homefold, ManifoldProjector, load_plugin, preset_config
from homefold.cli import main
from homefold.config.backbones import BACKBONES
from homefold.config.manifold import MANIFOLDS
from homefold.data import list_datasets, load_digits_mini
from homefold.errors import ConfigError, ModelFileError
from homefold.features.blocks import early_blocks
from homefold.stages.features import features_id
from homefold.stages.manifold import manifold_id
from homefold.stages.own_code import config_code
from homefold.stages.task import TaskKey

PLUGINS = Path(__file__).parents[1] / "examples" / "plugins"
STRIPES = PLUGINS / "stripes_dataset.py"
PCA, TINY = PLUGINS / "pca_manifold.py", PLUGINS / "tiny_backbone.py"


@pytest.fixture(autouse=True)
def forget():
    """What a test registers is gone after it."""
    with forgetting():
        yield


def forgotten(*names: str) -> None:
    """As in a new process that names no plugin."""
    forget_plugins()
    for registry in (MANIFOLDS, BACKBONES):
        for name in names:
            if name in registry:
                registry.remove(name)


@pytest.fixture(scope="module")
def features() -> tuple[np.ndarray, np.ndarray]:
    """Three classes on a plane in 16 dimensions, with noise around it."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 80)
    plane = rng.normal(size=(3, 2)) @ rng.normal(size=(2, 16)) * 3
    return plane[labels] + 0.3 * rng.normal(size=(240, 16)), labels


@pytest.mark.slow
def test_a_manifold_of_a_plugin_is_fitted_projected_onto_saved_and_loaded(features, tmp_path):
    load_plugin(PCA)
    x, labels = features
    model = ManifoldProjector(manifold="pca", latent_dim=2, device="cpu").fit(x, labels)
    assert model.score(x, labels) > 0.95
    manifold = model.model_.manifold
    noise = torch.randn(5, 16, generator=torch.Generator().manual_seed(0))
    back = manifold.decode(manifold.encode(noise))
    torch.testing.assert_close(manifold.decode(manifold.encode(back)), back, rtol=1e-4, atol=1e-4)
    assert manifold.report.explained > 0.5
    model.save(tmp_path / "model")
    expected = model.predict_proba(x)

    forgotten("pca")
    with pytest.raises(ModelFileError) as caught:
        ManifoldProjector.load(tmp_path / "model")
    assert str(caught.value) == (
        f"the model in {tmp_path / 'model'} has the manifold 'pca', which is none of homefold's own (conv-vae, gan, "
        "nearest, vae): it came from a plugin. Loading a model runs no code by itself; name its file again: by "
        "plugin in a command, by homefold.load_plugin in Python."
    )
    load_plugin(PCA)
    again = ManifoldProjector.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(again.predict_proba(x), expected)


def test_without_the_plugin_its_names_are_unknown_before_anything_is_trained(features):
    with pytest.raises(ConfigError, match=r"no manifold 'pca'; choose one of .*, or one that a plugin registers"):
        ManifoldProjector(manifold="pca", device="cpu").fit(*features)
    with pytest.raises(ConfigError, match=r"no backbone 'tiny'; choose one of alexnet, .*, or one that a plugin reg"):
        Homefold(preset_config("small", {"features.backbone": "tiny"})).fit(load_digits_mini())


@pytest.mark.slow
def test_a_backbone_of_a_plugin_has_its_own_rate_and_blocks():
    load_plugin(TINY)
    assert preset_config("small", {"features.backbone": "tiny"}).features.learning_rate == 0.2
    for preset in ("default", "paper"):
        assert preset_config(preset, {"features.backbone": "tiny"}).features.learning_rate == (
            preset_config(preset).features.learning_rate
        )
    assert early_blocks(BACKBONES["tiny"].build(), (32, 32)) == ("low", "high")


@pytest.mark.slow
def test_the_command_fits_shows_and_answers_with_plugins_named_again(tmp_path, capsys):
    plugins = ("--plugin", str(PCA), str(TINY))
    quick = ("--features.epochs", "1", "--features.feature-dim", "16", "--manifold.latent-dim", "4")
    model = tmp_path / "model"
    photos = str(make_photos(tmp_path / "photos"))
    fit = ("fit", photos, "--out", str(model), "--preset", "small", "--backbone", "tiny", "--device", "cpu")
    assert main([*fit, *quick, "--manifold.kind", "pca", *plugins]) == 0
    described = json.loads((model / "model.json").read_text(encoding="utf-8"))
    assert described["settings"]["features"]["learning_rate"] == 0.2
    capsys.readouterr()

    forgotten("pca", "tiny")
    for command in (("info", str(model)), ("evaluate", str(model), photos, "--device", "cpu")):
        assert main(list(command)) == 1
        assert "which is none of homefold's own" in capsys.readouterr().err
        assert main([*command, "--json", *plugins]) == 0
        forgotten("pca", "tiny")
        capsys.readouterr()


@pytest.mark.slow
def test_a_dataset_of_a_plugin_is_listed_and_learned_from(tmp_path, capsys):
    assert main(["data", "list", "--json", "--plugin", str(STRIPES)]) == 0
    assert "stripes" in [entry["name"] for entry in json.loads(capsys.readouterr().out)["datasets"]]
    few = ("--features.epochs", "6", "--features.feature-dim", "16", "--manifold.latent-dim", "4", "--device", "cpu")
    model = str(tmp_path / "model")
    stripes = ("--plugin", str(STRIPES))
    assert main(["fit", "stripes", "--out", model, "--holdout", "noisy", "--preset", "small", *few, *stripes]) == 0
    capsys.readouterr()
    assert main(["evaluate", model, "stripes", "--domain", "noisy", "--device", "cpu", "--json", *stripes]) == 0
    (domain,) = json.loads(capsys.readouterr().out)["domains"]
    assert (domain["domain"], domain["images"], domain["seen_in_training"]) == ("noisy", 80, False)


@pytest.mark.slow
def test_a_dataset_of_a_plugin_that_failed_is_gone(tmp_path):
    path = tmp_path / "stripes.py"
    path.write_text(STRIPES.read_text(encoding="utf-8") + "\n1 / 0\n", encoding="utf-8")
    before = list_datasets()
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        load_plugin(path)
    assert list_datasets() == before


@pytest.mark.slow
@pytest.mark.parametrize(("plugin", "name"), [(PCA, "pca"), (TINY, "tiny")])
def test_a_changed_plugin_is_trained_anew(tmp_path, plugin, name):
    def ids(change: str) -> tuple[str, str, str]:
        forgotten("pca", "tiny")
        mine = tmp_path / plugin.name
        shutil.copy(plugin, mine)
        mine.write_text(mine.read_text(encoding="utf-8") + change, encoding="utf-8")
        load_plugin(mine)
        setting = {"pca": "manifold__kind", "tiny": "features__backbone"}[name]
        config = preset_config("small", **{setting: name})
        key = TaskKey("source", config)
        return config_code(config), features_id(key).digest, manifold_id(key).digest

    plain, commented, changed = ids(""), ids("\n# a comment\n"), ids("\nCHANGED = True\n")
    assert plain == commented
    assert plain[0] != changed[0]
    assert (plain[1] != changed[1]) == (name == "tiny")
    assert plain[2] != changed[2]
    assert config_code(preset_config("small")) == ""
