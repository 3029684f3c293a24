"""`homefold info`: what a model is, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from homefold.cli.output import fact_table, print_json, result_console, show_bytes
from homefold.cli.parsing import JsonFlag, PluginFlag, Positional, parse
from homefold.config import config_to_dict
from homefold.config.normalisation import STATISTICS
from homefold.store.files import plain_json
from homefold.store.model_card import (
    accuracy_line,
    confidence_line,
    how_images_are_seen,
    how_it_was_trained,
    manifold_line,
    thumbnails_line,
)

if TYPE_CHECKING:
    import torch

__all__ = ["InfoOptions", "describe_model", "run", "size_on_disk"]

# Tensors that are saved but not trained: statistics of batch norm, and the known points of the manifold.
_NOT_TRAINED = ("running_mean", "running_var", "num_batches_tracked", "bank_latents", "bank_features", "calibration")


@dataclass(frozen=True)
class InfoOptions:
    """Show what a model is: classes, domains, network, manifold, accuracy on held-out source images.

    Example: homefold info model --json
    """

    model: Annotated[Path, Positional("MODEL")]
    """The folder of a model."""
    json: JsonFlag = False
    plugin: PluginFlag = ()


def run(arguments: Sequence[str]) -> int:
    """Read and print."""
    options = parse(InfoOptions, "info", arguments)
    facts = describe_model(options.model)
    from homefold.cli.unfinished import tidy_after_fit  # imports torch, which --help does not need

    tidy_after_fit(options.model)
    if options.json:
        print_json(facts)
    else:
        result_console().print(fact_table(_lines(facts)))
    return 0


def describe_model(path: Path) -> dict[str, Any]:
    """Plain values on the model in `path`, once it is certain that it can be loaded."""
    from homefold.store.model_folder import read_model_folder  # imports torch, which --help does not need

    tensors, content = read_model_folder(path)
    facts = _image_facts(content, path) if content["kind"] == "images" else _feature_facts(content, path)
    home = tensors["home"]
    parameters = {
        "features": _trained(tensors.get("features", {})),
        "manifold": _trained({name: value for name, value in home.items() if name.startswith("manifold.")}),
        "classifier": _trained({name: value for name, value in home.items() if name.startswith("classifier.")}),
    }
    return {
        "model": str(path),
        **facts,
        "parameters": {**parameters, "total": sum(parameters.values())},
        "size_bytes": size_on_disk(path),
    }


def _image_facts(content: dict[str, Any], path: Path) -> dict[str, Any]:
    # These import torch, which --help does not need.
    from homefold.model import CUSTOM, Homefold
    from homefold.stages.description import images_config

    config = images_config(content, path)
    # Without a network of the user's own there is nothing to load its tensors into.
    if config.features.backbone != CUSTOM:
        Homefold.load(path, device="cpu")
    side, (mean, std) = config.preprocessing.image_size, STATISTICS[config.preprocessing.normalisation]
    taken = {"height": side, "width": side, "mean": list(mean), "std": list(std)}
    return {**content, "settings": plain_json(config_to_dict(config)), "input": taken}


def _feature_facts(content: dict[str, Any], path: Path) -> dict[str, Any]:
    from homefold.projector import ManifoldProjector  # scikit-learn takes a second to import
    from homefold.stages.description import projector_config

    ManifoldProjector.load(path, device="cpu")
    return {**content, "settings": plain_json(config_to_dict(projector_config(content, path)))}


def size_on_disk(folder: Path) -> int:
    """Bytes of all files of a model."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _trained(tensors: dict[str, torch.Tensor]) -> int:
    return sum(value.numel() for name, value in tensors.items() if not name.endswith(_NOT_TRAINED))


def _lines(facts: dict[str, Any]) -> dict[str, str]:
    """What a person wants to know, in words."""
    lines = _image_lines(facts) if facts["kind"] == "images" else _feature_lines(facts)
    count = facts["parameters"]["total"]
    is_frozen = facts["settings"].get("features", {}).get("freeze") == "backbone"
    return {
        "Model": f"{facts['model']} ({show_bytes(facts['size_bytes'])}, format {facts['format_version']})",
        **lines,
        "Parameters": f"{count:,}, of which the backbone's were not trained" if is_frozen else f"{count:,} trained",
    }


def _image_lines(facts: dict[str, Any]) -> dict[str, str]:
    config, reports = facts["settings"], facts["measured"]
    preprocessing, features, images = config["preprocessing"], config["features"], reports["images"]
    side = preprocessing["image_size"]
    return {
        "Classes": _names(facts["classes"]),
        "Source domains": ", ".join(facts["source_domains"]),
        "Images": f"{images['trained_on']} trained on, {images['held_out']} held out for selection, "
        f"{len(images['skipped'])} left out as unreadable",
        "Input": f"{side} × {side} px, {preprocessing['resize']}, normalisation {preprocessing['normalisation']} "
        f"(mean {_numbers(facts['input']['mean'])}; deviation {_numbers(facts['input']['std'])})",
        "Network": f"{features['backbone']}, head {features['head']}, {facts['parameters']['features']:,} parameters; "
        + _epochs(features, reports["features"]["selected_epoch"]),
        "Training": how_it_was_trained(features),
        **_projection_lines(config, reports["manifold"]),
        **_look_line(config),
        "Accuracy": accuracy_line(reports),
        "Confidence": confidence_line(reports),
        **({"Thumbnails": kept} if (kept := thumbnails_line(reports)) else {}),
        "Made with": ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        + f"; seed {config['seed']}",
    }


def _epochs(features: dict[str, Any], selected: int) -> str:
    runs = features.get("runs", 1)
    return f"best epoch {selected} of {features['epochs']}" if runs == 1 else f"the mean of {runs} runs"


def _feature_lines(facts: dict[str, Any]) -> dict[str, str]:
    config = facts["settings"]
    return {
        "Kind": "a projector of features (ManifoldProjector.load reads it)",
        "Classes": _names([str(name) for name in facts["classes"]]),
        "Input": f"features of {facts['feature_dim']} dimensions",
        **_projection_lines(config, facts["measured"]["manifold"]),
    }


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def _names(names: Sequence[str]) -> str:
    return f"{len(names)}: {', '.join(names)}"


def _look_line(config: dict[str, Any]) -> dict[str, str]:
    """How target images are seen, where that is not once and as they are."""
    seen = how_images_are_seen(config)
    return {"Target images": seen} if seen else {}


def _projection_lines(config: dict[str, Any], report: dict[str, Any]) -> dict[str, str]:
    search = config["search"]
    kinds = {
        "encoder": int(search["encoder_start"]),
        "random": search["random_starts"],
        "nearest": search["nearest_starts"],
    }
    starts = " + ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    return {
        "Manifold": f"{manifold_line(config['manifold'], report)}; reconstruction cosine "
        f"{report['reconstruction_cosine']:.3f} (a constant: {report['baseline_cosine']:.3f})",
        "Projection": f"starts: {starts}; at most {search['steps']} {search['step']} steps of {search['rate']}, "
        f"stop {search['stop']}",
    }
