"""The training of the classifier on features."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from homefold.classifier.network import Classifier
from homefold.config import ClassifierConfig
from homefold.errors import DataError, TrainingDivergedError
from homefold.runtime.captured_step import CapturedStep, capturer_for
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.seeding import generator, isolated_seed

__all__ = ["fit_classifier"]

_CHUNK = 8192


def fit_classifier(
    config: ClassifierConfig,
    train_z: torch.Tensor,
    train_y: torch.Tensor,
    held_z: torch.Tensor,
    held_y: torch.Tensor,
    *,
    num_classes: int,
    seed: int,
    device: torch.device | str = "cpu",
    reporter: ProgressReporter | None = None,
) -> Classifier:
    """Train on source features and keep the epoch that is most accurate on held-out source features.

    Equal accuracies are decided by the lower held-out cross entropy.

    Args:
        config: form and training.
        train_z, train_y: (n, d) features and (n,) labels.
        held_z, held_y: (m, d) features and (m,) labels of the same source domains.
        num_classes: number C of classes.
        seed: initialisation and order follow from it.
        device: where to train; the result stays there.
        reporter: is told of each epoch.

    Returns:
        The classifier, frozen, with `held_out_accuracy` and `best_epoch` set.
    """
    for what, z, y in (("training", train_z, train_y), ("held-out", held_z, held_y)):
        _check(what, z, y, num_classes)
    device = torch.device(device)
    train_z, held_z = (z.detach().to(device, torch.float32) for z in (train_z, held_z))
    train_y, held_y = (y.to(device, torch.long) for y in (train_y, held_y))
    with isolated_seed(seed, "classifier", "initialisation"):
        model = Classifier(train_z.shape[1], num_classes, config.kind, config.hidden_dim)
    model.to(device)
    learn = _training_step(model, config, train_z.device)
    best, best_state = (-1.0, -math.inf), {}
    with (reporter or SilentReporter()).task("Classifier", total=config.epochs) as task:
        for epoch in range(config.epochs):
            draw = generator(seed, "classifier", epoch, device=train_z.device)
            order = torch.randperm(len(train_z), generator=draw, device=train_z.device)
            for rows in order.split(config.batch_size):
                learn(train_z[rows], train_y[rows])
            accuracy, held_out_loss = _judge(model, held_z, held_y)
            if not math.isfinite(held_out_loss):
                raise TrainingDivergedError(
                    f"The classifier's loss became NaN or infinite in epoch {epoch + 1} of {config.epochs}, "
                    f"with learning_rate {config.learning_rate:g} and features as large as "
                    f"{float(train_z.abs().max()):.3g}; lower learning_rate, or normalise the features."
                )
            if (accuracy, -held_out_loss) > best:
                best = (accuracy, -held_out_loss)
                model.held_out_accuracy, model.best_epoch = accuracy, epoch + 1
                best_state = {name: value.clone() for name, value in model.state_dict().items()}
            task.advance(1, accuracy=accuracy, loss=held_out_loss)
    model.load_state_dict(best_state)
    return model.requires_grad_(False).eval()


def _check(what: str, z: torch.Tensor, y: torch.Tensor, num_classes: int) -> None:
    if z.ndim != 2 or len(z) == 0 or y.shape != (len(z),):
        raise DataError(
            f"the classifier needs {what} features (n, d) with one label each, n at least 1; "
            f"got shapes {tuple(z.shape)} and {tuple(y.shape)}."
        )
    if not 0 <= int(y.min()) <= int(y.max()) < num_classes:
        raise DataError(
            f"{what} labels run from {int(y.min())} to {int(y.max())}, but there are {num_classes} classes."
        )


def _training_step(model: Classifier, config: ClassifierConfig, device: torch.device) -> CapturedStep:
    """A step on features (n, d) and labels (n,); returns the loss before it."""
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        fused=True,
        capturable=device.type == "cuda",
    )

    def learn(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(z), y, label_smoothing=config.label_smoothing)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return CapturedStep(learn, device, capturer_for(device))


@torch.no_grad()
def _judge(model: Classifier, z: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Accuracy and mean cross entropy."""
    logits = torch.cat([model(part) for part in z.split(_CHUNK)])
    correct = (logits.argmax(dim=1) == y).float().mean()
    return float(correct), float(F.cross_entropy(logits, y))
