"""Homefold with a manifold for each source domain or class, from images to a saved folder and back."""

from __future__ import annotations

import numpy as np
import pytest

from homefold import Homefold, ProjectionConfig
from homefold.cli.info import describe_model
from homefold.config import replace_settings
from homefold.errors import ConfigError

SETTINGS = {"features.epochs": 4, "manifold.epochs": 400, "manifold.kl_weight": 1e-4, "manifold.learning_rate": 0.01}


@pytest.mark.parametrize(("per", "names"), [("domain", ("scan", "photo", "print")), ("class", ("0", "1", "2"))])
def test_it_is_fitted_answers_and_comes_back_from_its_folder(few_digits, quick_config, tmp_path, per, names):
    config = replace_settings(quick_config, {**SETTINGS, "manifold.per": per})
    model = Homefold(config, device="cpu").fit(few_digits, holdout="street")
    street = few_digits.only("street").images[:12]
    found = model.predict(street)
    assert found.component_names == names
    assert found.component.shape == (12,)
    assert found[0].component in names
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, rtol=1e-5)
    model.save(tmp_path / "model")
    loaded = Homefold.load(tmp_path / "model", device="cpu")
    assert loaded.config == config
    again = loaded.predict(street)
    for name in ("probabilities", "component", "off_manifold"):
        assert getattr(again, name).tobytes() == getattr(found, name).tobytes()
    assert describe_model(tmp_path / "model")["reports"]["manifold"]["components"][1]["name"] == names[1]
    residuals = ProjectionConfig(answer="residuals")
    if per == "class":
        answers = loaded.predict(street, projection=residuals)
        assert answers.indices.tolist() == answers.component.tolist()
    else:
        with pytest.raises(ConfigError, match="every class has a manifold of its own"):
            loaded.predict(street, projection=residuals)


def test_residuals_are_refused_before_training_where_classes_share_a_manifold(few_digits, quick_config):
    config = replace_settings(quick_config, {"projection.answer": "residuals"})
    with pytest.raises(ConfigError, match="every class has a manifold of its own"):
        Homefold(config, device="cpu").fit(few_digits)
