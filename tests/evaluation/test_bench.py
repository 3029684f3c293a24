"""The benchmark end to end on a few digits: plans, shares, resumes, goes on past failures, keeps the target away."""

from __future__ import annotations

import json
import signal
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import TINY, die

from homefold.data import DomainDataset
from homefold.data.splits import selection_split
from homefold.errors import ConfigError, DataError, TrainingDivergedError
from homefold.evaluation import bench
from homefold.evaluation.artifacts import artifact_path
from homefold.evaluation.bench import run_bench
from homefold.evaluation.execution import Executor
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner, finished_runs, make_plan, records_path
from homefold.evaluation.records import Ledger, RunRecord
from homefold.evaluation.selection import choose
from homefold.methods import PaperMethod, find_method
from homefold.methods.training.paper import TrainedPaperMethod
from homefold.report.artifacts import read_artifact_file
from homefold.stages import classifier, encoder, features, manifold
from homefold.store.stage_store import StageStore

pytestmark = pytest.mark.slow


@dataclass
class Trainings:
    """How often each stage was trained."""

    counts: Counter[str]

    def take(self) -> dict[str, int]:
        """The counts since the last time."""
        counts = dict(self.counts)
        self.counts.clear()
        return counts


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Trainings:
    """Counts what really trains."""
    counts: Counter[str] = Counter()
    for module, name in (
        (features, "train_features"),
        (manifold, "fit_manifold"),
        (classifier, "fit_classifier"),
        (encoder, "extract_views"),
    ):
        original = getattr(module, name)

        def counted(*args, _name=name, _original=original, **kwargs):
            counts[_name] += 1
            return _original(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)
    return Trainings(counts)


@pytest.fixture(scope="module")
def ran(tiny_digits: DomainDataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[BenchOptions, list[RunRecord]]:
    """Every method once."""
    options = BenchOptions(
        suite="digits-mini",
        out=tmp_path_factory.mktemp("bench"),
        preset="quick",
        seeds=1,
        targets=("street",),
        device="cpu",
        settings=TINY,
        methods=("deep-all", "without-projection", "without-features", "nearest", "vae", "gan"),
    )
    return options, run_bench(options, dataset=tiny_digits)


class TestTheWholeSuite:
    """One run of every method, looked at from all sides."""

    def test_each_method_has_one_record_that_says_how_it_came_about(self, ran, tiny_digits):
        _, records = ran
        assert [record.method for record in records] == list(ran[0].methods)
        for record in records:
            assert record.status == "finished", record.error
            assert record.accuracy is not None
            assert 0 <= record.accuracy <= 1
            assert record.images == 36
            assert (record.suite, record.preset, record.backbone) == ("digits-mini", "quick", "digits-bn")
            assert (record.protocol, record.selection) == ("leave-one-domain-out", "source-validation")
            assert record.facts["sources"] == ["scan", "photo", "print"]
            assert record.seconds["training"] > 0
            assert record.seconds["inference_per_image"] > 0
            assert record.config["features"]["epochs"] == 2
            assert "torch" in record.versions
        assert len({record.run for record in records}) == 6

    def test_a_record_counts_the_parameters_of_all_networks(self, ran):
        counts = {record.method: record.facts["parameters"] for record in ran[1]}
        assert counts["deep-all"] == counts["without-projection"] == counts["nearest"]
        assert counts["deep-all"] < counts["vae"] == counts["without-features"]

    def test_an_artifact_holds_what_a_report_shows(self, ran, tiny_digits):
        options, records = ran
        street = tiny_digits.only("street")
        for record in records:
            arrays = read_artifact_file(artifact_path(options.out, record.run)).arrays
            assert arrays["labels"].tolist() == street.labels.tolist()
            assert (arrays["predicted"] == arrays["labels"]).mean() == pytest.approx(record.accuracy)
            assert (arrays["probabilities"].shape, arrays["probabilities"].dtype) == ((36, 3), np.float16)
            for name in ("similarity_before", "similarity_after", "iterations", "start", "off_manifold"):
                assert arrays[name].shape == (36,)
            assert arrays["source_features"].shape == (108, 16)
            assert sorted(np.unique(arrays["source_domains"], return_counts=True)[1]) == [36, 36, 36]
            assert arrays["domain_names"].tolist() == ["scan", "photo", "print"]
            assert arrays["target_features"].shape == (36, 16)
            assert sorted(arrays["thumb_index"].tolist()) == list(range(36))
            assert (arrays["thumb_target"] == street.images[arrays["thumb_index"]]).all()
            assert arrays["thumb_source_before"].shape == (36, 16, 16, 3)
            assert arrays["epoch_loss"].shape == arrays["epoch_held_out_loss"].shape == (2,)
            assert arrays["epoch_held_out_loss"].min() == pytest.approx(record.facts["features"]["held_out_loss"])
            projects = record.method in ("without-features", "nearest", "vae", "gan")
            assert ("target_projected" in arrays) == ("thumb_source_after" in arrays) == projects
            assert ("predicted_before" in arrays) == projects
            assert ("curve_loss" in arrays) == (projects and record.method != "nearest")

    def test_the_nearest_source_image_is_the_one_that_1_nn_projects_to(self, ran, tiny_digits):
        options, records = ran
        (nearest,) = [record for record in records if record.method == "nearest"]
        arrays = read_artifact_file(artifact_path(options.out, nearest.run)).arrays
        projected = arrays["target_projected"].astype(np.float32)
        source = arrays["source_features"].astype(np.float32)
        distances = np.abs(projected[:, None] - source[None]).max(axis=2).min(axis=1)
        assert distances.max() < 1e-2

    def test_the_full_method_without_projection_is_the_run_without_projection(self, ran):
        options, records = ran
        arrays = {
            record.method: read_artifact_file(artifact_path(options.out, record.run)).arrays for record in records
        }
        assert arrays["vae"]["predicted_before"].tolist() == arrays["without-projection"]["predicted"].tolist()
        assert arrays["gan"]["predicted_before"].tolist() == arrays["without-projection"]["predicted"].tolist()

    def test_no_pickle_is_written(self, ran):
        options, _ = ran
        kinds = {path.suffix for path in options.out.rglob("*") if path.is_file()}
        assert kinds == {".jsonl", ".npz", ".json", ".safetensors", ".lock"}


def test_one_training_serves_all_that_can_share_it(tiny, tiny_digits, trainings):
    methods = ("deep-all", "without-projection", "without-features", "nearest", "vae")
    options = tiny(methods=methods)
    planned = make_plan(Planner(options, tiny_digits)).summary()
    assert planned["trainings"] == {
        "classifier": {"needed": 2, "done": 0},
        "features": {"needed": 2, "done": 0},
        "manifold": {"needed": 3, "done": 0},
        "style": {"needed": 2, "done": 0},
    }
    run_bench(options, dataset=tiny_digits)
    # features of the source, of the target, and of the target with styles moved, once for f and once for Deep All
    assert trainings.take() == {"train_features": 2, "fit_manifold": 3, "fit_classifier": 2, "extract_views": 6}
    run_bench(tiny("ablation", methods=methods), dataset=tiny_digits)
    assert trainings.take() == {}, "another suite on the same source shares everything"
    run_bench(tiny(methods=methods, settings=(*options.settings, "search.steps=20")), dataset=tiny_digits)
    assert trainings.take() == {}, "an inference setting retrains nothing"
    run_bench(tiny(methods=methods, settings=(*options.settings, "manifold.kl_weight=0.01")), dataset=tiny_digits)
    assert trainings.take() == {"fit_manifold": 2}, "1-NN does not follow it"
    assert len({record.run for record in finished_runs(options.out).values()}) == 20


def test_a_finished_run_is_not_repeated(tiny, tiny_digits, trainings):
    options = tiny(methods=("without-projection",))
    first = run_bench(options, dataset=tiny_digits)
    written = records_path(options.out).read_bytes()
    trainings.take()
    seen = []
    again = run_bench(options, dataset=tiny_digits, on_run=lambda run, record: seen.append(run))
    assert (seen, again, trainings.take()) == ([], first, {})
    assert records_path(options.out).read_bytes() == written
    more = run_bench(tiny(methods=("without-projection",), targets=("street", "scan")), dataset=tiny_digits)
    assert [record.target for record in more] == ["scan", "street"]
    assert len(records_path(options.out).read_text().splitlines()) == 2


def test_a_failed_run_is_recorded_the_others_go_on_and_it_is_tried_again(tiny, tiny_digits, monkeypatch):
    original = manifold.fit_manifold

    def diverges(config, *args, **kwargs):
        if config.kind == "nearest":
            raise TrainingDivergedError("the loss became NaN; lower learning_rate.")
        if config.kind == "gan":
            raise RuntimeError("a defect")
        return original(config, *args, **kwargs)

    monkeypatch.setattr(manifold, "fit_manifold", diverges)
    options = tiny(methods=("nearest", "gan", "vae"))
    nearest, gan, vae = run_bench(options, dataset=tiny_digits)
    assert (nearest.status, nearest.accuracy) == ("failed", None)
    assert nearest.error == "the loss became NaN; lower learning_rate."
    assert nearest.facts["sources"] == ["scan", "photo", "print"]
    assert (gan.status, gan.error) == ("failed", "RuntimeError: a defect")
    assert vae.status == "finished"
    summary = make_plan(Planner(options, tiny_digits)).summary()
    assert (summary["done"], summary["failed_before"], summary["to_do"]) == (1, 2, 2)
    monkeypatch.setattr(manifold, "fit_manifold", original)
    assert [record.status for record in run_bench(options, dataset=tiny_digits)] == ["finished"] * 3


@pytest.mark.parametrize(
    ("measured", "wrong"),
    [
        ({"mine": float("nan")}, "Out of range float values are not JSON compliant"),
        ({"code": 3}, "facts.code is 3; expected text"),
    ],
)
def test_what_a_run_measured_and_nobody_could_read_back_is_a_failed_run(
    tiny, tiny_digits, monkeypatch, measured, wrong
):
    monkeypatch.setattr(TrainedPaperMethod, "facts", lambda trained: measured)
    (record,) = run_bench(tiny(methods=("nearest",)), dataset=tiny_digits)
    assert record.status == "failed"
    assert wrong in record.error
    assert [read.error for read in finished_runs(tiny().out).values()] == [record.error]


def test_a_full_disk_is_no_failed_run_but_the_end(tiny, tiny_digits, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StageStore, "get", full)
    with pytest.raises(OSError, match="No space left"):
        run_bench(tiny(methods=("vae",)), dataset=tiny_digits)


def test_the_target_cannot_be_reached_from_training(tiny, tiny_digits):
    """Other target images, the same bytes of every trained stage."""

    def trained(out: Path) -> dict[str, bytes]:
        return {path.parent.name: path.read_bytes() for path in out.glob("stages/*/state.safetensors")}

    blank = tiny_digits.images.copy()
    blank[tiny_digits.domains == tiny_digits.domain_index("street")] = 0
    options = tiny(methods=("vae",))
    run_bench(options, dataset=tiny_digits)
    elsewhere = replace(options, out=options.out.with_name("blank"))
    (record,) = run_bench(elsewhere, dataset=replace(tiny_digits, images=blank))
    kinds = sorted(name.split("-")[0] for name in trained(options.out))
    assert kinds == ["classifier", "features", "manifold", "style"]
    assert trained(elsewhere.out) == trained(options.out)
    assert record.accuracy == pytest.approx(1 / 3), "all blank images get the same answer"


def test_changed_source_images_are_noticed(tiny, tiny_digits, trainings):
    run_bench(tiny(methods=("without-projection",)), dataset=tiny_digits)
    trainings.take()
    changed = tiny_digits.images.copy()
    changed[0, 0, 0, 0] ^= 1
    run_bench(tiny(methods=("without-projection",)), dataset=replace(tiny_digits, images=changed))
    assert trainings.take()["train_features"] == 1


class TestOtherProtocols:
    def test_single_source_trains_once_for_all_targets(self, tiny, tiny_digits, trainings):
        options = tiny("single-source", methods=("without-projection",), targets=(), sources=("scan",))
        records = run_bench(options, dataset=tiny_digits)
        assert [record.target for record in records] == ["photo", "print", "street"]
        assert {record.protocol for record in records} == {"single-source"}
        assert {tuple(record.facts["sources"]) for record in records} == {("scan",)}
        assert trainings.take()["train_features"] == 1

    def test_scarce_trains_on_its_share(self, tiny, tiny_digits):
        records = run_bench(tiny("scarce", methods=("deep-all",)), dataset=tiny_digits)
        assert [record.facts["fraction"] for record in records] == [0.2, 0.4, 0.6, 0.8]
        assert [record.facts["source_images"] for record in records] == [18, 45, 63, 90]

    def test_few_shot_fine_tunes_on_the_samples_and_shares_the_training_before(self, tiny, tiny_digits, trainings):
        options = tiny("few-shot", methods=("vae", "deep-all"), sources=("scan",))
        records = run_bench(options, dataset=tiny_digits)
        assert [record.status for record in records] == ["finished"] * 6, [record.error for record in records]
        assert [(record.method, record.facts["shots"]) for record in records] == [
            ("vae", 0), ("deep-all", 0), ("vae", 7), ("deep-all", 7), ("vae", 10), ("deep-all", 10),
        ]  # fmt: skip
        assert {record.images for record in records} == {6}
        # f and Deep All once each on the source, and once each for 7 and for 10 shots
        counts = trainings.take()
        assert (counts["train_features"], counts["fit_manifold"], counts["fit_classifier"]) == (6, 3, 3)
        stages = [sorted(name.split("-")[0] for name in record.facts["stages"]) for record in records[:3:2]]
        once = ["classifier", "features", "manifold", "style"]
        assert stages == [once, ["classifier", "features", "features", "manifold"]], "adapted, it knows the style"

    def test_few_shot_trains_g_and_c_on_the_source_and_as_many_of_the_samples(self, tiny, tiny_digits, monkeypatch):
        seen = []
        for module, name in ((manifold, "fit_manifold"), (classifier, "fit_classifier")):
            original = getattr(module, name)

            def watched(config, train, *args, _name=name, _original=original, **kwargs):
                seen.append((_name, len(train), len({tuple(row) for row in train.tolist()}), config.learning_rate))
                return _original(config, train, *args, **kwargs)

            monkeypatch.setattr(module, name, watched)
        run_bench(tiny("few-shot", methods=("vae",), sources=("scan",)), dataset=tiny_digits)
        for name, rate in (("fit_manifold", 0.01), ("fit_classifier", 0.003)):
            assert [what[1:] for what in seen if what[0] == name] == [
                (33, 33, rate),  # 36 images, of which 3 are held out
                (33 + 2 * 21, 33 + 21, rate),
                (33 + 30, 33 + 30, rate),
            ]

    def test_few_shot_keeps_the_samples_beside_the_source_for_1_nn(self, tiny, tiny_digits, monkeypatch):
        sizes = []
        original = manifold.fit_manifold

        def watched(config, train, *args, **kwargs):
            sizes.append(len(train))
            return original(config, train, *args, **kwargs)

        monkeypatch.setattr(manifold, "fit_manifold", watched)
        run_bench(tiny("few-shot", methods=("nearest",), sources=("scan",)), dataset=tiny_digits)
        assert sizes == [33, 33 + 21, 33 + 30]

    def test_beta_changes_only_the_search(self, tiny, tiny_digits, trainings):
        records = run_bench(tiny("beta"), dataset=tiny_digits)
        assert [record.facts["beta"] for record in records] == [0.05, 0.01, 0.005, 0.001]
        assert [record.config["search"]["rate"] for record in records] == [0.05, 0.01, 0.005, 0.001]
        assert {record.config["search"]["stop"] for record in records} == {"elbow"}
        assert all(record.facts["mean_iterations"] > 0 for record in records)
        assert trainings.take()["fit_manifold"] == 1

    def test_stopping_moves_the_answer_along_the_search(self, tiny, tiny_digits, trainings):
        records = run_bench(tiny("stopping"), dataset=tiny_digits)
        assert trainings.take()["fit_manifold"] == 1
        steps = {record.facts["epsilon"]: record.facts["mean_iterations"] for record in records}
        assert list(steps) == [-200, -100, -50, -20, -10, 0, 10, 20, 50, 100, 200]
        assert (steps[-200], steps[200]) == (0, 12), "no earlier than the start, no later than the last step"
        assert 0 < steps[0] < 12

    def test_corruption(self, tiny, tiny_digits):
        names = ("clean", "noise_1", "noise_5", "fog_3")
        dataset = replace(tiny_digits, domain_names=names)
        options = tiny("cifar10-c", methods=("without-projection",), targets=("noise_5", "fog_3"))
        records = run_bench(options, dataset=dataset)
        assert [(record.facts["corruption"], record.facts["severity"]) for record in records] == [
            ("noise", 5),
            ("fog", 3),
        ]

    def test_the_official_validation_images_are_selected_on(self, tiny, tiny_digits):
        splits = tuple("val" if i % 4 == 0 else "train" for i in range(len(tiny_digits)))
        (record,) = run_bench(tiny(methods=("vae",)), dataset=replace(tiny_digits, splits=splits))
        assert record.facts["held_out"] == "the official validation images of the sources"


class TestSelection:
    CANDIDATES = ("features.learning_rate=0.05", "features.learning_rate=0.0001")

    def test_leave_one_source_out_judges_on_sources_only(self, tiny, tiny_digits, trainings):
        options = tiny(methods=("without-projection",), selection="leave-one-source-out", candidates=self.CANDIDATES)
        summary = make_plan(Planner(options, tiny_digits)).summary()
        assert summary["trainings"]["features"]["needed"] == 2 * (3 + 1)
        assert "among 2 candidates" in summary["selection"]
        records = run_bench(options, dataset=tiny_digits)
        assert trainings.take()["train_features"] == 8
        for record, settings in zip(records, self.CANDIDATES, strict=True):
            found = record.facts["candidate"]
            assert (
                found["settings"] == settings == f"features.learning_rate={record.config['features']['learning_rate']}"
            )
            assert {rule: tuple(row) for rule, row in found["scores"].items()} == {
                "source-validation": ("scan", "photo", "print"),
                "leave-one-source-out": ("scan", "photo", "print"),
            }
        means = [np.mean(list(r.facts["candidate"]["scores"]["leave-one-source-out"].values())) for r in records]
        choice = choose(records, "leave-one-source-out")
        assert choice.settings == self.CANDIDATES[int(np.argmax(means))]

    def test_the_scores_are_the_accuracies_on_held_out_source_images(self, tiny, tiny_digits):
        """As the estimator answers for the images that it held out."""
        from homefold import Homefold

        options = tiny(methods=("vae",), candidates=("", "features.learning_rate=0.01"))
        runs = make_plan(Planner(options, tiny_digits)).runs
        for run, record in zip(runs, run_bench(options, dataset=tiny_digits), strict=True):
            source = tiny_digits.subset(run.split.source)
            _, held_out = selection_split(source, run.config.features.held_out, run.config.seed)
            model = Homefold(run.config, device="cpu").fit(tiny_digits, holdout="street")
            for domain, score in record.facts["candidate"]["scores"]["source-validation"].items():
                part = source.subset(held_out[source.domains[held_out] == source.domain_index(domain)])
                assert score == (model.predict(part).indices == part.labels).mean()

    def test_the_oracle_looks_at_the_target_and_is_marked(self, tiny, tiny_digits):
        options = tiny(methods=("without-projection",), selection="oracle", candidates=self.CANDIDATES)
        records = run_bench(options, dataset=tiny_digits)
        assert {record.selection for record in records} == {"oracle"}
        assert all("oracle" not in record.facts["candidate"]["scores"] for record in records)
        assert choose(records, "oracle").accuracies == [max(record.accuracy for record in records)]

    def test_a_search_goes_on_where_a_shorter_one_ended_and_shares_what_it_draws_alike(
        self, tiny, tiny_digits, trainings
    ):
        methods = ("without-projection", "vae")
        run_bench(tiny(methods=methods, search=2), dataset=tiny_digits)
        assert trainings.take()["train_features"] == 2, "both methods try the same settings of f"
        records = run_bench(tiny(methods=methods, search=3), dataset=tiny_digits)
        assert trainings.take()["train_features"] == 1
        assert [record.facts["candidate"]["number"] for record in records] == [0, 0, 1, 1, 2, 2]
        typed = tuple(record.facts["candidate"]["settings"] for record in records[1::2])
        again = run_bench(tiny(methods=("vae",), candidates=typed), dataset=tiny_digits)
        assert [record.run for record in again] == [record.run for record in records[1::2]], "a drawn one can be typed"

    def test_every_seed_tries_the_same_settings_and_a_plain_run_is_another(self, tiny, tiny_digits):
        plan = make_plan(Planner(tiny(methods=("vae",), search=3, seeds=2), tiny_digits))
        settings = [[run.candidate.settings for run in plan.runs if run.seed == seed] for seed in (0, 1)]
        assert settings[0] == settings[1]
        assert [len(unit) for unit in plan.units] == [1] * 6, "each can go to another process"
        (plain,) = make_plan(Planner(tiny(methods=("vae",)), tiny_digits)).runs
        assert plain.candidate is None
        assert plain.id not in {run.id for run in plan.runs}

    def test_one_source_cannot_be_left_out(self, tiny, tiny_digits):
        options = tiny("single-source", selection="leave-one-source-out", methods=("vae",))
        with pytest.raises(ConfigError, match="leave-one-source-out needs at least two source domains"):
            make_plan(Planner(options, tiny_digits))

    def test_a_candidate_that_could_not_answer_is_refused_before_any_work(self, tiny, tiny_digits):
        wanted = ("look.views=6", "look.views=7")
        options = tiny(methods=("vae",), selection="leave-one-source-out", candidates=wanted)
        with pytest.raises(ConfigError, match=r"views must be 1 to 6 where nothing is mirrored .* got 7"):
            make_plan(Planner(options, tiny_digits))

    def test_the_last_epoch(self, tiny, tiny_digits):
        (record,) = run_bench(tiny(methods=("without-projection",), selection="last"), dataset=tiny_digits)
        assert record.config["features"]["select"] == "last"
        assert record.facts["features"]["selected_epoch"] == 2


def test_every_seed_is_a_training_of_its_own(tiny, tiny_digits, trainings):
    records = run_bench(tiny(methods=("without-projection",), seeds=2), dataset=tiny_digits)
    assert [(record.seed, record.config["seed"]) for record in records] == [(0, 0), (1, 1)]
    assert trainings.take()["train_features"] == 2


def test_seeds_begin_where_they_are_asked_to_and_add_to_those_that_are_there(tiny, tiny_digits):
    def seeds(**changes):
        plan = make_plan(Planner(tiny(methods=("without-projection",), **changes), tiny_digits))
        return [run.seed for run in plan.runs], [run.seed for run in plan.remaining]

    run_bench(tiny(methods=("without-projection",), first_seed=3, seeds=1), dataset=tiny_digits)
    assert seeds(first_seed=2, seeds=3) == ([2, 3, 4], [2, 4])


def test_several_processes_give_the_same_records_as_one(tiny, tiny_digits):
    options = tiny(methods=("without-projection", "nearest"), targets=("street", "scan"), jobs=2)
    seen = []
    side_by_side = run_bench(options, dataset=tiny_digits, on_run=lambda run, record: seen.append(run.id))
    assert [record.status for record in side_by_side] == ["finished"] * 4, [r.error for r in side_by_side]
    assert sorted(seen) == sorted(record.run for record in side_by_side)
    alone = run_bench(replace(options, out=options.out.with_name("alone"), jobs=1), dataset=tiny_digits)
    assert [(r.run, r.accuracy) for r in side_by_side] == [(r.run, r.accuracy) for r in alone]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_a_process_that_dies_costs_its_own_runs_only(tiny, tiny_digits, monkeypatch):
    monkeypatch.setattr(bench, "_work", die)
    options = tiny(methods=("without-projection", "nearest"), targets=("street", "scan"), jobs=2)
    seen = []
    records = run_bench(options, dataset=tiny_digits, on_run=lambda run, record: seen.append(record.run))
    assert [record.status for record in records] == ["failed"] * 4
    assert records[0].error == "its process was ended by SIGKILL; perhaps memory ran out: take fewer jobs."
    assert sorted(seen) == sorted(record.run for record in records)


class TestWhatMakesNoSense:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"suite": "pcas"}, "there is no suite 'pcas'.*Did you mean pacs"),
            ({"methods": ("vea",)}, "there is no method 'vea'; choose one of deep-all.*Did you mean vae"),
            ({"targets": ("mars",)}, "there is no target 'mars' in tiny digits; it has scan, photo"),
            ({"sources": ("street",)}, "nothing is left to run"),
            ({"preset": "slow"}, "there is no preset 'slow'"),
            ({"seeds": 0}, "seeds must be at least 1"),
            ({"first_seed": -1}, "first_seed must not be negative; got -1"),
            ({"suite": "stopping", "methods": ("deep-all",)}, "deep-all has no setting stop_offset"),
        ],
    )
    def test_it_gets_a_sentence_before_any_work(self, tiny, tiny_digits, changes, words):
        with pytest.raises((ConfigError, DataError), match=words):
            make_plan(Planner(tiny(**changes), tiny_digits))

    def test_images_of_another_size(self, tiny, tiny_digits):
        smaller = replace(tiny_digits, images=tiny_digits.images[:, ::2, ::2])
        with pytest.raises(DataError, match=r"16 × 16 px are needed"):
            make_plan(Planner(tiny(), smaller))


@pytest.mark.parametrize(
    "method", ["vae", "tent:batch_size=8,learning_rate=0.01", "t3a:batch_size=8", "shot-im:epochs=1"]
)
def test_a_warm_up_changes_no_answer(tiny, tiny_digits, method):
    def answers(out, images):
        planner = Planner(tiny(methods=(method,), out=out), tiny_digits)
        executor = Executor(planner)
        executor.warm_up_images = images
        ((_, record),) = executor.do_unit(planner.units()[0])
        return record, read_artifact_file(artifact_path(out, record.run)).arrays

    (cold, before), (warm, after) = answers(tiny().out / "cold", 0), answers(tiny().out / "warm", 5)
    assert (cold.run, cold.accuracy) == (warm.run, warm.accuracy)
    assert before["probabilities"].tobytes() == after["probabilities"].tobytes()
    if method == "vae":
        extracted = [len(list((tiny().out / name).glob("stages/features-*/images-*"))) for name in ("cold", "warm")]
        assert extracted == [2, 4], "with styles moved and as they are"


@pytest.mark.parametrize("records", [True, False])
def test_memory_goes_back_after_each_training(tiny, tiny_digits, records, monkeypatch):
    events = []
    monkeypatch.setattr("homefold.evaluation.execution.give_back_device_memory", lambda device: events.append(device))
    methods = tuple(f"without-projection:features.learning_rate={rate}" for rate in (0.1, 0.05))
    options = tiny(methods=methods)
    planner = Planner(options, tiny_digits)
    executor, unit = Executor(planner), planner.units()[0]
    done = executor.record_unit(unit, Ledger(records_path(options.out))) if records else executor.do_unit(unit)
    held = [len(events) for _ in done]
    assert held == [0, 1]
    assert events == [executor.device] * 2


@pytest.mark.gpu
@pytest.mark.parametrize("records", [True, False])
def test_a_finished_training_gives_its_memory_back(tiny, tiny_digits, records):
    methods = tuple(f"without-projection:features.learning_rate={rate}" for rate in (0.1, 0.05, 0.02, 0.01))
    options = tiny(methods=methods, device="cuda")
    planner = Planner(options, tiny_digits)
    executor, unit = Executor(planner), planner.units()[0]
    done = executor.record_unit(unit, Ledger(records_path(options.out))) if records else executor.do_unit(unit)
    held = [torch.cuda.memory_reserved() for _ in done]
    assert len(held) == 4
    assert max(held) < 1.5 * held[0]


def test_the_benchmark_trains_what_the_estimator_trains(tiny, tiny_digits):
    """The harness must not be a second implementation: same data, settings and seed, same answers."""
    from homefold import Homefold

    options = tiny(methods=("vae",))
    planner = Planner(options, tiny_digits)
    (run,) = make_plan(planner).runs
    run_bench(options, dataset=tiny_digits)
    arrays = read_artifact_file(artifact_path(options.out, run.id)).arrays
    model = Homefold(run.config, device="cpu").fit(tiny_digits, holdout="street")
    answers = model.predict(tiny_digits.only("street"))
    assert arrays["probabilities"].tobytes() == answers.probabilities.astype(np.float16).tobytes()
    assert arrays["off_manifold"].tobytes() == answers.off_manifold.tobytes()


def test_a_records_line_is_plain_json(tiny, tiny_digits):
    options = tiny(methods=("vae",))
    run_bench(options, dataset=tiny_digits)
    (line,) = records_path(options.out).read_text().splitlines()
    assert json.loads(line)["method"] == "vae"
    assert isinstance(find_method("vae"), PaperMethod)


def test_vlcs_is_trained_on_seventy_percent_of_each_source(tiny, tiny_digits):
    planner = Planner(tiny("samplers", methods=("nearest",)), replace(tiny_digits, name="vlcs"))
    (run,) = make_plan(planner).runs
    assert run.split.facts["source_fraction"] == 0.7
    assert len(run.split.source) == 9 * 8
    (usual,) = make_plan(Planner(tiny("samplers", methods=("nearest",)), tiny_digits)).runs
    assert len(usual.split.source) == 9 * 12
