"""Tables in the paper's shape, with every figure against hand computation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import METHODS, PACS, every_suite, pacs_records, record, write_runs

from homefold.report.names import control_of
from homefold.report.runs import read_runs
from homefold.report.tables import build_tables
from homefold.report.tables.published import published_table
from homefold.report.tables.table import Cell, Row, Table


def tables_of(folder: Path, records: list[dict[str, Any]]) -> dict[str, Table]:
    """All tables but those of costs, which have tests of their own."""
    tables = build_tables(read_runs(write_runs(folder, records)))
    return {table.name: table for table in tables if table.suite != "cost"}


def row_of(table: Table, label: str) -> Row:
    (row,) = [row for row in table.rows if row.label.startswith(label)]
    return row


def cell_of(table: Table, label: str, column: str) -> Cell:
    return row_of(table, label).cells[table.columns.index(column)]


def test_a_figure_its_interval_its_test_and_the_papers(tmp_path: Path) -> None:
    accuracies = {"without-projection": (0.80, 0.81, 0.82), "vae": (0.81, 0.84, 0.84)}
    records = [record(method=m, seed=s, accuracy=a) for m, values in accuracies.items() for s, a in enumerate(values)]
    (table,) = tables_of(tmp_path, records).values()
    cell = cell_of(table, "Full method, VAE", "sketch")
    assert cell.summary is not None
    assert cell.summary.mean == pytest.approx(83.0)
    assert cell.summary.std == pytest.approx(math.sqrt(3))
    assert cell.comparison is not None
    # differences 1, 3, 2
    assert cell.comparison.difference == pytest.approx(2.0)
    t = 2 * math.sqrt(3)
    assert cell.comparison.p == pytest.approx(1 - t / math.sqrt(t * t + 2))
    assert cell.published is not None
    assert (cell.published.mean, cell.published.std) == (81.79, 0.1)
    assert cell.main == "83.00 ± 1.73"
    assert dict(cell.notes) == {
        "interval": "[78.70, 87.30]",
        "control": "Δ +2.00, p = 0.074",
        "paper": "paper 81.79 (+1.21)",
    }
    assert row_of(table, "Full method, VAE").control == "w/o G_φ"
    assert not any(cell.best for row in table.rows for cell in row.cells)


def test_the_average_is_taken_over_targets_for_each_seed(tmp_path: Path) -> None:
    values = {("sketch", 0): 0.7, ("photo", 0): 0.9, ("sketch", 1): 0.8, ("photo", 1): 0.9}
    records = [record(target=target, seed=seed, accuracy=a) for (target, seed), a in values.items()]
    (table,) = tables_of(tmp_path, records).values()
    cell = cell_of(table, "Full method", "Avg.")
    assert cell.summary is not None
    assert cell.summary.mean == pytest.approx(82.5)
    # averages 80 and 85
    assert cell.summary.std == pytest.approx(5 / math.sqrt(2))
    assert cell.published is not None
    assert cell.published.mean == pytest.approx((81.79 + 97.15) / 2)


def test_pacs_stands_in_the_papers_order_with_its_other_methods_below(tmp_path: Path) -> None:
    table = tables_of(tmp_path, pacs_records())["pacs-resnet18-quick"]
    assert table.columns == ("art_painting", "cartoon", "sketch", "photo", "Avg.")
    labels = [row.label for row in table.rows]
    assert labels[0] == "Deep All"
    assert labels[5] == "Full method, VAE"
    assert labels[6:] == ["MMLD (paper)", "EISNet (paper)", "L2A-OT (paper)", "DSON (paper)", "RSC (paper)"]
    rsc = row_of(table, "RSC")
    assert rsc.published
    assert [cell.main for cell in rsc.cells] == ["83.43 ± 0.8", "80.31 ± 1.8", "80.85 ± 1.2", "95.99 ± 0.3", "85.14"]
    assert not any(cell.best for cell in rsc.cells)
    for words in ("leave-one-domain-out", "source-validation", "preset quick", "72 runs", "0–2 (n = 3)"):
        assert words in table.caption


@pytest.mark.parametrize(
    ("dataset", "backbone", "deep_all", "full"),
    [
        ("pacs", "alexnet", 71.20, 78.57),
        ("PACS", "resnet18", 79.30, 86.65),
        ("pacs", "ResNet-50", 81.145, 90.1525),
        ("vlcs", "alexnet", 72.38, 77.53),
        ("office-home", "resnet18", 60.27, 68.565),
        ("digits_dg", "digits", 73.665, 80.305),
    ],
)
def test_the_papers_averages_are_found(dataset: str, backbone: str, deep_all: float, full: float) -> None:
    table = published_table("targets", dataset, backbone)
    assert table is not None
    for method, average in (("deep-all", deep_all), ("vae", full)):
        figures = [table.find(method, "", target) for target in table.targets]
        assert sum(figure.mean for figure in figures if figure) / 4 == pytest.approx(average, abs=0.006)


def test_an_unknown_backbone_of_pacs_has_no_figures_of_the_papers() -> None:
    assert published_table("targets", "pacs", "resnet101") is None
    assert published_table("targets", "digits-mini", "digits") is None


def test_no_cell_is_empty_failed_and_missing_runs_are_named(tmp_path: Path) -> None:
    records = pacs_records(3)
    for values in records:
        if (values["method"], values["target"]) == ("gan", "cartoon"):
            values.update(status="failed", accuracy=None, error="the loss became NaN")
        if (values["method"], values["target"], values["seed"]) == ("vae", "photo", 2):
            values.update(status="failed", accuracy=None, error="no memory")
    left = [v for v in records if not (v["method"] == "nearest" and v["target"] == "sketch" and v["seed"] != 1)]
    left = [v for v in left if (v["method"], v["target"]) != ("without-features", "photo")]
    table = tables_of(tmp_path, left)["pacs-resnet18-quick"]
    assert cell_of(table, "Full method, GAN", "cartoon").main == "failed (3 of 3)"
    assert cell_of(table, "Full method, GAN", "Avg.").main == "failed (3 of 3)"
    assert cell_of(table, "w/o f_θ", "photo").main == "missing (3 of 3)"
    assert cell_of(table, "Full method, VAE", "photo").notes[0] == ("gaps", "failed (1 of 3)")
    nearest = cell_of(table, "1-NN in place of G_φ", "sketch")
    assert nearest.summary is not None
    assert (nearest.summary.n, nearest.missing, dict(nearest.notes)["gaps"]) == (1, 2, "missing (2 of 3)")
    assert all(cell.main for row in table.rows for cell in row.cells)
    assert "4 failed" in table.caption


def test_oracle_selection_is_a_table_of_its_own_and_marked_in_every_row(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, pacs_records(2) + pacs_records(2, selection="oracle"))
    assert set(tables) == {"pacs-resnet18-quick", "pacs-resnet18-quick-oracle"}
    oracle = tables["pacs-resnet18-quick-oracle"]
    assert oracle.oracle
    assert "oracle" in oracle.title
    assert "selected on the target itself" in oracle.caption
    assert all(row.label.endswith("†") for row in oracle.rows if not row.published)
    assert not any("†" in row.label for row in tables["pacs-resnet18-quick"].rows)


def test_every_suite_has_its_table_in_the_papers_shape(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, every_suite())
    few = tables["few-shot-digits-quick"]
    assert few.columns == ("usps->mnist", "mnist->svhn", "svhn->mnist", "Avg.")
    ours = cell_of(few, "Full method, VAE, 7 per class", "mnist->svhn").published
    assert ours is not None
    assert ours.mean == 58.92
    assert cell_of(few, "FADA, 7 per class (paper)", "Avg.").main == "75.23"
    single = tables["single-source-pacs-sketch-resnet18-quick"]
    assert single.columns == ("photo", "cartoon", "art_painting", "Avg.")
    printed = cell_of(single, "w/o G_φ", "cartoon").published
    assert printed is not None
    assert printed.mean == 37.94
    assert not any(
        cell.published for row in tables["single-source-pacs-photo-resnet18-quick"].rows for cell in row.cells
    )
    severity = tables["cifar10-c-wrn-16-4-quick"]
    assert severity.columns == tuple(f"Level {level}" for level in range(1, 6))
    erm = cell_of(severity, "Deep All", "Level 5").published
    assert erm is not None
    assert erm.mean == 56.1
    gan = cell_of(tables["samplers-vlcs-alexnet-quick"], "Full method, GAN", "sun").published
    assert gan is not None
    assert gan.mean == 70.28
    scarce = tables["scarce-pacs-resnet18-quick"]
    assert scarce.rows[0].label == "Deep All, 20 % of each source"
    assert not any(cell.published for row in scarce.rows for cell in row.cells)
    stopping = tables["stopping-pacs-resnet18-quick"]
    assert stopping.columns == tuple(
        f"ε = {epsilon}".replace("-", "−") for epsilon in (-200, -100, -50, -20, -10, 0, 10, 20, 50, 100, 200)
    )


def test_the_table_of_iteration_rates_has_mean_stops_beside_the_papers(tmp_path: Path) -> None:
    table = tables_of(tmp_path, every_suite())["beta-pacs-resnet18-quick"]
    assert table.columns == ("Mean n*", "M", "sketch")
    assert [row.label for row in table.rows] == ["0.05", "0.01", "0.005", "0.001"]
    stop = cell_of(table, "0.05", "Mean n*")
    assert (stop.main, stop.against_paper) == ("470 ± 1", "paper 465 (+6)")  # 470 and 471 over two seeds
    assert cell_of(table, "0.01", "M").main == "20000"
    accuracy = cell_of(table, "0.001", "sketch").published
    assert accuracy is not None
    assert accuracy.mean == 81.56


def test_a_severity_counts_only_with_every_type_of_corruption(tmp_path: Path) -> None:
    def corrupted(seed: int, corruption: str, accuracy: float) -> dict[str, Any]:
        facts = {"corruption": corruption, "severity": 1}
        return record(
            suite="cifar10-c", dataset="cifar10-c", seed=seed, target=corruption, accuracy=accuracy, facts=facts
        )

    records = [corrupted(0, "fog", 0.8), corrupted(0, "blur", 0.6), corrupted(1, "fog", 0.9)]
    (table,) = tables_of(tmp_path, records).values()
    cell = cell_of(table, "Full method", "Level 1")
    assert cell.summary is not None
    assert (cell.summary.mean, cell.summary.n) == (pytest.approx(70.0), 1)
    assert cell.gaps == "missing (1 of 2)"


def test_any_other_suite_gets_methods_against_targets(tmp_path: Path) -> None:
    records = [
        record(suite="hospitals", dataset="x-rays", backbone="vit", protocol="mine", method=m, target=t, accuracy=0.5)
        for m in ("brand-new", "deep-all")
        for t in ("north", "south")
    ]
    (table,) = tables_of(tmp_path, records).values()
    assert [row.label for row in table.rows] == ["Deep All", "brand-new"]
    assert table.columns == ("north", "south", "Avg.")
    assert "one seed, so no spread, no test, and nothing in bold" in table.caption
    assert not any(cell.best for row in table.rows for cell in row.cells)


def test_methods_by_other_names_meet_their_printed_figures(tmp_path: Path) -> None:
    (table,) = tables_of(tmp_path, [record(method="m_m_l_d", target="art"), record(target="art")]).values()
    cell = cell_of(table, "m_m_l_d", "art")
    assert cell.published is not None
    assert cell.published.mean == 81.28
    assert not any(row.label.startswith("MMLD") for row in table.rows)


def test_the_paper_is_not_compared_with_another_protocol(tmp_path: Path) -> None:
    (table,) = tables_of(tmp_path, [record(protocol="scarce-20", method=m) for m in METHODS[:2]]).values()
    assert not any(cell.published for row in table.rows for cell in row.cells)
    assert set(table.columns) <= {*PACS, "Avg."}


@pytest.mark.parametrize(
    ("method", "dataset", "backbone", "target", "shown", "mean"),
    [
        ("ccsa", "digits-dg", "digits", "mnist", "CCSA", 95.20),
        ("mmd-aae", "office-home", "resnet18", "art", "MMD-AAE", 56.50),
        ("crossgrad", "digits-dg", "digits", "svhn", "CrossGrad", 65.30),
        ("jigen", "vlcs", "alexnet", "sun09", "JiGen", 64.30),
        ("rsc", "pacs", "resnet18", "art_painting", "RSC", 83.43),
        ("d-sam", "office-home", "resnet18", "clipart", "D-SAM", 44.37),
        ("mmld", "pacs", "alexnet", "photo", "MMLD", 88.98),
        ("masf", "pacs", "resnet50", "cartoon", "MASF", 80.49),
        ("eisnet", "vlcs", "alexnet", "pascal", "EISNet", 69.83),
        ("dson", "office-home", "resnet18", "clipart", "DSON", 45.70),
        ("l2a-ot", "digits-dg", "digits", "svhn", "L2A-OT", 68.60),
    ],
)
def test_methods_of_others_stand_beside_their_own_printed_figures(
    tmp_path: Path, method: str, dataset: str, backbone: str, target: str, shown: str, mean: float
) -> None:
    records = [record(suite=dataset, dataset=dataset, backbone=backbone, target=target, method=method)]
    (table,) = tables_of(tmp_path, records).values()
    cell = cell_of(table, shown, target)
    assert cell.published is not None
    assert cell.published.mean == mean
    assert not any(row.published and row.label.lower().startswith(shown.lower()) for row in table.rows)


@pytest.mark.parametrize(
    ("kind", "dataset", "method", "setting", "target", "mean"),
    [
        ("few-shot", "digits-few-shot", "fada", "7", "mnist->svhn", 47.00),
        ("few-shot", "digits-few-shot", "m-ada", "10", "svhn->mnist", 91.81),
        ("severity", "cifar10-c", "m-ada", "", "5", 65.6),
    ],
)
def test_few_shot_and_corruptions_have_the_figures_of_others_too(
    kind: str, dataset: str, method: str, setting: str, target: str, mean: float
) -> None:
    table = published_table(kind, dataset)
    assert table is not None
    figure = table.find(method, setting, target)
    assert figure is not None
    assert figure.mean == mean


@pytest.mark.parametrize("method", ["ddaig", "t3a", "tent", "ttt", "shot-im", "memo", "tent+vae", "t3a+rsc"])
def test_a_method_that_the_paper_does_not_print_stands_beside_nothing(method: str) -> None:
    for dataset, backbone in (("pacs", "resnet18"), ("vlcs", "alexnet"), ("office-home", "resnet18")):
        table = published_table("targets", dataset, backbone)
        assert table is not None
        assert table.printed_method(method) is None


def test_a_test_time_method_is_compared_with_what_it_wraps(tmp_path: Path) -> None:
    records = [record(method=m, accuracy=a) for m, a in (("deep-all", 0.7), ("vae", 0.8), ("tent+vae", 0.81))]
    (table,) = tables_of(tmp_path, records).values()
    row = row_of(table, "Tent on Full method, VAE")
    assert row.control == "VAE"
    assert row.cells[0].comparison is not None
    assert row.cells[0].comparison.difference == pytest.approx(1.0)


@pytest.mark.parametrize(("views", "control"), [(1, "Deep All"), (8, "")])
def test_what_looks_more_often_is_no_control(tmp_path: Path, views: int, control: str) -> None:
    looks = {"deep-all": {"views": views, "textures": 0}, "tent": {"views": 1, "textures": 0, "tints": 0}}
    records = [record(method=method, accuracy=0.7, config={"projection": seen}) for method, seen in looks.items()]
    (table,) = tables_of(tmp_path, records).values()
    assert row_of(table, "Tent").control == control
    assert (row_of(table, "Tent").cells[0].comparison is None) == (control == "")


def test_variants_of_a_method_are_rows_of_their_own_beside_their_controls(tmp_path: Path) -> None:
    accuracies = {
        "vae:projection.views=2,features.epochs=9": 0.85,
        "vae:projection.steps=9": 0.82,
        "vae": 0.8,
        "without-projection": 0.79,
        "without-projection:projection.views=2,features.epochs=9": 0.84,
        "deep-all": 0.7,
        "rsc:features.epochs=9": 0.75,
    }
    (table,) = tables_of(tmp_path, [record(method=m, accuracy=a) for m, a in accuracies.items()]).values()
    ours = [(row.label, row.control, row.cells[0].main) for row in table.rows if not row.published]
    plain, changed = "w/o G_φ", "w/o G_φ (projection.views=2, features.epochs=9)"
    assert ours == [
        ("Deep All", "", "70.00"),
        ("RSC (features.epochs=9)", "Deep All", "75.00"),
        ("w/o G_φ (no projection)", "Deep All", "79.00"),
        ("w/o G_φ (no projection) (projection.views=2, features.epochs=9)", "Deep All", "84.00"),
        ("Full method, VAE", plain, "80.00"),
        ("Full method, VAE (projection.steps=9)", plain, "82.00"),
        ("Full method, VAE (projection.views=2, features.epochs=9)", changed, "85.00"),
    ]


@pytest.mark.parametrize(
    ("settings", "of_control"),
    [
        ("projection.views=4,projection.steps=9", "projection.views=4"),
        ("projection.textures=4,projection.steps=9", "projection.textures=4"),
        ("projection.tints=4,projection.steps=9", "projection.tints=4"),
        (
            "projection.views=6,projection.mirror=false,manifold.latent_dim=8",
            "projection.views=6,projection.mirror=false",
        ),
        ("manifold.hidden=[64,64],features.epochs=9", "features.epochs=9"),
        ("style.blocks=early,projection.views=4,style.manifold=domains", "projection.views=4"),
        ("features.augmentation.colour=[0.1,0.2],projection.rate=0.1", "features.augmentation.colour=[0.1,0.2]"),
    ],
)
def test_the_control_of_a_variant_sees_the_images_as_it_does(settings: str, of_control: str) -> None:
    control = f"without-projection:{of_control}"
    present = ["deep-all", "without-projection", "without-projection:64]", control]
    assert control_of(f"vae:{settings}", present) == control


@pytest.mark.parametrize(
    "settings", ["features.epochs=9", "projection.views=4,projection.steps=9", "classifier.epochs=2"]
)
def test_features_that_were_made_in_another_way_are_no_control(settings: str) -> None:
    assert control_of(f"vae:{settings}", ["without-projection", "deep-all", "vae"]) == "deep-all"
    assert control_of(f"vae:{settings}", ["without-projection", "vae"]) is None


def test_styles_belong_to_the_projection_that_a_control_lacks() -> None:
    styled = "style.blocks=block1/block2,style.weight=0.5"
    present = [f"without-projection:{styled}", "without-projection", "deep-all"]
    assert control_of(f"vae:{styled}", present) == "without-projection"


def test_runs_with_changed_settings_never_share_a_table_with_the_others(tmp_path: Path) -> None:
    records = [record(accuracy=0.7), record(accuracy=0.9, changes="features.epochs=60")]
    tables = tables_of(tmp_path, records)
    assert {name: table.rows[0].cells[0].main for name, table in tables.items()} == {
        "pacs-resnet18-quick": "70.00",
        "pacs-resnet18-quick-features-epochs-60": "90.00",
    }
    assert tables["pacs-resnet18-quick-features-epochs-60"].title == "pacs · resnet18 · quick · features.epochs=60"
    assert "preset quick; with features.epochs=60;" in tables["pacs-resnet18-quick-features-epochs-60"].caption


def test_another_selection_rule_stands_in_the_title(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [record(), record(selection="last")])
    assert {name: table.title for name, table in tables.items()} == {
        "pacs-resnet18-quick": "pacs · resnet18 · quick",
        "pacs-resnet18-quick-last": "pacs · resnet18 · quick · selection last",
    }


def test_an_interval_ends_where_accuracies_do(tmp_path: Path) -> None:
    records = [record(method=m, seed=s, accuracy=a) for m, values in (("vae", (0.98, 1.0)), ("gan", (0.0, 0.02)))
               for s, a in enumerate(values)]  # fmt: skip
    (table,) = tables_of(tmp_path, records).values()
    assert cell_of(table, "Full method, VAE", "sketch").interval == "[86.29, 100.00]"
    assert cell_of(table, "Full method, GAN", "sketch").interval == "[0.00, 13.71]"
