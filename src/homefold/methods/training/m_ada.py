"""M-ADA: images are pushed out of the one source domain, and a step on the source should help on those too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.batches import to_pixels
from homefold.features.network import FeatureNet
from homefold.methods.recipe import DOMAIN_BED_ON_PACS, PRETRAINED, SMALL, Recipe, Training
from homefold.methods.registry import method_named
from homefold.methods.training.inner_step import called_with, learned_parameters, stepped
from homefold.methods.training.learner import Batch, Learner, LearningTask, TrainingImages
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["MAda", "MAdaLearner", "WassersteinEncoder", "trained_encoder"]

_PUSHED_TOGETHER = 32
_AT_ONCE = 256
_MOST_BYTES = 1 << 26
_ENCODED_PX = 32
_ADVERSARY_WEIGHT = 100.0


@method_named(
    "m-ada",
    "M-ADA",
    2020,
    "Qiao et al., CVPR 2020",
    "Pushes images out of a single source domain, and learns steps that help on them too.",
)
@dataclass(frozen=True)
class MAda(LearnerMethod):
    """L = (CE(θ) + CE'(θ - α ∇CE(θ))) / 2, CE on the source and CE' on images of fictitious domains.

    Gradients pass through ∇CE too. A fictitious domain is made by `ascent` steps on given images x₀, with the network
    as it is: x rises along the gradient of CE(x) + β ‖R(x) - R(x₀)‖² - γ ‖z(x) - z(x₀)‖², means over values. So labels
    become doubtful while features stay. R is what a Wasserstein auto-encoder of the domain before makes of an image:
    where R moves, x leaves that domain. The first fictitious domain is made of N source images; the k-th has N/k, one
    k-th of them made of the source and the rest of the domains before. One is made before each epoch from the second
    on, until there are K.

    The authors make one every 100 steps of 32 images. They let images leave [0, 1]; here those that are kept lie
    within, as bytes. Running statistics are of the source's images alone; their digits network has none. Encoders see
    averages of larger images at 32 px. The adversary of an encoder is told the density of the code it judges; theirs
    is told that of a draw from N(0, 1) for both. A few target images are adapted to as by every method here; their code
    does not say how. Their recipe is that of their digits; for pretrained networks they have none, and DomainBed's
    stands in. Several source domains count as one.

    Figures to reach from USPS to MNIST, MNIST to SVHN and SVHN to MNIST: with 10 samples a class 93.67, 57.16, 91.81 %,
    with 7 92.33, 56.33, 89.90 %, with none 71.19, 36.61, 60.14 %. On CIFAR-10-C, by severity: 90.5, 86.8, 82.5, 76.4,
    65.6 % with WRN-16-4.

    Null setting: `domains` 0. Cost of a step: about five times that of Deep All; before some epochs all images pass the
    network `ascent` times and an auto-encoder is trained.
    """

    null = {"domains": 0}  # noqa: RUF012 - a constant
    recipes = {  # noqa: RUF012 - a constant
        PRETRAINED: Recipe(DOMAIN_BED_ON_PACS, {"optimiser": "adam", "inner_rate": 5e-5}),
        SMALL: Recipe(Training(1e-4, 32, 32, weight_decay=0.0), {"optimiser": "adam", "inner_rate": 1e-4}),
    }

    domains: int = tunable(3, choices=(1, 2, 3))
    """K: how many fictitious domains there are."""
    ascent: int = tunable(25, choices=(5, 15, 25), least=1)
    """Steps that push an image."""
    push: float = tunable(1.0, 0.1, 10, log=True)
    """Length of such a step, of the mean loss of 32 images."""
    relaxation: float = tunable(2000.0, 10, 1e4, log=True)
    """β: how much images are to leave the domain."""
    constraint: float = tunable(1.0, 0.1, 10, log=True)
    """γ: how much features are to stay."""
    inner_rate: float = tunable(0.05, 1e-5, 0.1, log=True)
    """α: rate of the step that is looked ahead; the authors' is the learning rate."""
    images: int = tunable(10_000, choices=(1000, 10_000), least=1)
    """N: how many images the first fictitious domain has at most; all together take 64 MB at most."""
    encoder_epochs: int = tunable(20, choices=(5, 20), least=1)
    """Epochs of an auto-encoder."""
    optimiser: Literal["sgd", "adam"] = tunable("sgd", choices=("sgd", "adam"))
    """What steps: sgd with momentum, or adam."""

    def learner(self, net: FeatureNet, task: LearningTask) -> MAdaLearner:
        return MAdaLearner(net, task, self)


class MAdaLearner(Learner[MAda]):
    """The loss of `MAda`, and the fictitious domains."""

    pushed: torch.Tensor
    labels: torch.Tensor

    def __init__(self, net: FeatureNet, task: LearningTask, settings: MAda) -> None:
        super().__init__(net, task, settings)
        height, width = task.image_size
        shares = sum(1 / number for number in range(1, settings.domains + 1))
        first = min(task.num_images, settings.images, int(_MOST_BYTES / (3 * height * width) / max(shares, 1)))
        self.sizes = [max(1, first // number) for number in range(1, settings.domains + 1)]
        self.made = 0
        self.register_buffer("pushed", torch.zeros(sum(self.sizes), height, width, 3, dtype=torch.uint8))
        self.register_buffer("labels", torch.zeros(sum(self.sizes), dtype=torch.long))

    def epoch_start(self, epoch: int, images: TrainingImages) -> None:
        # How many there are follows from the epoch, also where a training was resumed.
        self.made = min(max(epoch - 1, 0), len(self.sizes))
        if self.made < min(epoch, len(self.sizes)):
            self._make_domain(images)
            self.made += 1

    def loss(self, batch: Batch) -> torch.Tensor:
        loss = super().loss(batch)
        if not self.made:
            return loss
        ahead = stepped(loss, learned_parameters(self), self.settings.inner_rate, second_order=True)
        rows = torch.randint(sum(self.sizes[: self.made]), (len(batch),), device=batch.images.device)
        _, logits = called_with(self, ahead, to_pixels(self.pushed[rows]))
        return (loss + self.cross_entropy(logits, self.labels[rows])) / 2

    def _make_domain(self, images: TrainingImages) -> None:
        device, before = self.pushed.device, sum(self.sizes[: self.made])
        latest = torch.arange(before - self.sizes[self.made - 1], before) if self.made else torch.arange(len(images))
        encoder = trained_encoder(self._pushed if self.made else images.batch, latest, self.settings.encoder_epochs)
        size = self.sizes[self.made]
        # Every (made + 1)-th is of the source, the rest of the domains before.
        of_source = (torch.arange(size) % (self.made + 1) == 0).to(device)
        fresh = torch.randperm(len(images))[:size]
        older = torch.randint(max(before, 1), (size,))
        was_training = self.training
        self.eval()
        for rows in torch.arange(size).split(_AT_ONCE):
            source, old = fresh[rows], older[rows].to(device)
            chosen = of_source[rows.to(device)]
            start = torch.where(chosen[:, None, None, None], images.batch(source), self._pushed(old))
            labels = torch.where(chosen, images.labels[source.to(device)], self.labels[old])
            found = self.push(start, labels, encoder).permute(0, 2, 3, 1)
            self.pushed[before + rows] = (255 * found).round().to(torch.uint8)
            self.labels[before + rows] = labels
        self.train(was_training)

    def _pushed(self, rows: torch.Tensor) -> torch.Tensor:
        return to_pixels(self.pushed[rows.to(self.pushed.device)])

    def push(self, start: torch.Tensor, labels: torch.Tensor, encoder: nn.Module) -> torch.Tensor:
        """Images `(n, 3, h, w)` in [0, 1] that `ascent` steps make of `start`."""
        settings, x = self.settings, start
        z_start, r_start = self.features(start).detach(), encoder(start).detach()
        for _ in range(settings.ascent):
            x = x.detach().requires_grad_()
            z = self.features(x)
            doubt = F.cross_entropy(self.classify(z), labels, reduction="sum")
            left = (encoder(x) - r_start).square().mean(dim=1).sum()
            stayed = (z - z_start).square().mean(dim=1).sum()
            total = doubt + settings.relaxation * left - settings.constraint * stayed
            x = x + settings.push / _PUSHED_TOGETHER * torch.autograd.grad(total, x)[0]
        return x.detach().clamp(0, 1)


class WassersteinEncoder(nn.Module):
    """Images `(n, 3, h, w)` in [0, 1] to what is left of them after 20 values: `(n, 3 h w)`, 32 px at most each way."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = (min(size[0], _ENCODED_PX), min(size[1], _ENCODED_PX))
        pixels = 3 * self.size[0] * self.size[1]
        self.encode = nn.Sequential(nn.Linear(pixels, 400), nn.ReLU(), nn.Linear(400, 20))
        self.decode = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, pixels))

    def flat(self, images: torch.Tensor) -> torch.Tensor:
        """The pixels that it looks at."""
        return F.adaptive_avg_pool2d(images, self.size).flatten(1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.decode(self.encode(self.flat(images))))


def trained_encoder(
    images: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor, epochs: int
) -> WassersteinEncoder:
    """An auto-encoder of these images whose codes are distributed as N(0, 1) for all an adversary can tell.

    Args:
        images: `(n, 3, h, w)` by their rows `(n,)`.
        rows: those to train on.
        epochs: passes over them.
    """
    example = images(rows[:1])
    encoder = WassersteinEncoder((example.shape[2], example.shape[3])).to(example.device)
    adversary = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 1)).to(example.device)
    step, other_step = (torch.optim.Adam(part.parameters(), lr=1e-3) for part in (encoder, adversary))
    for _ in range(epochs):
        for chosen in rows[torch.randperm(len(rows))].split(_PUSHED_TOGETHER):
            flat = encoder.flat(images(chosen))
            code = encoder.encode(flat)
            # The adversary knows the density of N(0, 1), and has to learn the rest.
            real, taken = (_told(adversary, item) for item in (torch.randn_like(code), code.detach()))
            other_step.zero_grad()
            (F.softplus(-real).mean() + F.softplus(taken).mean()).backward()
            other_step.step()
            rebuilt = F.binary_cross_entropy_with_logits(encoder.decode(code), flat, reduction="sum")
            step.zero_grad()
            (rebuilt + _ADVERSARY_WEIGHT * F.softplus(-_told(adversary, code)).mean()).backward()
            step.step()
    return encoder.requires_grad_(False)


def _told(adversary: nn.Module, code: torch.Tensor) -> torch.Tensor:
    density = -(code.square() + math.log(2 * math.pi)).sum(dim=1, keepdim=True) / 2
    told: torch.Tensor = adversary(code) + density
    return told
