"""The scripts of the study: each counts what it says, and asks for what it needs in a sentence."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from homefold.config import config_to_dict, preset_config
from homefold.evaluation.artifacts import artifact_path, write_artifact
from homefold.evaluation.record_lines import read_record_lines

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parents[2] / "study"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    """Imports one by its name."""
    monkeypatch.syspath_prepend(str(STUDY))

    def load(name: str) -> ModuleType:
        # Their names are common words: none may stay behind for other tests to import.
        for known in ("writing", name):
            monkeypatch.delitem(sys.modules, known, raising=False)
        return importlib.import_module(name)

    return load


def result(path: Path) -> dict:
    found = json.loads(path.read_text())
    for fact in ("hardware", "versions", "command", "commit", "rows"):
        assert fact in found
    return found


DOMAINS = ("a", "b", "c", "d")


def study_line(recipe: int, target: str, other: str = "", *, accuracy: float | None = None, **more: object) -> dict:
    """A record of training without `target`, and without `other` where it is given."""
    # Recipe 1 is better wherever `d` is not what is tested; there recipe 2 is.
    usual = {(1, "d"): 0.2, (2, "d"): 0.9}.get((recipe, target), 0.5 + 0.1 / recipe)
    sources = [name for name in DOMAINS if name not in (target, other)]
    return {
        "dataset": "made up",
        "target": target,
        "method": f"recipe {recipe}",
        "protocol": "leave-two-domains-out" if other else "leave-one-domain-out",
        "seed": 0,
        "status": "finished",
        "accuracy": usual if accuracy is None else accuracy,
        "facts": {
            "sources": sources,
            "source": "+".join(sources),
            "classifier": {"held_out_accuracy": 0.9 + recipe / 100},
        },
        **more,
    }


def selection_study(script, folder: Path, left_two: list[dict], left_one: list[dict], *options: str) -> dict:
    for name, lines in (("pairs", left_two), ("runs", left_one)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in lines))
    paths = [str(folder / name) for name in ("pairs.jsonl", "runs.jsonl")]
    script("selection_study").main([*paths, *options, "--out", str(folder / "r.json")])
    return result(folder / "r.json")


def pairs_of(recipe: int, targets: tuple[str, ...] = DOMAINS, **more: object) -> list[dict]:
    return [study_line(recipe, target, other, **more) for target in targets for other in DOMAINS if other != target]


def test_selection_is_judged_by_what_it_would_have_chosen(script, tmp_path):
    left_one = [study_line(recipe, target) for recipe in (1, 2) for target in DOMAINS]
    found = selection_study(script, tmp_path, [*pairs_of(1), *pairs_of(2)], left_one)
    rows = {(row["target"], row["selection"]): row for row in found["rows"]}
    # For d only a, b and c are asked, where recipe 1 is better; for a, what d says decides.
    assert rows["d", "leave-one-source-out"]["chosen"] == "recipe 1"
    assert rows["d", "leave-one-source-out"]["accuracy_of_chosen"] == 0.2
    assert rows["d", "leave-one-source-out"]["rank_correlation"] == pytest.approx(-1)
    assert rows["a", "leave-one-source-out"]["chosen"] == "recipe 2"
    assert rows["d", "source-validation"]["chosen"] == "recipe 2"
    scores = found["scores"]["leave-one-source-out"]["made up, seed 0"]
    assert scores["a"]["recipe 1"] == pytest.approx((0.6 + 0.6 + 0.2) / 3)


def test_a_choice_for_each_target_stands_beside_one_for_all(script, tmp_path, capsys):
    left_one = [study_line(recipe, target) for recipe in (1, 2) for target in DOMAINS]
    found = selection_study(script, tmp_path, [*pairs_of(1), *pairs_of(2)], left_one)
    rows = {(row["target"], row["selection"]): row for row in found["summary"]}
    # For each by itself recipe 2 (0.55) for a, b and c and recipe 1 (0.2) for d; over all cases recipe 2 is better.
    each = rows["each target by itself", "leave-one-source-out"]
    assert each["accuracy_of_chosen"] == pytest.approx((3 * 0.55 + 0.2) / 4)
    assert each["accuracy_of_best"] == pytest.approx((3 * 0.6 + 0.9) / 4)
    assert each["rank_correlation"] == pytest.approx(-1)
    together = rows["one recipe for all", "leave-one-source-out"]
    assert (together["chosen"], together["best"]) == ("recipe 2", "recipe 2")
    assert together["accuracy_of_chosen"] == pytest.approx((3 * 0.55 + 0.9) / 4)
    assert together["mean_accuracy"] == pytest.approx(((3 * 0.55 + 0.9) / 4 + (3 * 0.6 + 0.2) / 4) / 2)
    assert "one recipe for all, by leave-one-source-out: recipe 2" in capsys.readouterr().out


def test_recipes_that_one_rule_cannot_judge_are_left_out_for_both(script, tmp_path):
    left_one = [study_line(recipe, target) for recipe in (1, 2, 3) for target in DOMAINS]
    for line in left_one:  # as of Deep All, for which no classifier is trained by itself
        if line["method"] == "recipe 3":
            line["facts"].pop("classifier")
    left_two = [*pairs_of(1), *pairs_of(2), *pairs_of(3, accuracy=0.99)]
    for options, recipes, chosen in ((), 3, "recipe 3"), (("--common",), 2, "recipe 2"):
        found = selection_study(script, tmp_path, left_two, left_one, *options)
        rows = [row for row in found["rows"] if row["selection"] == "leave-one-source-out"]
        assert {row["recipes"] for row in rows} == {recipes}
        assert {row["chosen"] for row in rows if row["target"] == "a"} == {chosen}


def test_one_recipe_for_all_needs_every_target(script, tmp_path):
    left_one = [study_line(recipe, target) for recipe in (1, 2) for target in DOMAINS]
    left_two = [*pairs_of(1, ("d", "a", "b")), *pairs_of(2, ("d", "a", "b"))]
    found = selection_study(script, tmp_path, left_two, left_one)
    assert {row["selection"] for row in found["summary"]} == {"source-validation"}


def test_selection_looks_only_at_recipes_that_every_source_has_judged(script, tmp_path):
    left_one = [study_line(recipe, target) for recipe in (1, 2) for target in DOMAINS]
    # As with --targets d a b: c never judges, so that no score but that of c itself is whole.
    left_two = [*pairs_of(1, ("d", "a", "b")), *pairs_of(2, ("d", "a", "b"))]
    found = selection_study(script, tmp_path, left_two, left_one)
    assert {row["target"] for row in found["rows"] if row["selection"] == "leave-one-source-out"} == {"c"}
    scores = found["scores"]["leave-one-source-out"]["made up, seed 0"]
    assert scores == {"c": {"recipe 1": pytest.approx(1.4 / 3), "recipe 2": pytest.approx(2.0 / 3)}}


@pytest.mark.parametrize("different", [{"backbone": "x"}, {"preset": "x"}, {"selection": "x"}, {"seed": 3}])
def test_selection_never_mixes_runs_under_different_settings(script, tmp_path, different):
    left_one = [study_line(recipe, target) for recipe in (1, 2) for target in DOMAINS]
    left_one += [{**line, **different, "accuracy": 1 - line["accuracy"]} for line in left_one]
    left_two = [*pairs_of(1), *pairs_of(2), *pairs_of(1, accuracy=0.3, **different), *pairs_of(2, **different)]
    found = selection_study(script, tmp_path, left_two, left_one)
    rows = [row for row in found["rows"] if (row["target"], row["selection"]) == ("d", "leave-one-source-out")]
    assert [(row["chosen"], row["accuracy_of_chosen"]) for row in rows] == [
        ("recipe 1", 0.2),
        ("recipe 2", pytest.approx(0.1)),
    ]
    assert rows[0]["under"] != rows[1]["under"]


def test_changes_that_mean_the_same_are_said_to(script, tmp_path):
    left_one = [{**study_line(recipe, target), "changes": "a=0"} for recipe in (1, 2) for target in DOMAINS]
    judged = {}
    for options in ((), ("--alike", "", "a=0")):
        found = selection_study(script, tmp_path, [*pairs_of(1), *pairs_of(2)], left_one, *options)
        rows = [row for row in found["rows"] if row["selection"] == "leave-one-source-out"]
        judged[options] = {row["target"]: row["under"] for row in rows}
    assert list(judged.values()) == [{}, dict.fromkeys(DOMAINS, "made up, a=0, seed 0")]
    both = [*left_one, study_line(1, "a")]
    with pytest.raises(SystemExit, match="which of them count"):
        selection_study(script, tmp_path, [*pairs_of(1), *pairs_of(2)], both, "--alike", "", "a=0")


def test_recipes_are_compared_on_the_cases_that_both_have(script, tmp_path):
    lines = [*pairs_of(1), *pairs_of(2, ("d",)), *pairs_of(3, ("a",), accuracy=0.7)]
    lines += [{**line, "status": "failed", "accuracy": None} for line in pairs_of(3, ("b",))]
    lines += [{**line, "status": "failed", "accuracy": None} for line in pairs_of(3, ("a",))]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(item) + "\n" for item in lines))
    asked = [str(tmp_path / "pairs.jsonl"), "--against", "recipe 1", "--out", str(tmp_path / "r.json")]
    script("recipe_table").main(asked)
    rows = {row["recipe"]: row for row in result(tmp_path / "r.json")["rows"]}
    assert list(rows) == ["recipe 2", "recipe 3", "recipe 1"]
    assert rows["recipe 2"]["cases"] == 3
    assert rows["recipe 2"]["mean"] == pytest.approx(90)
    assert rows["recipe 2"]["difference"] == pytest.approx(70)
    assert rows["recipe 2"]["a"] is None
    # What failed first and finished later did not fail.
    assert rows["recipe 3"]["failed"] == 3
    assert rows["recipe 3"]["a"] == pytest.approx(10)
    assert rows["recipe 1"]["cases"] == 12
    assert rows["recipe 1"]["least"] == rows["recipe 1"]["most"] == 0


def final_run(method, config, target, seed, accuracy):
    names = {"dataset": "d", "protocol": "leave-one-domain-out", "selection": "source-validation", "status": "ok"}
    run = {"method": method, "config": {**config, "seed": seed}, "target": target, "seed": seed, "accuracy": accuracy}
    return json.dumps({**names, **run}) + "\n"


def test_runs_of_one_method_are_one_row_whatever_they_were_called(script, tmp_path):
    plain, later = config_to_dict(preset_config("small")), config_to_dict(preset_config("small"))
    del plain["features"]["runs"]  # A setting that did not exist yet.
    plain["features"]["layer_decay"] = 1.0  # One that no longer exists, at its default.
    plain["style"] |= {"blocks": [], "manifold": "vae"}
    later["style"] |= {"blocks": [], "manifold": "mean"}
    styled = config_to_dict(preset_config("small"))
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    old.write_text(
        "".join(final_run("vae", plain, target, seed, 0.5 + seed / 10) for target in "ab" for seed in (0, 1))
    )
    lines = [final_run("vae:style.blocks=[]", later, target, 2, 0.7) for target in "ab"]
    lines += [final_run("vae", styled, target, seed, 0.9) for target in "ab" for seed in (1, 2)]
    lines += [final_run("gan", later, "a", 0, 0.9)]
    slowed = {**styled, "features": {**styled["features"], "layer_decay": 0.5}}
    lines += [final_run("vae:features.layer_decay=0.5", slowed, target, 1, 0.8) for target in "ab"]
    new.write_text("".join(lines))
    asked = [str(old), str(new), "--against", "vae:style.blocks=[]", "--out", str(tmp_path / "r.json")]
    script("final_table").main(asked)
    with_styles, slower, without = result(tmp_path / "r.json")["rows"]
    assert (slower["method"], slower["mean"]) == ("vae:features.layer_decay=0.5", pytest.approx(80))
    assert (with_styles["method"], with_styles["seeds"], with_styles["a"]) == ("vae", "1 2", "90.0 ± 0.0")
    assert with_styles["difference"] == pytest.approx(25)
    assert (without["method"], without["seeds"], without["b"]) == ("vae:style.blocks=[]", "0 1 2", "60.0 ± 10.0")
    assert (without["mean"], without["deviation"], without["difference"]) == pytest.approx((60, 10, 0))


@pytest.mark.parametrize("page", ["README.md", "docs/what-to-expect.md"])
@pytest.mark.parametrize(
    ("files", "first", "rows"),
    [
        (
            ("pacs", "pacs-more-seeds", "pacs-deep-all"),
            "PACS, ResNet-18",
            (
                "deep-all",
                "without-projection",
                "vae",
                "without-projection:projection.views=8",
                "vae:style.manifold=domains,projection.views=8",
            ),
        ),
        (
            ("digits-dg",),
            "Digits-DG, small network",
            (
                "deep-all",
                "without-projection",
                "vae:style.blocks=block1/block2,style.manifold=domains,style.weight=0.5",
                "without-projection:projection.textures=4",
                "vae:style.blocks=block1/block2,style.manifold=domains,style.weight=0.5,projection.textures=4",
            ),
        ),
    ],
)
def test_the_table_of_the_front_pages_is_that_of_the_records(script, page, files, first, rows, tmp_path):
    records = [str(STUDY / "records" / f"{name}.jsonl.xz") for name in files]
    script("final_table").main([*records, "--out", str(tmp_path / "r.json")])
    found = {row["method"]: row for row in result(tmp_path / "r.json")["rows"]}
    assert row_of(page, first) == [f"{found[name]['mean']:.1f} ± {found[name]['deviation']:.1f}" for name in rows]


@pytest.mark.parametrize("page", ["README.md", "docs/what-to-expect.md"])
def test_what_the_front_pages_say_of_a_share_of_the_pretrained_weights_is_in_the_records(script, page, tmp_path):
    script("final_table").main([str(STUDY / "records" / "pacs-auto.jsonl.xz"), "--out", str(tmp_path / "r.json")])
    found = {row["method"]: row for row in result(tmp_path / "r.json")["rows"]}
    kept, views = "features.keep_pretrained=0.2", "look.views=8"
    rows = (
        f"without-projection:{kept}",
        f"vae:{kept}",
        f"without-projection:{kept},{views}",
        f"vae:{kept},style.manifold=domains,{views}",
    )
    assert row_of(page, "the same, ") == [
        "–",
        *(f"{found[name]['mean']:.1f} ± {found[name]['deviation']:.1f}" for name in rows),
    ]


@pytest.mark.parametrize("page", ["README.md", "docs/what-to-expect.md"])
def test_what_the_front_pages_say_of_one_source_is_in_the_records(page):
    by_seed: dict[str, dict[int, list[float]]] = {}
    for _, run in read_record_lines(STUDY / "records" / "pacs-single-source.jsonl.xz"):
        by_seed.setdefault(run["method"], {}).setdefault(run["seed"], []).append(100 * run["accuracy"])
    means = {method: [np.mean(values) for values in seeds.values()] for method, seeds in by_seed.items()}
    figures = {method: f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}" for method, values in means.items()}
    shown = [*(figures[method] for method in ("deep-all", "without-projection", "vae")), "–", "–"]
    assert row_of(page, "PACS, one source domain") == shown


def row_of(page: str, first: str) -> list[str]:
    """The five figures of the row of a page's table that begins so."""
    lines = (STUDY.parent / page).read_text("utf-8").splitlines()
    (cells,) = (line.strip("| ").split("|") for line in lines if line.lstrip("| ").startswith(first))
    return [cell.strip() for cell in cells[1:6]]


def test_the_study_of_selection_prints_percent(script):
    row = dict.fromkeys(("target", "selection", "recipes", "rank_correlation"), 0)
    row |= {"accuracy_of_chosen": 0.75, "accuracy_of_best": 0.8, "mean_accuracy": 0.7}
    shown = script("selection_study")._shown(row)
    assert shown["accuracy_of_chosen, %"] == pytest.approx(75)
    assert shown["mean_accuracy, %"] == pytest.approx(70)


def test_a_compiled_recipe_stands_in_the_table_of_those_that_are_not(script, tmp_path):
    changes = {1: "a=1 b=2", 2: "a=1 features.compile=on b=2", 3: "features.compile=on a=2 features.cuda_graph=off"}
    lines = [{**line, "changes": said} for recipe, said in changes.items() for line in pairs_of(recipe)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(item) + "\n" for item in lines))
    for against, found in (("recipe 1", {"a=1 b=2": ["recipe 2", "recipe 1"]}), ("recipe 3", {"a=2": ["recipe 3"]})):
        asked = [str(tmp_path / "pairs.jsonl"), "--against", against, "--out", str(tmp_path / "r.json")]
        script("recipe_table").main(asked)
        tables: dict[str, list[str]] = {}
        for row in result(tmp_path / "r.json")["rows"]:
            tables.setdefault(row["settings"], []).append(row["recipe"])
        assert tables == found


def test_the_error_of_a_recipe_is_that_of_its_trainings(script):
    table = script("recipe_table")
    base = {(("a", "b"), target, seed): 50.0 for target in "cd" for seed in range(3)}
    other = {case: 50.0 + gain for case, gain in zip(base, (1, 2, 3, 3, 4, 8), strict=True)}  # trainings: 2, 3, 5.5
    rows = {row["recipe"]: row for row in table.recipe_rows({"base": base, "other": other}, {}, "base")}
    assert rows["other"]["difference"] == pytest.approx(3.5)
    assert rows["other"]["error"] == pytest.approx(np.std([2, 3, 5.5], ddof=1) / 3**0.5)
    assert rows["base"]["error"] == 0
    alone = {case: value for case, value in other.items() if case[2] == 0}
    assert table.recipe_rows({"base": base, "alone": alone}, {}, "base")[0]["error"] is None


def test_a_recipe_that_nobody_ran_gets_a_sentence(script, tmp_path):
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(item) + "\n" for item in pairs_of(1)))
    with pytest.raises(SystemExit, match="--against"):
        script("recipe_table").main([str(tmp_path / "pairs.jsonl"), "--against", "recipe 9"])
    (tmp_path / "targets.jsonl").write_text(json.dumps(study_line(1, "a")) + "\n")
    with pytest.raises(SystemExit, match="no runs of the suite leave-two-out"):
        script("recipe_table").main([str(tmp_path / "targets.jsonl"), "--against", "recipe 1"])


def test_where_it_helps_counts_what_was_corrected_and_spoiled(script, tmp_path):
    labels = np.array([0, 0, 1, 1, 1])
    before, after = np.array([0, 1, 1, 0, 0]), np.array([0, 0, 0, 1, 0])
    scores, confidence = np.array([0.2, 0.6, 0.9, 1.4, 3.0]), np.array([0.995, 0.6, 0.8, 0.4, 1.0])
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    line = {**study_line(1, "a"), "run": "x", "method": "vae"}
    (tmp_path / "records.jsonl").write_text(json.dumps(line) + "\n")
    write_artifact(
        artifact_path(tmp_path, "x"),
        {
            "labels": labels,
            "predicted": after,
            "predicted_before": before,
            "probabilities_before": probabilities,
            "off_manifold": scores,
        },
    )
    script("where_it_helps").main([str(tmp_path), "--out", str(tmp_path / "w.json")])
    rows = {(row["by"], row["where"]): row for row in result(tmp_path / "w.json")["rows"]}
    counts = ("images", "changed", "corrected", "spoiled")
    assert [rows["all", ""][name] for name in counts] == [5, 3, 2, 1]
    assert rows["all", ""]["accuracy_before"] == pytest.approx(40)
    assert rows["all", ""]["gain"] == pytest.approx(20)
    assert [rows["off-manifold", "1.25 to 1.5"][name] for name in counts] == [1, 1, 1, 0]
    assert ("off-manifold", "1.5 to 2") not in rows
    assert [rows["confidence", "0.99 to 1"][name] for name in counts] == [2, 0, 0, 0]
    # Below a score of 1 the second image is still corrected, and the third spoiled.
    assert [rows["trusted below off-manifold", "1"][name] for name in counts] == [3, 2, 1, 1]
    assert rows["trusted below off-manifold", "1"]["gain"] == pytest.approx(0)
    assert rows["trusted below confidence", "0.7"]["gain"] == pytest.approx(40)
    # Of left-out sources the same model says something else than of targets.
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write(json.dumps({**line, "protocol": "leave-two-domains-out"}) + "\n")
    with pytest.raises(SystemExit, match=r"several protocols \(.*leave-two-domains-out.*name folders of one suite"):
        script("where_it_helps").main([str(tmp_path)])


def test_without_answers_of_a_projection_it_says_what_is_needed(script, tmp_path):
    (tmp_path / "records.jsonl").write_text(json.dumps(study_line(1, "a")) + "\n")
    with pytest.raises(SystemExit, match="run a projecting method, such as vae"):
        script("where_it_helps").main([str(tmp_path)])


def test_answers_of_several_networks_are_averaged(script, tmp_path):
    labels = np.array([0, 0, 1, 1])
    sure_of_zero = {"one": [0.9, 0.4, 0.3, 0.6], "two": [0.4, 0.9, 0.1, 0.2]}
    for folder, sure in sure_of_zero.items():
        line = {**study_line(1, "a"), "run": folder, "method": "vae"}
        failed = {**line, "run": "f", "seed": 5, "status": "failed", "accuracy": None}
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "records.jsonl").write_text(f"{json.dumps(line)}\n{json.dumps(failed)}\n")
        probabilities = np.array([[value, 1 - value] for value in sure], np.float16)
        write_artifact(artifact_path(tmp_path / folder, folder), {"labels": labels, "probabilities": probabilities})
    folders = [str(tmp_path / folder) for folder in sure_of_zero]
    script("ensembles").main([*folders, "--out", str(tmp_path / "e.json")])
    (row,) = result(tmp_path / "e.json")["rows"]
    assert (row["method"], row["networks"]) == ("vae", "2")
    assert row["a"] == row["mean"] == pytest.approx(60)  # as the records say
    assert row["a_together"] == row["mean_together"] == 100
    other = {**study_line(1, "b"), "run": "one", "method": "vae"}
    more = {**study_line(1, "b"), "run": "one", "method": "nearest"}
    with (tmp_path / "one" / "records.jsonl").open("a") as file:
        file.write(f"{json.dumps(other)}\n{json.dumps(more)}\n")
    script("ensembles").main([*folders, "--out", str(tmp_path / "e.json")])
    nearest, vae = result(tmp_path / "e.json")["rows"]
    assert (vae["networks"], vae["b_together"], vae["a"]) == ("1 to 2", 50, pytest.approx(60))
    assert (nearest["networks"], nearest["b_together"], nearest["a"], nearest["a_together"]) == ("1", 50, None, None)
    write_artifact(
        artifact_path(tmp_path / "two", "two"), {"labels": 1 - labels, "probabilities": np.zeros((4, 2), np.float16)}
    )
    with pytest.raises(SystemExit, match="different images"):
        script("ensembles").main(folders)
    with (tmp_path / "one" / "records.jsonl").open("a") as file:
        file.write(json.dumps({**other, "seed": 1, "changes": "features.epochs=9"}) + "\n")
    with pytest.raises(SystemExit, match=r"one has vae on b in several ways .*features\.epochs=9"):
        script("ensembles").main(folders)


def test_without_answers_there_is_nothing_to_average(script, tmp_path):
    (tmp_path / "records.jsonl").write_text(json.dumps(study_line(1, "a")) + "\n")
    with pytest.raises(SystemExit, match="kept its answers"):
        script("ensembles").main([str(tmp_path)])


def test_the_error_of_an_estimate_is_its_distance_to_the_truth(script):
    check_error = script("check_error")
    case = {"data": "made up", "size": 5, "seed": 0}
    cases = [
        {**case, "target": "a", "truth": 80.0, "low": 70.0, "high": 85.0, "naive": 90.0},
        {**case, "target": "b", "truth": 60.0, "low": 70.0, "high": 85.0, "naive": 55.0},
    ]
    found = check_error.summary("made up", 5, cases)
    assert found == {"data": "made up", "images": 5, "cases": 2, "accuracy": 70.0, "naive": 7.5, "inside": 50}


def test_a_few_of_each_class_and_domain_are_drawn(script, digits):
    check_error = script("check_error")
    found = check_error.few_of_each(digits, 3, seed=1)
    assert len(found) == 3 * 10 * 4
    cells = np.stack([found.domains, found.labels], axis=1)
    assert (np.unique(cells, axis=0, return_counts=True)[1] == 3).all()
