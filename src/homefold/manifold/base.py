"""What every model of the source manifold offers and says of itself; manifolds by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from homefold.config.manifold import MANIFOLDS, ManifoldConfig
from homefold.config.values import require_types
from homefold.errors import ConfigError, DataError, ManifoldCollapsedError, ModelFileError, shown
from homefold.runtime.progress import ProgressReporter, SilentReporter

__all__ = [
    "SLOPE",
    "Manifold",
    "ManifoldReport",
    "baseline_cosine",
    "build_manifold",
    "explained_share",
    "fit_manifold",
    "list_manifolds",
    "mlp",
    "nearly_constant",
    "report_on",
]

SLOPE = 0.2


@dataclass(frozen=True)
class ManifoldReport:
    """Facts measured on held-out source features at the end of a fit; a fact that a kind lacks is None."""

    kind: str
    """The kind of manifold."""
    epochs_run: int
    """Epochs trained."""
    best_epoch: int
    """The epoch whose weights were kept, counted from 1."""
    baseline_cosine: float
    """Mean cosine of a held-out feature to the mean training feature: what a constant would reach."""
    reconstruction_cosine: float
    """Mean cosine of a held-out feature to its reconstruction (GAN: to the nearest of 4,096 samples)."""
    explained: float
    """Share of the baseline's cosine distance that is removed: 1 - (1 - cosine) / (1 - baseline)."""
    collapsed: bool
    """Whether the manifold is of no use."""
    reason: str = ""
    """Why it, or the kind that it stands in for, is of no use, and what to change; empty when all is well."""
    reconstruction: float | None = None
    """Held-out reconstruction loss, L1 + L2 per coordinate (VAE)."""
    kl_per_sample: float | None = None
    """Mean KL divergence of the posterior from the prior, in nats (VAE)."""
    active_units: int | None = None
    """Latent dimensions whose posterior mean varies over the held-out features by more than 0.01 (VAE)."""
    diversity: float | None = None
    """Mean pairwise cosine distance of samples, relative to that of held-out features (GAN)."""
    instead_of: str = ""
    """The kind that was asked for and could not be learned; empty when this is the one."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ManifoldReport:
        """The report that `as_dict` wrote; names it does not know are left out."""
        if not isinstance(values, Mapping):
            raise ModelFileError(f"the manifold's report must be an object of figures; got {shown(values)}.")
        known = {field.name: field for field in fields(cls)}
        missing = [name for name, field in known.items() if field.default is MISSING and name not in values]
        if missing:
            raise ModelFileError(f"the manifold's report lacks {', '.join(missing)}; the file was edited or truncated.")
        report = cls(**{name: value for name, value in values.items() if name in known})
        try:
            require_types(report)
        except ConfigError as error:
            raise ModelFileError(f"the manifold's report is odd: {error}") from None
        return report


class Manifold(nn.Module, ABC):
    """A model of where source features lie: decode a latent into a feature, and say how well that works.

    Args:
        feature_dim: dimensions d of a feature z.
        latent_dim: dimensions of a latent u.
        bank_size: rows of the bank before fitting or loading; loading a state takes the state's.
    """

    has_encoder: bool
    is_continuous: bool
    bank_latents: torch.Tensor
    bank_features: torch.Tensor

    def __init__(self, feature_dim: int, latent_dim: int, bank_size: int = 0) -> None:
        super().__init__()
        self.feature_dim, self.latent_dim = feature_dim, latent_dim
        self.register_buffer("bank_latents", torch.zeros(bank_size, latent_dim))
        self.register_buffer("bank_features", torch.zeros(bank_size, feature_dim))
        self._report: ManifoldReport | None = None

    @abstractmethod
    def decode(self, u: torch.Tensor) -> torch.Tensor:
        """Features at latents. u: (n, latent_dim) -> (n, feature_dim); row i depends on row i of u only."""

    def encode(self, z: torch.Tensor) -> torch.Tensor:
        """The latent that stands for each feature. z: (n, feature_dim) -> (n, latent_dim)."""
        raise ConfigError(
            f"a {type(self).__name__} has no encoder, so a projection cannot start from it; "
            "start from random latents or from the nearest source latent, or use a VAE."
        )

    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """n features at latents drawn from the prior N(0, I): (n, feature_dim)."""
        u = torch.randn(n, self.latent_dim, generator=generator, device=generator.device)
        return self.decode(u.to(self.bank_latents.device))

    @property
    def report(self) -> ManifoldReport:
        """What was measured on held-out source features at the end of the fit."""
        if self._report is None:
            raise ConfigError("this manifold has no report yet: fit it, or set the report that was saved with it.")
        return self._report

    @report.setter
    def report(self, report: ManifoldReport) -> None:
        self._report = report

    def require_usable(self) -> None:
        """Raise `ManifoldCollapsedError` with the report's sentence if the manifold collapsed."""
        if self.report.collapsed:
            raise ManifoldCollapsedError(self.report.reason)

    def require_bank(self) -> None:
        """Refuse a manifold that was loaded without known points, or with other latents than features of them."""
        latents, features = len(self.bank_latents), len(self.bank_features)
        if latents != features or not features:
            raise ModelFileError(f"the manifold has {features} known features and {latents} latents of them.")

    def freeze(self) -> None:
        """Evaluation mode, and no gradients for the weights: only latents are searched over."""
        self.requires_grad_(False)
        self.eval()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the number of rows of the banks from the state, so that a model of any bank size loads."""
        for name in [name for name in self._buffers if name.startswith("bank_")]:
            old, new = self._buffers[name], state_dict.get(prefix + name)
            if old is not None and new is not None and (old.ndim, old.shape[1:]) == (new.ndim, new.shape[1:]):
                self._buffers[name] = old.new_empty(new.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers of the given widths, input and output included, with LeakyReLU(0.2) between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.LeakyReLU(SLOPE)]
    return nn.Sequential(*layers[:-1])


def baseline_cosine(train: torch.Tensor, held_out: torch.Tensor) -> float:
    """Mean cosine of a held-out feature to the mean training feature. train: (n, d), held_out: (m, d)."""
    return float(F.cosine_similarity(held_out, train.mean(dim=0, keepdim=True)).mean())


def nearly_constant(baseline: float) -> bool:
    """Whether features are so alike that float32 cosines no longer tell them apart."""
    return 1 - baseline < 1e-5


def explained_share(cosine: float, baseline: float) -> float:
    """1 - (1 - cosine) / (1 - baseline), the share of the distance removed; 0 for constant features."""
    return 0.0 if nearly_constant(baseline) else 1 - (1 - cosine) / (1 - baseline)


def report_on(
    config: ManifoldConfig, best_epoch: int, baseline: float, cosine: float, trouble: str = "", **facts: Any
) -> ManifoldReport:
    """The report of a manifold that reaches held-out features by `cosine`, where a constant reaches `baseline`.

    Args:
        config: that it was fitted with.
        best_epoch: the epoch kept, from 1; 0 where nothing was trained.
        baseline, cosine: means over the held-out features.
        trouble: why it is of no use, and what to change; empty when all is well.
        **facts: of its kind.
    """
    if nearly_constant(baseline):
        trouble = (
            f"The source features hardly differ in direction (mean cosine {baseline:.6f} to their mean), "
            "so there is no manifold to learn: look at how they were trained, or subtract their mean first."
        )
    return ManifoldReport(
        kind=config.kind,
        epochs_run=config.resolved_epochs if best_epoch else 0,
        best_epoch=best_epoch,
        baseline_cosine=baseline,
        reconstruction_cosine=cosine,
        explained=explained_share(cosine, baseline),
        collapsed=bool(trouble),
        reason=trouble,
        **facts,
    )


def list_manifolds() -> tuple[str, ...]:
    """The kinds of manifold that exist.

    >>> list_manifolds()
    ('conv-vae', 'gan', 'nearest', 'vae')
    """
    return tuple(MANIFOLDS)


def build_manifold(config: ManifoldConfig, feature_dim: int, bank_size: int = 0) -> Manifold:
    """An unfitted manifold, frozen, into which a saved state of any bank size loads.

    Args:
        config: kind and shapes.
        feature_dim: dimensions of a feature.
        bank_size: rows of the empty bank; `load_state_dict` replaces it by the state's.
    """
    manifold: Manifold = MANIFOLDS[config.kind].build(config, feature_dim, bank_size)
    manifold.freeze()
    return manifold


def fit_manifold(
    config: ManifoldConfig,
    train: torch.Tensor,
    held_out: torch.Tensor,
    *,
    labels: torch.Tensor | None = None,
    seed: int,
    device: torch.device | str = "cpu",
    reporter: ProgressReporter | None = None,
) -> Manifold:
    """Fit the configured manifold to source features and measure it on held-out ones.

    Args:
        config: kind and how to train it.
        train: (n, d) source features, normalised as they will be at inference.
        held_out: (m, d) features of the same source domains: selection and the report use them.
        labels: (n,) labels of `train`, which 1-NN keeps beside its features.
        seed: all randomness follows from it.
        device: where to train; the result stays there.
        reporter: is told of each epoch.

    Returns:
        The manifold, frozen, with its `report`; `require_usable` says whether it may be used.
    """
    _check(train, held_out)
    device = torch.device(device)
    fitted: Manifold = MANIFOLDS[config.kind].fit(
        config,
        *(z.detach().to(device, torch.float32) for z in (train, held_out)),
        labels=labels,
        seed=seed,
        device=device,
        reporter=reporter or SilentReporter(),
    )
    return fitted


def _check(train: torch.Tensor, held_out: torch.Tensor) -> None:
    """Refuse features that no manifold can be fitted to. train: (n, d), held_out: (m, d)."""
    for what, z in (("training", train), ("held-out", held_out)):
        if z.ndim != 2 or not z.is_floating_point():
            raise DataError(f"{what} features must be floating point of shape (n, d); got {z.dtype} {tuple(z.shape)}.")
        if len(z) < 2:
            raise DataError(f"a manifold needs at least two {what} features; got {len(z)}.")
        if not bool(torch.isfinite(z).all()):
            row = int((~torch.isfinite(z)).any(dim=1).nonzero()[0])
            raise DataError(f"{what} feature {row} has NaN or infinite values; look for what made it.")
    if train.shape[1] != held_out.shape[1]:
        raise DataError(f"training features have {train.shape[1]} dimensions, held-out ones {held_out.shape[1]}.")
