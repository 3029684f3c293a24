"""How unusual a feature is, by scores of other papers: the higher, the less the model has seen the like.

They stand beside the off-manifold score and the confidence, so that a person can see which to trust:

- `energy`: −log Σ exp(logits) (Liu et al., NeurIPS 2020);
- `nearest`: distance to the k-th nearest source feature on the unit sphere (Sun et al., ICML 2022);
- `vim`: how far outside the subspace that source features fill, against the energy (Wang et al., CVPR 2022).
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from homefold.stages.feature_model import FeatureModel

__all__ = ["energy", "nearest_distance", "novelty_scores", "virtual_logit"]

_MOST_NEIGHBOURS = 50
_QUERIES_AT_ONCE = 1024


def energy(logits: torch.Tensor) -> torch.Tensor:
    """−log Σ exp of each row of `(n, classes)`: low where some class is strongly spoken for."""
    return -torch.logsumexp(logits, dim=1)


def nearest_distance(z: torch.Tensor, known: torch.Tensor, k: int) -> torch.Tensor:
    """Distance `(n,)` of each direction of `z: (n, d)` to the k-th nearest direction of `known: (m, d)`."""
    directions = F.normalize(known.double(), dim=1)
    found = [
        torch.cdist(F.normalize(part.double(), dim=1), directions).kthvalue(min(k, len(known)), dim=1).values
        for part in z.split(_QUERIES_AT_ONCE)
    ]
    return torch.cat(found) if found else z.new_empty(0, dtype=torch.float64)


def virtual_logit(z: torch.Tensor, known: torch.Tensor, layer: nn.Linear) -> torch.Tensor:
    """The score of ViM `(n,)`: α ‖what of z − o lies outside the main directions of known − o‖ − log Σ exp(logits).

    The origin o is where the layer's logits are as near to zero as they get; of d directions the main half is kept; α
    brings the residual of known features to the size of their largest logits.
    z: `(n, d)` is what the last layer of a classifier sees, and known: `(m, d)` the same of source images.
    """
    z, known, weight, bias = (values.double() for values in (z, known, layer.weight, layer.bias))
    origin = -torch.linalg.pinv(weight) @ bias
    centred = known - origin
    _, directions = torch.linalg.eigh(centred.T @ centred)
    outside = directions[:, : z.shape[1] - z.shape[1] // 2]  # the eigenvalues rise
    size = torch.linalg.vector_norm(centred @ outside, dim=1).mean()
    alpha = (known @ weight.T + bias).amax(dim=1).mean() / size.clamp(min=1e-12)
    residual = torch.linalg.vector_norm((z - origin) @ outside, dim=1)
    score: torch.Tensor = alpha * residual + energy(z @ weight.T + bias)
    return score


def novelty_scores(model: FeatureModel, prepared: torch.Tensor) -> dict[str, torch.Tensor]:
    """Each score of prepared features `(n, d)`, before any projection: `(n,)` by name.

    Source features are those that the manifold keeps; k is 1 % of them, and at most 50.
    """
    known, layers = model.manifold.bank_features, model.classifier.layers
    last = layers[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        return {
            "energy": energy(model.logits(prepared)),
            "nearest": nearest_distance(prepared, known, min(_MOST_NEIGHBOURS, math.ceil(len(known) / 100))),
            "vim": virtual_logit(layers[:-1](prepared), layers[:-1](known), last),
        }
