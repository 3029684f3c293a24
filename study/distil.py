"""Can one network in one pass have the accuracy of an expensive answer? It is taught by one, on source images alone.

A plugin with the method `distil`. The teacher answers with as many networks, views and styles as it is given; the
student sees the same varied images, and learns from the teacher's answers beside its own losses:

    L = (1 − w) CE + w T² KL(teacher ‖ student) + L_A

Teachers are f with a share of the pretrained weights, trained on the same sources: what the benchmark calls
`without-projection:features.keep_pretrained=0.2`, and trains once for both. With several, the second has the next seed.
Without a teacher the student is trained as f is. This prints the candidates, which were declared before any run:

    homefold bench leave-two-out --plugin study/distil.py --data pacs:PACS --weights resnet18_imagenet.safetensors \\
        --seeds 1 --methods $(python study/distil.py) --out RUNS
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import torch
from torch.nn import functional as F

from homefold.config import HomefoldConfig, StyleConfig
from homefold.config.views import View, fixed_views
from homefold.config.whole import EARLY
from homefold.errors import ConfigError
from homefold.features.averaging import interpolate_back
from homefold.features.loss import pairwise_metric_loss
from homefold.features.mix_style import mixed_styles
from homefold.features.network import FeatureNet
from homefold.features.views import apply_view, mean_of_views
from homefold.methods.base import require_plain_look
from homefold.methods.registry import MethodInfo, register_method
from homefold.methods.training.learner import Batch, Learner, LearningTask, TrainingImages
from homefold.methods.training.learner_method import LearnerMethod, LearnerStage, TrainedLearner, tunable
from homefold.methods.training.mixup import of_next_domain
from homefold.stages.features import build_task_net, require_stage_1
from homefold.stages.style import with_style_blocks
from homefold.stages.task import TaskKey, TrainingTask
from homefold.stages.train import planned_stages, train_stages
from homefold.stages.trained_model import TrainedModel
from homefold.store.stage_store import StageId, stage_id

BESIDE = {
    "without-projection": "f",
    "without-projection:features.keep_pretrained=0.2": "f with a fifth kept: the teacher, and the best single pass",
    "without-projection:features.keep_pretrained=0.2,look.views=8": "the same with 8 views: the expensive teacher",
}
STUDENTS = {
    "teachers=0": "control: the student alone, with the schedule of f",
    "": "a teacher: one network, a fifth kept",
    "mix_style=0": "a teacher, no MixStyle on the student",
    "teachers=0,mixed=0.5": "control: mixed images alone",
    "mixed=0.5": "a teacher and mixed images",
    "teachers=0,mixed=0.5,long=3": "control: mixed images and 90 epochs alone",
    "mixed=0.5,long=3": "a teacher, mixed images, 90 epochs",
    "views=8": "the teacher answers with 8 views",
    "teachers=2": "two teachers",
}
"""Each once as it was trained, and once with a fifth of the pretrained weights given back: that trains nothing anew."""


def candidates() -> list[str]:
    """All methods that are compared."""
    kept = [",".join(filter(None, (own, share))) for own in STUDENTS for share in ("", "keep=0.2")]
    return [*BESIDE, *(f"distil:{own}" if own else "distil" for own in kept)]


@dataclass(frozen=True)
class Course:
    """What a student is trained with: the settings of f, whose losses it has, and the networks that teach it."""

    config: HomefoldConfig
    taught_by: tuple[StageId, ...]
    models: tuple[TrainedModel, ...] = ()
    views: tuple[View, ...] = ()

    @torch.no_grad()
    def answer(self, images: torch.Tensor) -> torch.Tensor:
        """The mean of all teachers' probabilities `(n, classes)` for `images: (n, 3, h, w)`."""
        answers = []
        for model in self.models:
            net, head = (model.styled or model.encoder).net, model.feature_model
            z = mean_of_views([net(apply_view(images, view)).float() for view in self.views])
            with torch.autocast(images.device.type, enabled=False):
                answers.append(torch.softmax(head.classifier(head.prepare(z)), dim=1))
        return torch.stack(answers).mean(dim=0)


@dataclass(frozen=True)
class Distil(LearnerMethod):
    """A student taught by an expensive answer. Cost of a step: Deep All's, and the teacher's passes."""

    about = MethodInfo(
        "distil", "Distilled", 2022, "Beyer et al., CVPR 2022", "Learns an expensive answer.", needs_domain_labels=True
    )
    teachers: int = tunable(1, choices=(0, 1, 2))
    """Networks that teach; with 0 the student learns from the labels alone."""
    share: float = tunable(0.2, 0, 0.3, most=1)
    """Of the pretrained weights, that the teachers keep."""
    views: int = tunable(1, choices=(1, 2, 4, 8), least=1)
    """That the teachers see of each image."""
    styles: int = tunable(0, choices=(0, 1), most=1)
    """1 brings styles to those of each source domain before the teachers answer."""
    weight: float = tunable(0.5, 0.1, 1, most=1)
    """w: 1 leaves the labels to the metric loss alone."""
    softness: float = tunable(2.0, 1, 10, log=True, least=1)
    """T."""
    mixed: float = tunable(0.0, 0, 1, most=1)
    """Share of the images that hold part of one of another domain: half of them as in Mixup, half as in CutMix."""
    mix_style: float = tunable(0.5, 0, 1, most=1)
    """How often the student's styles are mixed."""
    long: int = tunable(1, choices=(1, 3), least=1)
    """Times as many epochs as f has."""
    keep: float = tunable(0.0, 0, 0.3, most=1)
    """Share of the pretrained weights that the student is given back after its training."""
    course: Course | None = field(default=None, init=False, repr=False, compare=False)

    def starting(self, config: HomefoldConfig) -> HomefoldConfig:
        return replace(config, style=StyleConfig(), features=replace(config.features, keep_pretrained=0.0))

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        require_plain_look(config, self.info.name, views=False)
        if config.features.keep_pretrained:
            raise ConfigError("distil has share and keep in the place of features.keep_pretrained; leave that at 0.")
        for one in (config, *self._teacher_configs(config)):
            require_stage_1(one)
        return config

    def without_signal(self, sources: int, shots: int) -> str:
        return "distil does not adapt to labelled target images. Leave it out." if shots else ""

    def settings(self) -> dict[str, object]:
        own = super().settings()
        if self.course is not None:  # what is kept of the start afterwards is no part of the training
            del own["keep"]
            own["taught_by"] = [stage.digest for stage in self.course.taught_by]
        return own

    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        return Student(net, task, self)

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        if self.course is not None:
            return super().planned_stages(key)
        student = self._enrolled(key)
        (own,) = student.planned_stages(self._student_key(key))
        return (*student.course.taught_by, own, *([self._kept_id(own)] if self.keep else []))

    def train(self, task: TrainingTask) -> TrainedLearner:
        student = self._enrolled(task.key, task)
        task = replace(task, key=self._student_key(task.key))
        trained = LearnerMethod.train(student, task)
        if not self.keep:
            return trained

        def give_back(_: object) -> dict[str, object]:
            start = build_task_net(task, pretrained=True)
            interpolate_back(trained.learner.net.backbone, start.backbone, self.keep)
            return {"learner": trained.learner.state_dict(), "report": trained.stages[-1].part("report")}

        kept = task.stages.get(self._kept_id(trained.stages[-1].id), give_back)
        return TrainedLearner(task, LearnerStage(task, student, (*trained.stages, kept)))

    def _kept_id(self, trained: StageId) -> StageId:
        return stage_id("learner", base=trained.digest, keep_pretrained=self.keep)

    def _enrolled(self, key: TaskKey, task: TrainingTask | None = None) -> Distil:
        """The same on its course, where a `task` is given with its teachers; `key` is the method's own."""
        keys = [replace(key, config=config) for config in self._teacher_configs(key.config)]
        models = tuple(train_stages(replace(task, key=one), projected=False) for one in keys if task)
        ids = tuple(stage for one in keys for stage in planned_stages(one, projected=False))
        views = fixed_views(self.views, mirror=key.config.features.augmentation.flip_probability > 0)
        student = replace(self)
        object.__setattr__(student, "course", Course(key.config, ids, models, views))
        return student

    def _teacher_configs(self, config: HomefoldConfig) -> list[HomefoldConfig]:
        style = StyleConfig(blocks=(EARLY,), manifold="domains", weight=0.5) if self.styles else StyleConfig()
        features = replace(config.features, keep_pretrained=self.share)
        one = with_style_blocks(replace(config, features=features, style=style))
        return [replace(one, seed=one.seed + number) for number in range(self.teachers)]

    def _student_key(self, key: TaskKey) -> TaskKey:
        """Its training is that of f, without what the student does itself, and maybe longer."""
        own, plain = key.config.features, super().starting(key.config).features
        features = replace(plain, learning_rate=own.learning_rate, epochs=self.long * own.epochs)
        return replace(key, config=replace(key.config, features=features))


class Student(Learner[Distil]):
    capturable = True
    styles: AbstractContextManager[None] | None = None

    def epoch_start(self, epoch: int, images: TrainingImages) -> None:
        if self.styles is None:
            config = replace(self.settings.course.config.features, mix_style_probability=self.settings.mix_style)
            self.styles = mixed_styles(config, self.net, images.labels.device, self.task.image_size)
            self.styles.__enter__()  # for the whole training

    def loss(self, batch: Batch) -> torch.Tensor:
        settings, course = self.settings, self.settings.course
        images, labels = batch.images, batch.labels
        if settings.mixed:
            images, partners, own = mixed(batch, settings.mixed, self.task.num_domains)
        z = self.net(images)
        logits = self.classify(z)
        loss = self.cross_entropy(logits, labels)
        if settings.mixed:
            both = (F.cross_entropy(logits, y, reduction="none") for y in (labels[partners], labels))
            loss = torch.lerp(*both, own).mean()
            # The pairs have one label each, drawn: its mean over draws is the loss for the probability of a pair.
            labels = torch.where(torch.rand_like(own) < own, labels, labels[partners])
        if course.models:
            loss = torch.lerp(loss, divergence(course.answer(images), logits, settings.softness), settings.weight)
        of_f = course.config.features
        with torch.autocast(z.device.type, enabled=False):
            return of_f.metric_weight * pairwise_metric_loss(z.float(), labels, of_f.temperature) + loss


def divergence(taught: torch.Tensor, logits: torch.Tensor, softness: float) -> torch.Tensor:
    """T² KL(p^(1/T) ‖ softmax(logits / T)), with p scaled to sum to one. Both are `(n, classes)`."""
    target = torch.log_softmax(taught.clamp_min(1e-8).log() / softness, dim=1)
    found = torch.log_softmax(logits.float() / softness, dim=1)
    return softness**2 * F.kl_div(found, target, reduction="batchmean", log_target=True)


def mixed(batch: Batch, share: float, domains: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images of which a `share` holds part of another's; the rows of the others `(n,)`; how much is their own `(n,)`.

    The part is drawn evenly from 0 to 1, and is either the same everywhere or a box of the image.
    """
    partners, (height, width) = of_next_domain(batch.domains, domains), batch.images.shape[2:]
    whether, part, boxed, top, left = torch.rand(5, len(batch), 1, 1, device=batch.images.device).unbind()
    part = torch.where(whether < share, part, 0.0)
    side = part.sqrt()
    y, x = (((torch.arange(n, device=part.device) + 0.5) / n) for n in (height, width))
    down, across = y[:, None] - (1 - side) * top, x - (1 - side) * left
    box = (down >= 0) & (down < side) & (across >= 0) & (across < side)
    own = 1 - torch.where(boxed < 0.5, box.float(), part.expand(-1, height, width))
    images = torch.lerp(batch.images[partners], batch.images, own[:, None])
    return images, partners, own.mean(dim=(1, 2))


register_method(Distil())

if __name__ == "__main__":
    print(*candidates())
