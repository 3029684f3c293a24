"""A short Markdown page that tells a person what a model folder is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "accuracy_line",
    "confidence_line",
    "how_images_are_seen",
    "how_it_was_trained",
    "manifold_line",
    "model_card",
    "thumbnails_line",
]


def how_images_are_seen(config: dict[str, Any]) -> str:
    """What happens to an image before its feature is searched for; empty where it is seen once and as it is."""
    look, style = config["look"], config.get("style", {})
    seen = [f"{look['views']} views"] if look.get("views", 1) > 1 else []
    seen += [f"{look['textures']} fixed filters"] if look.get("textures") else []
    if style.get("blocks"):
        home = "each source domain" if style["manifold"] == "domains" else "their mean"
        seen.append(f"styles {style['weight']:g} of the way to {home} after {' and '.join(style['blocks'])}")
    seen += ["familiar images left as they are"] if look.get("leave_familiar") else []
    return "; ".join(seen)


def how_it_was_trained(features: dict[str, Any]) -> str:
    """The losses of stage 1 and what was added to its training, with their weights or how often; from its settings."""
    parts = {
        f"L_A (τ {features['temperature']:g})": features["metric_weight"],
        "cross entropy": features["cross_entropy_weight"],
        "styles mixed": features.get("mix_style_probability", 0),
    }
    told = [f"{name} {value:g}" for name, value in parts.items() if value]
    told += ["weights averaged"] if features.get("average_from", 1) < 1 else []
    rank = features.get("adapter_rank", 0)
    told += [f"adapters of rank {rank}"] if rank else []
    told += ["backbone frozen"] if features.get("freeze", "none") == "backbone" else []
    return ", ".join(told)


def manifold_line(config: dict[str, Any], report: Mapping[str, Any]) -> str:
    """The manifold in words, and what it stands in for."""
    if config["kind"] != "nearest":
        return f"{config['kind']}, {config['latent_dim']} latent dimensions"
    asked = report.get("instead_of")
    return "the nearest source feature" + (f", as no {asked} could be learned" if asked else "")


def accuracy_line(reports: Mapping[str, Any]) -> str:
    """How right the model is on held-out source images, beside its yardstick; models saved earlier have none."""
    found = reports.get("held_out")
    if found is None:
        return f"{reports['classifier']['held_out_accuracy']:.1%} of the held-out source images, without projection"
    plain, yardstick = f"{found['without_projection']:.1%}", f"{found['yardstick']:.1%}"
    return (
        f"{found['with_projection']:.1%} of {found['images']} held-out source images ({plain} without projection; "
        f"logistic regression on the {found['yardstick_sees']}: {yardstick})"
    )


def confidence_line(reports: Mapping[str, Any]) -> str:
    """Where the temperature of the confidences is from, and what each source domain gave when it was left out."""
    found = reports.get("calibration")
    if found is None:
        return "not calibrated"
    line = f"temperature {found['temperature']:.2f}, fitted on {found['fitted_on']}"
    if not found["accuracy"]:
        return line
    each = ", ".join(f"{name} {accuracy:.1%}" for name, accuracy in found["accuracy"].items())
    return f"{line}; source domains left out in turn, without projection: {each}"


def thumbnails_line(reports: Mapping[str, Any]) -> str:
    """Which images travel with the model; empty where none do."""
    found = reports.get("thumbnails")
    if found is None:
        return ""
    side, size = found["side_px"], found["bytes"] / 1e6
    return f"{found['images']} training images of {side} × {side} px are kept in the model ({size:.1f} MB)"


def model_card(description: Mapping[str, Any]) -> str:
    """The card for a model with this description (see `Homefold.save`)."""
    config, reports = description["settings"], description["measured"]
    features, manifold = config["features"], manifold_line(config["manifold"], reports["manifold"])
    skipped = len(reports["images"]["skipped"])
    seen = how_images_are_seen(config)
    seen = f"\n- Images of a new domain: {seen}" if seen else ""
    measured = (
        f"{accuracy_line(reports)}; "
        f"{reports['features']['criterion']} {reports['features']['held_out_loss']:.4f}; reconstruction cosine "
        f"{reports['manifold']['reconstruction_cosine']:.3f}"
    )
    if kept := thumbnails_line(reports):
        kept = f"\n- Thumbnails: {kept}. Whoever has this folder sees them."
    versions = ", ".join(f"{name} {version}" for name, version in description["versions"].items())
    return f"""# A homefold model

Tells {len(description["classes"])} classes apart ({", ".join(description["classes"])}), also in \
domains it has never seen: each image's feature is brought to the manifold of the source features before it \
is classified.

- Source domains: {", ".join(description["source_domains"])}
- Images: {reports["images"]["trained_on"]} trained on, {reports["images"]["held_out"]} held out for selection, \
{skipped} skipped as unreadable
- Input: RGB, {config["preprocessing"]["image_size"]} px ({config["preprocessing"]["resize"]})
- Network: {features["backbone"]}, head {features["head"]}; manifold: {manifold}
- Training: {how_it_was_trained(features)}{seen}
- On held-out *source* images: {measured}
- Confidence: {confidence_line(reports)}{kept}
- Seed {config["seed"]}; {versions}

Accuracy on a new domain is usually lower than on the source domains; measure it with
`homefold evaluate MODEL DATA --domain NAME` before you rely on it. The off-manifold score of a prediction
says how unusual an image is for the model; above 1 it is farther out than 95 % of held-out source images.

```python
from homefold import Homefold
model = Homefold.load("this/folder")
print(model.predict("image.jpg")[0])
```
"""
