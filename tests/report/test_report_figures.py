"""Every figure is there when its data are, says what it shows, and is named as absent when they are not."""

from __future__ import annotations

import re
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from made_up_runs import CLASSES, Made, artifact_arrays, pacs_records, record, write_artifacts, write_runs

from homefold.report.figures import FIGURES, build_figures
from homefold.report.figures.answers import confusion_matrices, coverage_curves, reliability, reliability_diagrams
from homefold.report.figures.bars import ablation_bars, time_bars
from homefold.report.figures.bound import bound_terms, neighbour_labels, projection_bound
from homefold.report.figures.curves import loss_curves, scarce_curves
from homefold.report.figures.distances import a_distance, target_distances
from homefold.report.figures.drawing import COLOURS, Bars, method_colour, seed_dots
from homefold.report.figures.features import tsne_maps
from homefold.report.figures.methods import method_ranks
from homefold.report.figures.training import training_curves
from homefold.report.runs import read_runs


def test_every_kind_of_figure_is_drawn_from_a_full_folder(made: Made) -> None:
    assert [section.title for section in made.report.absent] == []
    assert len(made.report.drawn) == len(FIGURES) == 20


def test_every_figure_has_words_a_count_and_valid_bytes(made: Made) -> None:
    figures = [figure for section in made.report.sections for figure in section.figures]
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert len(figure.alt) > 20
        assert re.search(r"n = \d|over \d+ runs|of \d+ features", figure.caption), figure.caption
        if figure.format == "svg":
            assert ElementTree.fromstring(figure.data).tag.endswith("svg")
        else:
            assert figure.data.startswith(b"\x89PNG")


def test_figures_without_data_are_left_out_and_told(tmp_path: Path) -> None:
    folder = read_runs(write_runs(tmp_path, [record(method="vae"), record(method="deep-all")]))
    sections = build_figures(folder)
    assert [section.title for section in sections if section.figures] == ["All methods", "Time per image"]
    assert all(section.needs for section in sections)


def test_the_same_runs_give_the_same_bytes(made: Made) -> None:
    assert next(ablation_bars(made.folder)).data == next(ablation_bars(made.folder)).data
    assert next(confusion_matrices(made.folder)).data == next(confusion_matrices(made.folder)).data


def test_the_ablation_says_the_averages_that_it_draws(tmp_path: Path) -> None:
    values = {"deep-all": 0.7, "without-projection": 0.75, "vae": 0.8125}
    records = [record(method=m, accuracy=a, target=t) for m, a in values.items() for t in ("sketch", "photo")]
    (figure,) = ablation_bars(read_runs(write_runs(tmp_path, records)))
    assert figure.alt == "Bars of accuracy; Avg.: Deep All 70.0 %, w/o G_φ 75.0 %, VAE 81.2 %."
    assert "The axis begins at 50" in figure.caption


def test_scarce_curves_average_the_targets(tmp_path: Path) -> None:
    records = [
        record(suite="scarce", target=t, facts={"fraction": f}, accuracy=a)
        for f, t, a in ((0.2, "a", 0.5), (0.2, "b", 0.7), (0.8, "a", 0.8), (0.8, "b", 0.9))
    ]
    (figure,) = scarce_curves(read_runs(write_runs(tmp_path, records)))
    assert "VAE from 60.0 % to 85.0 %" in figure.alt


def test_distances_are_from_each_source_to_the_target(made: Made) -> None:
    (figure,) = target_distances(made.folder)
    arrays = artifact_arrays("vae", "sketch", 0)
    sources = [arrays["source_features"][arrays["source_domains"] == domain] for domain in range(3)]
    found = [a_distance(source, arrays["target_projected"]) for source in sources]
    (words,) = [part for part in figure.alt.split(". ") if part.startswith("sketch from blue, green, red")]
    assert words.rstrip(".").endswith(f"f_θ, projected {', '.join(f'{distance:.2f}' for distance in found)}")


def test_all_methods_stand_in_the_order_of_their_means_beside_the_papers(tmp_path: Path) -> None:
    values = {"deep-all": 0.7, "rsc": 0.82, "vae": 0.8, "somebody-elses": 0.75}
    records = [record(method=m, accuracy=a + s / 100, seed=s) for m, a in values.items() for s in (0, 1)]
    (figure,) = method_ranks(read_runs(write_runs(tmp_path, records)))
    assert figure.alt == (
        "Means over targets, the best first: RSC 82.5 %, VAE 80.5 %, somebody-elses 75.5 %, Deep All 70.5 %."
    )
    assert "triangles: the paper’s figures" in figure.caption


def test_a_bar_is_the_mean_of_its_seeds_and_each_seed_a_dot() -> None:
    bars = Bars("VAE", "#000000", [[80.0, 82.0], [70.0], []])
    assert bars.means[:2] == [81.0, 70.0]
    assert bars.spreads[0] == pytest.approx(2**0.5)
    assert np.isnan([bars.means[2], *bars.spreads[1:]]).all()
    assert seed_dots(3.0, [80.0, 82.0], 0.4) == ([2.9, 3.1], [80.0, 82.0])
    assert seed_dots(3.0, [80.0], 0.4) == ([], [])


def test_trainings_are_drawn_once_for_all_methods_that_stand_on_them(tmp_path: Path) -> None:
    records = [record(method=m) for m in ("deep-all", "without-projection", "vae")]
    write_runs(tmp_path, records)
    write_artifacts(tmp_path, records)
    (figure,) = training_curves(read_runs(tmp_path))
    assert figure.alt == ("Losses by epoch. Deep All: 0.188 in the last epoch; w/o G_φ, VAE: 0.05 in the last epoch.")
    assert "n = 2 trainings" in figure.caption


def test_a_feature_has_the_label_of_its_nearest_labelled_ones() -> None:
    random = np.random.default_rng(0)
    z, bank, labels = random.normal(size=(9, 4)), random.normal(size=(40, 4)), random.integers(0, 3, 40)
    for row, found in zip(z, neighbour_labels(z, bank, labels), strict=True):
        cosines = [(row @ other) / np.linalg.norm(row) / np.linalg.norm(other) for other in bank]
        votes = [0.0, 0.0, 0.0]
        for place in sorted(range(40), key=lambda place: -cosines[place])[:5]:
            votes[labels[place]] += 1 + cosines[place]
        assert found == votes.index(max(votes))


def test_the_terms_bound_the_error_and_are_shares_of_images(made: Made) -> None:
    runs = [run for run in made.folder.runs if run.method == "vae" and run.suite == "pacs" and run.seed == 0]
    for run in runs:
        artifact = made.folder.artifact(run)
        assert artifact is not None
        found = bound_terms(artifact, "target_projected", "predicted")
        label = neighbour_labels(artifact["target_projected"], artifact["source_features"], artifact["source_labels"])
        assert found.error == pytest.approx((artifact["labels"] != artifact["predicted"]).mean())
        assert found.classifier == pytest.approx((label != artifact["predicted"]).mean())
        assert found.label == pytest.approx((label != artifact["labels"]).mean())
        assert found.error <= found.classifier + found.label
    (figure,) = projection_bound(made.folder)
    assert "n = 320 features of 4 runs" in figure.caption


def test_the_gallery_counts_what_was_corrected_and_spoiled(made: Made) -> None:
    arrays = artifact_arrays("vae", "sketch", 0)
    right = arrays["predicted"] == arrays["labels"]
    right_before = arrays["probabilities_before"].argmax(axis=1) == arrays["labels"]
    gained, lost = int((right & ~right_before).sum()), int((~right & right_before).sum())
    assert gained > 0
    assert lost > 0
    drawn = [figure for section in made.report.drawn for figure in section.figures]
    (corrected,) = [f for f in drawn if f.name.startswith("corrected-sketch")]
    (spoiled,) = [f for f in drawn if f.name.startswith("spoiled-sketch")]
    assert f"{gained} of n = 80 images corrected ({gained} corrected and {lost} spoiled in all)" in corrected.caption
    assert f"{lost} of n = 80 images spoiled" in spoiled.caption


@pytest.mark.slow
def test_confusion_calibration_and_coverage_say_what_the_answers_give(made: Made) -> None:
    arrays = artifact_arrays("vae", "photo", 0)
    accuracy = 100 * (arrays["predicted"] == arrays["labels"]).mean()
    (confusion,) = [figure for figure in confusion_matrices(made.folder) if "photo" in figure.name]
    assert f"of {len(CLASSES)} classes on photo: {accuracy:.1f} % on the diagonal" in confusion.alt
    (coverage,) = [figure for figure in coverage_curves(made.folder) if "photo" in figure.name]
    assert f"{accuracy:.1f} % answering all" in coverage.alt
    all_targets = [artifact_arrays("vae", target, 0) for target in ("art_painting", "cartoon", "photo", "sketch")]
    labels = np.concatenate([found["labels"] for found in all_targets])
    errors = [
        100 * reliability(np.concatenate([found[name] for found in all_targets]), labels).error
        for name in ("probabilities_before", "probabilities")
    ]
    (calibration,) = reliability_diagrams(made.folder)
    assert f"{errors[0]:.1f} % before projection and {errors[1]:.1f} % after" in calibration.alt


def test_the_loss_is_the_full_methods_with_its_elbows(made: Made) -> None:
    figures = list(loss_curves(made.folder))
    assert len(figures) == 4
    assert all(figure.alt.endswith("elbows at 45, 80.") for figure in figures)


@pytest.mark.slow
def test_runs_without_probabilities_before_still_have_the_rest(tmp_path: Path) -> None:
    records = pacs_records(1)[-4:]
    write_runs(tmp_path, records)
    write_artifacts(tmp_path, records, without=("probabilities_before", "curve_loss", "source_domains"))
    drawn = {section.title for section in build_figures(read_runs(tmp_path)) if section.figures}
    assert drawn == {
        "Bound of Proposition 2",
        "Loss by epoch",
        "Calibration",
        "Confusion matrices",
        "Accuracy against coverage",
        "Examples of each domain",
    }


def test_times_are_shown_with_their_hardware(tmp_path: Path) -> None:
    records = [
        record(method=method, seconds={"inference_per_image": seconds})
        for method, seconds in (("without-projection", 0.001), ("vae", 0.0035))
    ]
    (figure,) = time_bars(read_runs(write_runs(tmp_path, records)))
    assert figure.alt == "Bars of time: w/o G_φ 1 ms, VAE 3.5 ms."
    assert "one made-up GPU" in figure.caption


def test_long_names_of_methods_are_broken_and_leave_room_for_the_bars(tmp_path: Path) -> None:
    settings = "features.mix_style_probability=0,features.augmentation.grey_probability=0.5,features.temperature=0.3"
    records = [
        record(method=method, seconds={"inference_per_image": 0.001})
        for method in ("without-projection", f"vae:{settings}", f"without-projection:{settings}")
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (figure,) = time_bars(read_runs(write_runs(tmp_path, records)))
    assert "temperature=0.3" in figure.alt


def test_a_name_with_any_sign_in_it_can_be_drawn(tmp_path: Path) -> None:
    names = ("$x^$", "a\\b_{", "<&>")
    records = [record(method=m, target=t) for m in ("deep-all", "without-projection") for t in names]
    (figure,) = ablation_bars(read_runs(write_runs(tmp_path, records)))
    assert ElementTree.fromstring(figure.data).tag.endswith("svg")


@pytest.mark.parametrize("method", ["deep-all", "vae", "somebody-elses"])
def test_a_method_has_one_colour_whoever_stands_beside_it(method: str) -> None:
    assert method_colour(method, [method]) == method_colour(method, ["deep-all", "vae", method])
    assert len(set(COLOURS)) == 8


def test_a_map_of_many_features_shows_every_class_and_domain_and_says_how_many_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homefold.report.figures.features._MOST_POINTS", 60)
    records = [record(method="deep-all")]
    write_runs(tmp_path, records)
    write_artifacts(tmp_path, records)
    by_class, by_domain = tsne_maps(read_runs(tmp_path))
    # 120 features of three sources and 80 of the target, whose rows cycle through the classes.
    assert "t-SNE of 60 of 200 features" in by_class.caption
    assert by_class.alt == "Scatter of 60 of 200 features, coloured by class (4)."
    assert by_domain.alt == "Scatter of 60 of 200 features, coloured by domain (4)."
