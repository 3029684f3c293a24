"""`homefold fit`: what it writes, what it refuses before any work, and how it goes on after a stop."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from scene import QUICK, Homefold, content

from homefold import list_presets
from homefold.cli import main
from homefold.cli.fit import read_options
from homefold.cli.given_settings import SHORT_NAMES
from homefold.config import preset_config
from homefold.model import Homefold as Model


@pytest.mark.slow
def test_a_fit_writes_a_model_and_says_what_to_type_next(
    homefold: Homefold, shared_photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "my model"
    ended = homefold("fit", shared_photos, "--out", out, "--holdout", "night", *QUICK)
    assert ended.code == 0
    assert "% of 4 held-out source images" in ended.out
    assert "36 images of day, dusk" in ended.out
    assert f"  homefold evaluate '{out}' {shared_photos} --domain night\n" in ended.out
    assert f"  homefold predict '{out}' IMAGES…\n" in ended.out
    assert Model.load(out, device="cpu").source_domains == ("day", "dusk")
    assert [path.name for path in out.parent.iterdir()] == ["my model"]


@pytest.mark.slow
def test_json_is_one_object_and_all_else_goes_to_standard_error(
    homefold: Homefold, shared_photos: Path, tmp_path: Path
) -> None:
    ended = homefold(
        "fit", shared_photos, "--out", tmp_path / "m", "--holdout", "day", "--holdout", "night", *QUICK, "--json"
    )
    summary = ended.json
    assert summary["source_domains"] == ["dusk"]
    assert summary["held_out_domains"] == ["day", "night"]
    assert summary["class_names"] == ["across", "upright"]
    assert summary["images"] == {"trained_on": 18, "held_out": 2, "skipped": []}
    assert 0 <= summary["held_out_accuracy"] <= 1
    assert summary["size_bytes"] == sum(file.stat().st_size for file in (tmp_path / "m").iterdir())
    assert "One source domain only" in ended.err
    assert "Features" in ended.err


def test_an_existing_model_is_refused_before_any_work(homefold: Homefold, photos: Path, model: Path) -> None:
    before = content(model)
    ended = homefold("fit", photos, "--out", model, *QUICK)
    assert (ended.code, ended.out) == (1, "")
    assert ended.error == f"{model} holds a model already; choose another --out, or add --overwrite to replace it."
    assert "decoding" not in ended.err
    assert content(model) == before


@pytest.mark.slow
def test_overwrite_replaces_a_model(homefold: Homefold, shared_photos: Path, model: Path) -> None:
    ended = homefold("fit", shared_photos, "--out", model, "--holdout", "day", "--overwrite", *QUICK)
    assert ended.code == 0
    assert Model.load(model, device="cpu").source_domains == ("dusk", "night")


@pytest.mark.parametrize("extra", [[], ["--overwrite"]])
def test_what_is_no_model_is_never_overwritten(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, extra: list[str]
) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "config.json").write_text('{"format": "something else"}')
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for out in (folder, file):
        ended = homefold("fit", shared_photos, "--out", out, *QUICK, *extra)
        assert ended.code == 1
        assert ended.error.startswith(f"{out} exists and is not a homefold model")
    assert content(tmp_path) == {"thesis/config.json": b'{"format": "something else"}', "notes.txt": b"mine"}


@pytest.mark.slow
def test_a_link_to_a_model_stays_a_link(homefold: Homefold, shared_photos: Path, model: Path) -> None:
    link = model.with_name("link")
    link.symlink_to(model)
    assert homefold("fit", shared_photos, "--out", link, "--holdout", "day", "--overwrite", *QUICK).code == 0
    assert link.is_symlink()
    assert Model.load(model, device="cpu").source_domains == ("dusk", "night")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--holdout", "nihgt"],
            "there is no domain 'nihgt' in {photos}; it has day, dusk, night. Did you mean 'night'?",
        ),
        (["--holdout", "day", "dusk", "night"], "no source domain is left: all domains of {photos} are held out."),
        (["--device", "toaster"], "there is no device 'toaster'"),
        (["--backbone", "resnet17"], "there is no backbone 'resnet17'"),
        (["--weights", "nowhere.pth", "--backbone", "resnet18"], "the weights file nowhere.pth does not exist"),
        (
            ["--features.freeze", "backbone", "--features.mix-style-probability", "0.5"],
            "features.freeze=backbone sees every image once and as it is",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_an_image_is_decoded(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    ended = homefold("fit", shared_photos, "--out", tmp_path / "m", *QUICK, *arguments)
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(expected.format(photos=shared_photos))
    assert "decoding" not in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("flag", [["--features.freeze", "backbone"], ["--features.freeze=backbone"]])
def test_freezing_the_backbone_is_one_flag(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, flag: list[str]
) -> None:
    assert homefold("fit", shared_photos, "--out", tmp_path / "m", *QUICK, *flag).code == 0
    features = Model.load(tmp_path / "m", device="cpu").config.features
    assert (features.freeze, features.augmentation.does_nothing) == ("backbone", True)


def test_missing_imagenet_weights_are_told_before_an_image_is_decoded(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "empty"))
    ended = homefold("fit", shared_photos, "--out", tmp_path / "m", "--device", "cpu")
    assert ended.code == 1
    assert "features.weights to torchvision" in ended.error
    assert "decoding" not in ended.err


def test_data_that_does_not_exist_gets_the_closest_name(homefold: Homefold, tmp_path: Path) -> None:
    ended = homefold("fit", "digits-min", "--out", tmp_path / "m", *QUICK)
    assert ended.code == 1
    assert "There is no dataset and no folder 'digits-min'" in ended.error
    assert "Did you mean digits-mini?" in ended.error


def test_a_place_that_cannot_be_written_to_is_refused_before_an_image_is_decoded(
    homefold: Homefold, shared_photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    ended = homefold("fit", shared_photos, "--out", tmp_path / "file" / "model", *QUICK)
    assert ended.code == 1
    model, file = tmp_path / "file" / "model", tmp_path / "file"
    assert ended.error == f"no model can be written to {model}: {file} is a file."
    assert "decoding" not in ended.err


@pytest.mark.slow
def test_the_images_of_a_held_out_domain_are_not_opened(
    homefold: Homefold, photos: Path, shared_model: Path, tmp_path: Path
) -> None:
    for image in (photos / "night").rglob("*.png"):
        image.write_bytes(b"no image")
    out = tmp_path / "m"
    assert homefold("fit", photos, "--out", out, "--holdout", "night", *QUICK).code == 0
    assert (out / "home.safetensors").read_bytes() == (shared_model / "home.safetensors").read_bytes()


@pytest.mark.slow
def test_a_corrupt_image_is_named_and_skipped_and_counted_on_request(
    homefold: Homefold, photos: Path, tmp_path: Path
) -> None:
    bad = photos / "day" / "across" / "03.png"
    bad.write_bytes(bad.read_bytes()[:60])
    arguments = ["fit", photos, "--out", tmp_path / "m", "--holdout", "night", *QUICK]
    ended = homefold(*arguments)
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(str(bad))
    assert "skip_bad" in ended.error
    assert not (tmp_path / "m.unfinished").exists()

    ended = homefold(*arguments, "--skip-bad", "--json")
    assert ended.code == 0
    assert [path for path, _ in ended.json["images"]["skipped"]] == [str(bad)]
    assert f"left out: {bad} is damaged" in ended.err
    assert "1 left out as unreadable" in homefold("info", tmp_path / "m").out


def test_a_class_whose_name_is_no_text_is_refused_before_an_image_is_decoded(
    homefold: Homefold, photos: Path, tmp_path: Path
) -> None:
    odd = photos / "day" / os.fsdecode(b"caf\xe9")
    (photos / "day" / "across").rename(odd)
    (odd / "00.png").write_bytes(b"decoding this would fail")
    ended = homefold("fit", photos, "--out", tmp_path / "m", *QUICK)
    assert ended.code == 1
    assert f"The class caf\\udce9 in {photos} has a name that is not valid UTF-8" in ended.error
    assert list(tmp_path.iterdir()) == [photos]


@pytest.mark.slow
def test_a_bad_image_whose_name_is_no_text_is_left_out_and_the_model_saved(
    homefold: Homefold, photos: Path, tmp_path: Path
) -> None:
    (photos / "day" / "across" / os.fsdecode(b"caf\xe9.png")).write_bytes(b"no image")
    arguments = ["fit", photos, "--out", tmp_path / "m", "--holdout", "night", *QUICK]
    ended = homefold(*arguments, "--skip-bad", "--json")
    assert ended.code == 0
    assert [path for path, _ in ended.json["images"]["skipped"]] == [f"{photos}/day/across/caf\\udce9.png"]
    assert "1 left out as unreadable" in homefold("info", tmp_path / "m").out


def test_a_setting_out_of_range_is_a_usage_error(homefold: Homefold, shared_photos: Path, tmp_path: Path) -> None:
    ended = homefold("fit", shared_photos, "--out", tmp_path / "m", "--epochs", "0")
    assert (ended.code, ended.out) == (2, "")
    assert "features.epochs must be at least 1; got 0." in ended.err


def test_views_that_a_training_does_not_allow_are_refused_before_an_image_is_read(
    homefold: Homefold, tmp_path: Path
) -> None:
    for domain in ("photo", "art"):
        for label in ("cat", "dog"):
            (tmp_path / "photos" / domain / label).mkdir(parents=True)
            (tmp_path / "photos" / domain / label / "1.png").write_bytes(b"no image")
    asked = ("--preset", "thorough", "--weights", "none", "--features.augmentation.flip-probability", "0")
    ended = homefold("fit", tmp_path / "photos", "--out", tmp_path / "m", *asked)
    assert ended.code == 1
    assert "look.views must be 1 to 6 where nothing is mirrored" in ended.err
    assert "got 8, so set it lower" in ended.err
    assert not (tmp_path / "m").exists()


def test_the_help_says_the_default_of_every_preset(homefold: Homefold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    words = " ".join(homefold("fit", "--help").out.split())
    for short, name in SHORT_NAMES.items():
        said = words.split(f" --{short.replace('_', '-')} VALUE ")[1].split("(default: ")[1].split(")")[0]
        default, *others = said.split("; ")
        of_preset = {
            preset: value for part in others for names, value in [part.split(": ")] for preset in names.split(", ")
        }
        for preset in list_presets():
            value = preset_config(preset)
            for part in name.split("."):
                value = getattr(value, part)
            assert of_preset.get(preset, default) == str(value), (name, preset)


def test_the_last_preset_wins_and_an_unknown_one_is_a_usage_error(homefold: Homefold) -> None:
    assert read_options(["x", "--out", "y", "--preset", "paper", "--preset=small"])[1].preprocessing.image_size == 32
    ended = homefold("fit", "x", "--out", "y", "--preset", "huge")
    assert ended.code == 2
    assert "'huge'" in ended.err


@pytest.mark.parametrize(
    ("words", "backbone", "rate"),
    [
        ([], "resnet18", 0.1),
        (["--backbone", "alexnet"], "alexnet", 0.003),
        (["--features.backbone=alexnet"], "alexnet", 0.003),
        (["--backbone", "alexnet", "--learning-rate", "0.1"], "alexnet", 0.1),
        (["--backbone", "alexnet", "--backbone=resnet50"], "resnet50", 0.1),
        (["--preset", "paper", "--backbone", "alexnet"], "alexnet", 0.001),
    ],
)
def test_a_backbone_brings_the_rate_that_it_needs(words: list[str], backbone: str, rate: float) -> None:
    features = read_options(["x", "--out", "y", *words])[1].features
    assert (features.backbone, features.learning_rate) == (backbone, rate)


def test_the_command_knows_every_preset_of_the_library() -> None:
    for preset in list_presets():
        assert read_options(["x", "--out", "y", "--preset", preset])[0].preset == preset


def test_aliases_and_dotted_names_set_the_same_setting() -> None:
    short = read_options(["x", "--out", "y", "--epochs", "7", "--seed", "3", "--image-size", "64"])[1]
    dotted = ["--features.epochs", "7", "--seed", "3", "--preprocessing.image-size", "64"]
    assert short == read_options(["x", "--out", "y", *dotted])[1]
    assert (short.features.epochs, short.seed, short.preprocessing.image_size) == (7, 3, 64)


@pytest.mark.slow
def test_tensorboard_gets_the_losses_of_every_epoch(homefold: Homefold, shared_photos: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = tmp_path / "board"
    arguments = ["--out", tmp_path / "m", "--holdout", "night", *QUICK, "--tensorboard", board, "--json"]
    ended = homefold("fit", shared_photos, *arguments, "--features.runs", "2")
    events = EventAccumulator(str(board)).Reload()
    history = ended.json["features"]["history"]
    for name in ("loss", "held_out_loss"):
        scalars = events.Scalars(f"features/{name}")
        assert [scalar.step for scalar in scalars] == [1, 2, 3, 4, 5, 6]
        assert [scalar.value for scalar in scalars] == pytest.approx([epoch[name] for epoch in history])


def test_tensorboard_without_its_package_is_a_sentence(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    ended = homefold("fit", shared_photos, "--out", tmp_path / "m", *QUICK, "--tensorboard", tmp_path / "board")
    assert ended.code == 1
    assert ended.error == "--tensorboard needs the tensorboard package: pip install 'homefold[tensorboard]'."


@pytest.mark.slow
def test_a_disk_that_fills_while_saving_leaves_the_old_model_and_the_checkpoint(
    homefold: Homefold, shared_photos: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(model)
    arguments = ["fit", shared_photos, "--out", model, "--holdout", "day", "--overwrite", *QUICK]

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("homefold.store.model_folder.write_tensors", full)
        ended = homefold(*arguments)
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(f"{model} could not be written (")
    assert "No space left on device" in ended.error
    assert ended.error.endswith("Start the same command again to go on.")
    assert content(model) == before
    assert sorted(path.name for path in model.parent.iterdir()) == ["model", "model.unfinished"]

    ended = homefold(*arguments)
    assert ended.code == 0
    assert f"Going on with what was trained before in {model}.unfinished." in ended.err
    assert content(model) != before


@pytest.mark.slow
def test_a_disk_that_fills_during_training_is_a_sentence(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("homefold.store.files.write_tensors", full)
    ended = homefold("fit", shared_photos, "--out", tmp_path / "m", *QUICK)
    assert ended.code == 1
    assert ended.error.startswith(f"{tmp_path / 'm.unfinished'} could not be written (No space left")
    assert ended.error.endswith("No checkpoint was written yet: the same command starts from the beginning.")
    assert list(tmp_path.iterdir()) == []


LONG = [*QUICK, "--epochs", "25", "--features.checkpoint-seconds", "0", "--manifold.kind", "nearest"]


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on_to_the_same_model(
    homefold: Homefold, shared_photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    arguments = ["fit", shared_photos, "--out", out, "--holdout", "night", *LONG]
    process = subprocess.Popen(
        [sys.executable, "-m", "homefold", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell may have it ignored
    )
    folder = tmp_path / "model.unfinished"
    while not list(folder.glob("features-*/checkpoint.safetensors")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout) == (130, "")
    assert stderr.endswith("\nStopped. Start the same command again to go on.\n")
    assert "Traceback" not in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.unfinished"]

    ended = homefold(*arguments)
    assert ended.code == 0
    assert f"Going on with what was trained before in {out}.unfinished.\n" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["model"]

    whole = tmp_path / "never-stopped"
    assert homefold("fit", shared_photos, "--out", whole, "--holdout", "night", *LONG).code == 0
    assert content(out) == content(whole)


@pytest.fixture
def unfinished(homefold: Homefold, shared_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fit that stopped after stage 1, at `tmp_path / "m"`."""

    def stop(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("homefold.stages.manifold.fit_manifold", stop)
        assert homefold("fit", shared_photos, "--out", tmp_path / "m", "--holdout", "night", *QUICK).code == 130
    return tmp_path / "m.unfinished"


@pytest.mark.slow
@pytest.mark.parametrize("change", [("--holdout", "night", "--epochs", "4"), ("--holdout", "day")])
def test_what_other_settings_or_images_began_is_not_gone_on_with(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, unfinished: Path, change: tuple[str, ...]
) -> None:
    ended = homefold("fit", shared_photos, "--out", tmp_path / "m", *QUICK, *change)
    assert ended.code == 0
    assert f"Starting anew: what {unfinished} holds was trained with other settings or images." in ended.err
    whole = tmp_path / "alone"
    assert homefold("fit", shared_photos, "--out", whole, *QUICK, *change).code == 0
    assert content(tmp_path / "m") == content(whole)
    assert not unfinished.exists()


@pytest.mark.slow
def test_stage_1_is_not_trained_again_after_a_stop_in_stage_2(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, unfinished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("stage 1 was finished")

    with monkeypatch.context() as patch:
        patch.setattr("homefold.stages.features.train_features", again)
        assert homefold("fit", shared_photos, "--out", tmp_path / "m", "--holdout", "night", *QUICK).code == 0
    assert homefold("fit", shared_photos, "--out", tmp_path / "whole", "--holdout", "night", *QUICK).code == 0
    assert content(tmp_path / "m") == content(tmp_path / "whole")


@pytest.mark.slow
def test_a_fit_that_stopped_before_its_first_checkpoint_leaves_nothing_in_the_way(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("homefold.stages.features.train_features", stop)
        ended = homefold("fit", shared_photos, "--out", tmp_path / "m", "--holdout", "night", *QUICK)
    assert ended.code == 130
    advice = "No checkpoint was written yet: the same command starts from the beginning."
    assert ended.err.endswith(f"\nStopped. {advice}\n")
    assert list(tmp_path.iterdir()) == []
    # One that was killed could not clean up after itself.
    killed = tmp_path / "m.unfinished"
    killed.mkdir()
    (killed / ".features-0123456789abcdef01234567.lock").touch()
    (killed / "features-0123456789abcdef01234567").mkdir()
    ended = homefold("fit", shared_photos, "--out", tmp_path / "m", "--holdout", "night", *QUICK)
    assert ended.code == 0
    assert "Going on" not in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.fixture(scope="module")
def left_by_a_kill(shared_photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `m` and `m.unfinished`, as a fit leaves them that is killed as soon as its model stands."""
    folder = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("homefold.cli.unfinished.UnfinishedFit.remove", lambda self: None)
        assert main(["fit", str(shared_photos), "--out", str(folder / "m"), "--holdout", "night", *QUICK]) == 0
    assert list((folder / "m.unfinished").glob("*/state.safetensors"))
    return folder


@pytest.fixture
def killed_at_the_end(left_by_a_kill: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The model of a fit that was killed as soon as that stood, and the folder that it left."""
    shutil.copytree(left_by_a_kill, tmp_path, dirs_exist_ok=True)
    return tmp_path / "m", tmp_path / "m.unfinished"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["fit", "PHOTOS", "--out", "MODEL", *QUICK], 1),
        (["predict", "MODEL", "PHOTOS"], 0),
        (["evaluate", "MODEL", "PHOTOS", "--domain", "night"], 0),
        (["info", "MODEL"], 0),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_a_fit_left_that_was_killed_at_its_end_is_deleted_by_the_next_command(
    homefold: Homefold, shared_photos: Path, killed_at_the_end: tuple[Path, Path], words: list[str], code: int
) -> None:
    model, unfinished = killed_at_the_end
    before = content(model)
    places = {"PHOTOS": shared_photos, "MODEL": model}
    assert homefold(*(places.get(word, word) for word in words)).code == code
    assert not unfinished.exists()
    assert content(model) == before


@pytest.mark.slow
def test_a_kill_in_the_midst_of_deleting_is_made_up_for_too(
    homefold: Homefold, killed_at_the_end: tuple[Path, Path]
) -> None:
    model, unfinished = killed_at_the_end
    next(unfinished.glob("features-*/state.safetensors")).unlink()
    assert homefold("info", model).code == 0
    assert not unfinished.exists()
    unfinished.mkdir()
    assert homefold("info", model).code == 0
    assert not unfinished.exists()


@pytest.mark.slow
def test_the_same_fit_again_after_a_kill_at_its_end_goes_on_and_leaves_nothing(
    homefold: Homefold, shared_photos: Path, killed_at_the_end: tuple[Path, Path]
) -> None:
    model, unfinished = killed_at_the_end
    before = content(model)
    ended = homefold("fit", shared_photos, "--out", model, "--holdout", "night", "--overwrite", *QUICK)
    assert (ended.code, content(model)) == (0, before)
    assert f"Going on with what was trained before in {unfinished}." in ended.err
    assert not unfinished.exists()


@pytest.mark.slow
def test_what_leads_to_another_model_or_is_a_persons_is_not_deleted(
    homefold: Homefold, killed_at_the_end: tuple[Path, Path]
) -> None:
    model, unfinished = killed_at_the_end
    leads_to = unfinished / "leads-to.json"
    kept = leads_to.read_text()
    for text in ('{"checksum": "0123"}', '{"checksum": null}', "[]", kept[:-20]):
        leads_to.write_text(text)
        before = content(unfinished)
        assert homefold("info", model).code == 0
        assert content(unfinished) == before
    leads_to.write_text(kept)
    (unfinished / "notes.txt").write_text("mine")
    before = content(unfinished)
    assert homefold("info", model).code == 0
    assert content(unfinished) == before


@pytest.mark.slow
def test_a_fit_that_other_settings_go_on_from_says_no_more_where_the_last_one_led(
    homefold: Homefold,
    shared_photos: Path,
    killed_at_the_end: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    model, unfinished = killed_at_the_end
    with monkeypatch.context() as patch:
        patch.setattr("homefold.stages.manifold.fit_manifold", stop)
        arguments = ["fit", shared_photos, "--out", model, "--overwrite", *QUICK, "--epochs", "4"]
        ended = homefold(*arguments)
    assert ended.code == 130
    assert ended.err.endswith("\nStopped. Start the same command again to go on.\n")
    before = content(unfinished)
    assert homefold("info", model).code == 0
    assert content(unfinished) == before


@pytest.mark.slow
def test_what_a_person_put_beside_the_checkpoints_outlives_the_fit(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, unfinished: Path
) -> None:
    (unfinished / "notes.txt").write_text("stopped for lunch")
    (unfinished / "other.safetensors").write_bytes(b"mine")
    ended = homefold("fit", shared_photos, "--out", tmp_path / "m", "--holdout", "night", *QUICK)
    assert ended.code == 0
    assert content(unfinished) == {"notes.txt": b"stopped for lunch", "other.safetensors": b"mine"}


@pytest.mark.slow
def test_a_second_fit_to_the_same_place_is_refused_while_the_first_runs(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["fit", shared_photos, "--out", tmp_path / "m", "--holdout", "night", *QUICK]
    second: list[Any] = []

    def start_another(*args: Any, **kwargs: Any) -> None:
        command = [sys.executable, "-m", "homefold", *map(str, arguments)]
        second.append(subprocess.run(command, capture_output=True, text=True))
        raise KeyboardInterrupt

    monkeypatch.setattr("homefold.stages.features.train_features", start_another)
    assert homefold(*arguments).code == 130
    (ended,) = second
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"error: another fit is at work in {tmp_path / 'm.unfinished'}: wait" in ended.stderr


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_persons_own_folder_is_not_taken_for_checkpoints(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, kind: str
) -> None:
    own = tmp_path / "m.unfinished"
    if kind == "file":
        own.write_text("chapter one")
    else:
        own.mkdir()
        (own / "novel.txt").write_text("chapter one")
    before = content(tmp_path)
    ended = homefold("fit", shared_photos, "--out", tmp_path / "m", *QUICK)
    assert ended.code == 1
    assert ended.error.startswith(f"{own} is in the way")
    assert content(tmp_path) == before
