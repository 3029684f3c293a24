"""The study's `distil`: a student taught by an expensive answer, as a plugin that the benchmark can run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from forgetting import forgetting
from homefold.methods import Batch, find_method
from homefold.runtime.plugins import load_plugin
from homefold.stages.features import build_task_net
from homefold.stages.task import ImageSet

SCRIPT = Path(__file__).parents[2] / "study" / "distil.py"
SMALL = {"features__epochs": 1, "features__select": "last"}
ALONE = "distil:teachers=0,mix_style=0"


@pytest.fixture
def script():
    with forgetting():
        yield load_plugin(SCRIPT)


def state_of(trained) -> dict[str, torch.Tensor]:
    return trained.stages[-1].state["learner"]


def test_the_candidates_are_methods_and_each_differs(script):
    methods = [find_method(name) for name in script.candidates()]
    assert len({(method.info.name, str(method.settings())) for method in methods}) == len(methods)
    kept = [method for method in methods if method.settings().get("keep")]
    assert 2 * len(kept) == len([method for method in methods if method.own_name == "distil"])


def test_what_is_taught_is_the_divergence_of_softened_answers(script):
    taught, logits = torch.rand(4, 3, dtype=torch.float64).softmax(dim=1), torch.randn(4, 3, dtype=torch.float64)
    rows = []
    for p, scores in zip(taught, logits, strict=True):
        p = p ** (1 / 3) / (p ** (1 / 3)).sum()
        q = (scores / 3).exp() / (scores / 3).exp().sum()
        rows.append(9 * sum(a * (a / b).log() for a, b in zip(p, q, strict=True)))
    assert script.divergence(taught, logits, 3.0).item() == pytest.approx(float(sum(rows) / 4), rel=1e-5)
    assert script.divergence(logits.softmax(dim=1), logits, 2.0).item() == pytest.approx(0, abs=1e-6)


def test_a_mixed_image_is_its_own_by_as_much_as_is_said(script):
    domains = torch.arange(3).repeat(20)
    flat = domains.float()[:, None, None, None].expand(-1, 3, 8, 10).contiguous()
    batch = Batch(flat, domains, domains, torch.arange(60))
    torch.manual_seed(0)
    images, partners, own = script.mixed(batch, 0.7, 3)
    assert (domains[partners] != domains).all()
    torch.testing.assert_close(images.mean(dim=(1, 2, 3)), own * domains + (1 - own) * domains[partners])
    alone, boxed = own == 1, (images == images.round()).all(dim=(1, 2, 3)) & (own < 1)
    assert torch.equal(images[alone], flat[alone])
    # Of 60 about 18 stay as they are, and as many others are mixed by a box as everywhere alike.
    assert 8 <= alone.sum() <= 30
    assert 8 <= boxed.sum() <= 34
    assert torch.equal(script.mixed(batch, 0.0, 3)[0], flat)


@pytest.mark.slow
def test_alone_it_is_the_training_of_f_to_the_byte(script, task_for):
    plain, student = find_method("without-projection"), find_method(ALONE)
    f = plain.train(task_for(plain, **SMALL)).stages[0].state["net"]
    learned = state_of(student.train(task_for(student, **SMALL)))
    assert all(torch.equal(learned[f"net.{name}"], value) for name, value in f.items())


@pytest.mark.slow
def test_it_is_taught_by_the_mean_answer_of_its_teachers(script, task_for, unseen):
    method = find_method("distil:teachers=2,views=2,styles=1,share=0,weight=1")
    task = task_for(method, features__metric_weight=0.0, features__augmentation__flip_probability=0.5, **SMALL)
    student = method._enrolled(task.key, task)
    seen = ImageSet(unseen.images[:20])
    look = script.replace(task.config.look, views=2)
    answers = [model.answer(seen, projected=False, styled=True, look=look) for model in student.course.models]
    given = [answer.predictions.probabilities for answer in answers]
    images = torch.from_numpy(seen.pixels).permute(0, 3, 1, 2).float() / 255
    found = student.course.answer(images).numpy()
    assert found == pytest.approx((given[0] + given[1]) / 2, abs=1e-5)
    assert abs(given[0] - given[1]).max() > 1e-3
    trained = method.train(task)
    assert [task.stages.has(stage) for stage in method.planned_stages(task.key)] == [True] * 7
    # The loss is the divergence alone.
    batch = Batch(images, *(torch.zeros(20, dtype=torch.long),) * 3)
    learner = trained.learner
    expected = F.kl_div(
        (learner.logits(images) / 2).log_softmax(1), (torch.from_numpy(found).log() / 2).softmax(1), reduction="none"
    )
    assert learner.loss(batch).item() == pytest.approx(4 * expected.sum(dim=1).mean().item(), rel=1e-4)


@pytest.mark.slow
def test_what_it_is_given_back_trains_nothing_anew(script, task_for):
    method, kept = find_method("distil:share=0,mixed=0.5"), find_method("distil:share=0,mixed=0.5,keep=0.25")
    task = task_for(method, **SMALL)
    before = state_of(method.train(task))
    trained = kept.train(task)
    assert [stage.made_now for stage in trained.stages] == [False, True]
    assert [stage.id for stage in trained.stages] == list(kept.planned_stages(task.key)[-2:])
    start = build_task_net(task, pretrained=True).backbone.state_dict()
    for name, value in state_of(trained).items():
        inner = name.removeprefix("net.backbone.")
        given_back = inner != name and value.is_floating_point()
        expected = torch.lerp(before[name], start[inner], 0.25) if given_back else before[name]
        torch.testing.assert_close(value, expected)


@pytest.mark.slow
def test_a_killed_student_goes_on_with_its_teacher(script, task_for, after_a_kill):
    method = find_method(f"{ALONE},mixed=1")
    task = task_for(method, features__checkpoint_seconds=0.0)
    straight = state_of(method.train(task))
    assert all(torch.equal(straight[name], value) for name, value in state_of(after_a_kill(method, task)).items())
