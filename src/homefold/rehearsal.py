"""Source domains rehearsed as unseen: for each a network like f that never saw it, and its features of the images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from homefold.config import HomefoldConfig
from homefold.data.dataset import DomainDataset
from homefold.data.splits import selection_split
from homefold.errors import DataError
from homefold.feature_model import to_sphere
from homefold.features import FeatureNet, extract_features, train_features
from homefold.manifold import ManifoldConfig, Rehearsed, rehearse, require_domains
from homefold.progress import ProgressReporter

__all__ = ["rehearsed_features", "require_rehearsable"]


def require_rehearsable(config: ManifoldConfig, dataset: DomainDataset) -> None:
    """Refuse to rehearse on source images of which too little is left when one domain is left out."""
    if not config.rehearse:
        return
    present = np.unique(dataset.domains)
    require_domains(config, len(present))
    for domain in present.tolist():
        if len(np.unique(dataset.labels[dataset.domains != domain])) < 2:
            raise DataError(
                f"without {dataset.domain_names[domain]} the source domains of {dataset.name} have images of one class "
                "only, and rehearse trains a network on those: give more images, or set rehearse to 0."
            )


def rehearsed_features(
    config: HomefoldConfig,
    dataset: DomainDataset,
    z: torch.Tensor,
    train: np.ndarray,
    held_out: np.ndarray,
    *,
    build: Callable[[], FeatureNet],
    device: torch.device,
    checkpoint: Path | None,
    reporter: ProgressReporter,
) -> Rehearsed | None:
    """What stands for each feature when its domain is unseen; None where the settings do not ask for it.

    Args:
        config: every setting; the networks are trained as f was.
        dataset: the source domains.
        z: (n, d) raw features by f of all images, in the space of the manifold.
        train: rows that f was trained on.
        held_out: rows that it was selected on.
        build: f before training.
        device: where to train.
        checkpoint: f's; those of the other networks lie beside it.
        reporter: is told which domain is left out.
    """
    if not config.manifold.rehearse:
        return None
    prepare = to_sphere if config.normalise_features else torch.Tensor.float

    def without(domain: int) -> torch.Tensor:
        reporter.message(f"Rehearsal: features trained without {dataset.domain_names[domain]}.")
        own = None if checkpoint is None else checkpoint.with_stem(f"{checkpoint.stem}-without-{domain}")
        net = _trained_without(domain, config, dataset, build(), device, own, reporter)
        return prepare(extract_features(net, dataset.images, device, space=config.manifold.space))

    rows = torch.from_numpy(train)
    found = rehearse(prepare(z), torch.from_numpy(dataset.domains), rows, without, prepare)
    return Rehearsed(found[rows.to(found.device)], found[torch.from_numpy(held_out).to(found.device)])


def _trained_without(
    domain: int,
    config: HomefoldConfig,
    dataset: DomainDataset,
    net: FeatureNet,
    device: torch.device,
    checkpoint: Path | None,
    reporter: ProgressReporter,
) -> FeatureNet:
    """`net` trained as f is, on the other domains."""
    others = dataset.without(dataset.domain_names[domain])
    train, held_out = selection_split(others, config.features.held_out, config.seed)
    trained = train_features(
        config.features,
        net,
        others,
        train,
        held_out,
        seed=config.seed,
        device=device,
        checkpoint=checkpoint,
        reporter=reporter,
    )
    return trained.net.requires_grad_(False)
