"""Images of one label are to be answered alike, whatever their domain.

After cross-domain ensemble distillation (Lee et al. 2022): what the batch answers to a label on average teaches each
of its images. Here probabilities are averaged, so that what is minimised is how far a label's answers lie apart.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from homefold.processes import add_up

__all__ = ["NEEDS_CROSS_ENTROPY", "agreement_loss"]

NEEDS_CROSS_ENTROPY = (
    "agreement_weight compares answers that cross entropy trains, which is off; set cross_entropy_weight above 0, or "
    "agreement_weight to 0."
)


def agreement_loss(logits: torch.Tensor, labels: torch.Tensor, temperature: float) -> torch.Tensor:
    """T² · mean over images of KL(mean answer of its label ‖ its answer), the answers being softmax(logits / T).

    The mean answers are constants for the gradient. Among several processes they are those of the whole batch, and
    the result is the mean over this process's images.

    Args:
        logits: `(n, k)`.
        labels: `(n,)`, from 0 to k − 1.
        temperature: T; higher values compare the unlikely classes too.
    """
    log_answers = F.log_softmax(logits / temperature, dim=1)
    with torch.no_grad():
        members = F.one_hot(labels, logits.shape[1]).to(logits.dtype)
        sums, counts = members.T @ log_answers.exp(), members.sum(0)
        add_up([sums, counts])
        means = sums[labels] / counts[labels, None]
    return temperature**2 * F.kl_div(log_answers, means, reduction="batchmean")
