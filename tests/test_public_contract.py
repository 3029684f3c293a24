"""What is public stays public: names, their docstrings, their types, and what an installation brings along."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "homefold"

PUBLIC = {
    "homefold": """
        Homefold HomefoldConfig HomefoldError LookConfig ManifoldProjector Prediction Predictions SearchConfig
        __version__ list_presets load_plugin look_preset pairwise_metric_loss preset_config search_preset""",
    "homefold.data": """
        BadImageError DatasetEntry DomainDataset IMAGE_EXTENSIONS ImageCache ImageIndex LoadRequest VerificationReport
        cache_directory dataset_entry dataset_from_arrays decode_image download_dataset find_images holdout_split
        images_from_array list_datasets list_downloads load_dataset load_digits_mini load_images register_dataset
        selection_split split_name verify_dataset""",
    "homefold.evaluation": "RunRecord append_record load_records read_records",
    "homefold.export": "Exported export_onnx",
    "homefold.features": """
        FeatureConfig FeatureNet FeatureReport TrainedFeatures backbone_named build_backbone build_feature_net
        extract_features list_backbones pairwise_metric_loss pairwise_metric_loss_bound train_features""",
    "homefold.hub": "Pulled Pushed pull_model push_model",
    "homefold.manifold": """
        GAN Manifold ManifoldConfig ManifoldReport NearestNeighbour VAE build_manifold fit_manifold
        list_manifolds manifold_named nearest_index paper_manifold_config vae_loss""",
    "homefold.methods": """
        Answers Batch ClassifierNetwork DeepAllMethod PaperMethod ImageSet Learner LearnerMethod LearningTask Method
        MethodInfo ParameterGroup TaskKey TestTimeMethod TrainedLearner TrainedMethod TrainingImages TrainingTask
        code_key deep_all_config find_method list_methods method_named register_method register_test_time_method
        reverse_gradient tunable wrapped_by_default""",
    "homefold.projection": """
        Projection SearchConfig chosen_engine cosine_distance elbow_index project search_preset""",
    "homefold.style": """
        StyleConfig StyleModel collect_styles fit_style map_style named_blocks require_channels restyle style_modules
        styled_net""",
}
"""What users may import. A name is added here with its docstring; one that goes needs a line in the changelog."""

# In the sources, but not on an index of packages under the name it is imported by.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "huggingface_hub": "huggingface_hub",
    "python_multipart": "python-multipart",
    "sklearn": "scikit-learn",
    "typing_extensions": "typing-extensions",
    "umap": "umap-learn",
}
# Comes with torch, where there is a package for the platform; every use of it asks first.
WITH_TORCH = {"triton"}


@pytest.mark.parametrize("package", PUBLIC)
def test_the_public_names_are_these(package):
    assert sorted(importlib.import_module(package).__all__) == sorted(PUBLIC[package].split())


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_is_there_and_says_what_it_is(package):
    module = importlib.import_module(package)
    assert module.__doc__
    assert len(module.__doc__) > 10
    for name in module.__all__:
        thing = getattr(module, name)
        if isinstance(thing, type) or inspect.isroutine(thing):
            # What a dataclass writes for itself begins with its own signature.
            assert thing.__doc__, f"{package}.{name} has no docstring"
            assert not thing.__doc__.startswith(f"{name}("), f"{package}.{name} has no docstring"


def modules() -> list[Path]:
    return sorted(SOURCES.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCES)))
def test_every_module_says_what_it_is_and_what_of_it_is_public(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert len(ast.get_docstring(tree) or "") >= len("Adam.")
    bound = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if path.name not in ("__init__.py", "__main__.py"):
        assert "__all__" in bound


def imported_distributions() -> set[str]:
    """The packages that the sources import anywhere, also inside of functions, but for Python's own and this one."""
    found = set()
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.split(".")[0])
    found -= sys.stdlib_module_names | WITH_TORCH | {"homefold"}
    return {DISTRIBUTIONS.get(name, name) for name in found}


@pytest.mark.slow
def test_every_import_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = list(project["dependencies"])
    for extra, lines in project["optional-dependencies"].items():
        declared += lines if extra != "dev" else []
    names = {re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0] for line in declared}
    assert imported_distributions() - names == set()


def test_type_checkers_are_told_that_the_package_has_types():
    assert (SOURCES / "py.typed").read_bytes() == b""
