"""A mixture: one manifold for each class or each source domain, of which the one that fits a feature best answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from homefold.errors import ConfigError, DataError, ModelFileError
from homefold.manifold.base import Manifold, ManifoldConfig, ManifoldReport, Per, explained_share

__all__ = ["FeatureGroups", "Features", "Mixture", "component_groups", "fit_mixture", "mixture_report"]

_FEWEST = 2

Features = tuple[torch.Tensor, torch.Tensor]
"""Training features (n, d) and held-out features (m, d) of one component."""


@dataclass(frozen=True, eq=False)
class FeatureGroups:
    """Which class or which domain each feature is of.

    Args:
        train: `(n,)` index into `names` of each training feature.
        held_out: `(m,)` the same for the held-out ones.
        names: what the groups are called.
    """

    train: torch.Tensor
    held_out: torch.Tensor
    names: tuple[str, ...]

    def present(self) -> FeatureGroups:
        """The same without the names that no feature has."""
        both = torch.cat([self.train.cpu(), self.held_out.cpu()])
        kept = both.unique()
        places = torch.full((len(self.names),), -1, dtype=torch.long)
        places[kept] = torch.arange(len(kept))
        names = tuple(self.names[i] for i in kept.tolist())
        return FeatureGroups(places[self.train.cpu()], places[self.held_out.cpu()], names)


def component_groups(
    config: ManifoldConfig, classes: FeatureGroups, domains: FeatureGroups | None
) -> FeatureGroups | None:
    """The groups that get a manifold each under these settings; None where there is one manifold for all.

    Args:
        config: whose `per` decides.
        classes: the classes of the features, every one of which gets a component, so that all can be answered.
        domains: their source domains, where they are known; those without features get none.
    """
    if config.per == "all":
        return None
    if config.per == "class":
        return classes
    if domains is None:
        raise ConfigError(
            "one manifold for each domain needs the domain of every feature: give domains, or set per to all."
        )
    return domains.present()


class Mixture(Manifold):
    """Several manifolds of one kind. A latent is that of one of them, with the component's index as its last number.

    A projection searches each component as the plain manifold that it is. `encode` and `decode` serve where features
    are rebuilt without a search.

    Args:
        feature_dim: dimensions d of a feature.
        build: makes an empty component.
        per: what has a component each.
    """

    is_continuous = True
    components: nn.ModuleList

    def __init__(self, feature_dim: int, build: Callable[[], Manifold], per: Per) -> None:
        example = build()
        super().__init__(feature_dim, example.latent_dim + 1)
        self.has_encoder, self.per = example.has_encoder, per
        self._build = build
        self.components = nn.ModuleList()

    @property
    def parts(self) -> list[Manifold]:
        """The components in the order of their names."""
        return [part for part in self.components if isinstance(part, Manifold)]

    @property
    def component_names(self) -> tuple[str, ...]:
        """The class or the domain that each component was trained on."""
        return tuple(report.name for report in self.report.components)

    @property
    def report(self) -> ManifoldReport:
        """What was measured on held-out source features, over all components and for each."""
        return super().report

    @report.setter
    def report(self, report: ManifoldReport) -> None:
        if len(report.components) != len(self.components):
            raise ModelFileError(
                f"the manifold has {len(self.components)} components, but its report tells of "
                f"{len(report.components)}; the file was edited or truncated."
            )
        self._report = report
        for part, of_part in zip(self.parts, report.components, strict=True):
            part.report = of_part

    def require_bank(self) -> None:
        if not self.parts:
            raise ModelFileError(f"the manifold has no component for any {self.per}.")
        for part in self.parts:
            part.require_bank()

    def decode(self, u: torch.Tensor) -> torch.Tensor:
        """u: (n, latent_dim), the last number the component's index -> (n, feature_dim)."""
        which, latents = u[:, -1].round(), u[:, :-1].contiguous()
        decoded = self.parts[0].decode(latents)
        for index, part in enumerate(self.parts[1:], start=1):
            decoded = torch.where((which == index)[:, None], part.decode(latents), decoded)
        return decoded

    def encode(self, z: torch.Tensor) -> torch.Tensor:
        """The latent of the component whose encoder rebuilds the feature best. z: (n, d) -> (n, latent_dim)."""
        best = z.new_full((len(z),), -torch.inf)
        latents = z.new_zeros(len(z), self.latent_dim)
        for index, part in enumerate(self.parts):
            found = part.encode(z)
            similarity = F.cosine_similarity(part.decode(found), z)
            higher = similarity > best
            best = torch.where(higher, similarity, best)
            with_index = torch.cat([found, found.new_full((len(z), 1), index)], dim=1)
            latents = torch.where(higher[:, None], with_index, latents)
        return latents

    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """n features, each component as likely as another: (n, feature_dim)."""
        u = torch.randn(n, self.latent_dim - 1, generator=generator, device=generator.device)
        which = torch.randint(len(self.components), (n, 1), generator=generator, device=generator.device)
        return self.decode(torch.cat([u, which.to(u.dtype)], dim=1).to(self.bank_latents.device))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Make as many components as the state has, so that a mixture of any number loads."""
        begins = f"{prefix}components."
        indices = {name.removeprefix(begins).split(".")[0] for name in state_dict if name.startswith(begins)}
        if len(indices) != len(self.components):
            self.components = nn.ModuleList(self._build() for _ in indices).to(self.bank_latents.device)
        super()._load_from_state_dict(state_dict, prefix, *args)


def fit_mixture(
    mixture: Mixture,
    train: torch.Tensor,
    held_out: torch.Tensor,
    groups: FeatureGroups,
    fit: Callable[[Sequence[Features]], Sequence[Manifold]],
) -> Mixture:
    """Fit a component to the features of each group alone.

    Args:
        mixture: empty.
        train: (n, d) source features.
        held_out: (m, d) features of the same source domains.
        groups: which component each of them is for.
        fit: plain manifolds, one for each group, from the training and the held-out features of all groups.
    """
    members, held = (index.to(z.device) for index, z in ((groups.train, train), (groups.held_out, held_out)))
    if members.shape != (len(train),) or held.shape != (len(held_out),):
        raise DataError(
            f"there are {len(train)} training and {len(held_out)} held-out features, but groups of shapes "
            f"{tuple(members.shape)} and {tuple(held.shape)}; give one for each feature."
        )
    parts = [(train[members == i], held_out[held == i]) for i in range(len(groups.names))]
    for name, (own, own_held_out) in zip(groups.names, parts, strict=True):
        if min(len(own), len(own_held_out)) < _FEWEST:
            raise DataError(
                f"the {mixture.per} {name!r} has {len(own)} training and {len(own_held_out)} held-out features, and a "
                f"manifold of its own needs at least {_FEWEST} of each: give more of it, hold out a larger share, or "
                f"set per to all (--manifold.per all)."
            )
    fitted = fit(parts)
    mixture.components = nn.ModuleList(fitted)
    mixture.to(fitted[0].bank_features.device)
    mixture.report = mixture_report(
        mixture.per,
        [replace(part.report, name=name) for part, name in zip(fitted, groups.names, strict=True)],
        [len(own_held_out) for _, own_held_out in parts],
    )
    mixture.freeze()
    return mixture


def mixture_report(per: str, reports: Sequence[ManifoldReport], counts: Sequence[int]) -> ManifoldReport:
    """One report of several components: means over all held-out features, each measured by its own component.

    Args:
        per: what has a component each, for the sentence about one that is of no use.
        reports: of the components, named.
        counts: how many held-out features each was measured on.
    """

    def mean(name: str) -> float | None:
        values = [getattr(report, name) for report in reports]
        if None in values:
            return None
        return sum(value * count for value, count in zip(values, counts, strict=True)) / sum(counts)

    baseline, cosine = mean("baseline_cosine"), mean("reconstruction_cosine")
    assert baseline is not None
    assert cosine is not None
    bad = [report for report in reports if report.collapsed]
    units = [report.active_units for report in reports if report.active_units is not None]
    return ManifoldReport(
        kind=reports[0].kind,
        epochs_run=max(report.epochs_run for report in reports),
        best_epoch=max(report.best_epoch for report in reports),
        baseline_cosine=baseline,
        reconstruction_cosine=cosine,
        explained=explained_share(cosine, baseline),
        collapsed=bool(bad),
        reason=_reason(per, bad, len(reports)),
        reconstruction=mean("reconstruction"),
        kl_per_sample=mean("kl_per_sample"),
        active_units=min(units) if units else None,
        diversity=mean("diversity"),
        components=tuple(reports),
    )


def _reason(per: str, bad: Sequence[ManifoldReport], of: int) -> str:
    if not bad:
        return ""
    names = ", ".join(repr(report.name) for report in bad)
    return f"Of the {of} manifolds, one for each {per}, {len(bad)} cannot be used ({names}). {bad[0].reason}"
