"""The pages of the site: length, code, commands and figures, against the package and the records."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import lzma
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from forgetting import forgetting
from homefold import Homefold, list_presets, preset_config
from homefold.cli import main
from homefold.cli.app import COMMANDS
from homefold.cli.settings import list_settings
from test_public_contract import PUBLIC

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
README = (ROOT / "README.md").read_text("utf-8")
# Their code is run by tests of what they explain.
RUN_ELSEWHERE = {"adding-a-method.md", "adding-a-test-time-method.md", "figures.md"}
# No example of a few lines says more than their docstring: what somebody derives from, is handed, or gets back.
WITHOUT_EXAMPLE = {
    *("Answers", "Batch", "ClassifierNetwork", "PaperMethod", "ImageSet", "Learner", "LearnerMethod", "Method"),
    *("MethodInfo", "ParameterGroup", "TaskKey", "TestTimeMethod", "TrainedLearner", "TrainedMethod", "TrainingImages"),
    *("TrainingTask", "FeatureReport", "TrainedFeatures", "Manifold", "ManifoldReport", "GAN", "NearestNeighbour"),
    *("BadImageError", "ImageCache", "StyleModel", "__version__", "download_dataset", "register_dataset"),
    *("method_named", "register_method", "register_test_time_method", "manifold_named", "backbone_named"),
    "require_channels",
    *("Pulled", "Pushed", "pull_model", "push_model"),  # docs/hub.md shows them; they need a Hub
}


def loaded(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def prose(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_no_page_is_longer_than_ten_minutes(page):
    assert len(page.read_text("utf-8").split()) <= 1000


def test_the_readme_is_short():
    assert len(README.split()) <= 650


@pytest.fixture(scope="module")
def a_model(twelve_each):
    settings = {"features.epochs": 1, "manifold.epochs": 5, "look.textures": 0}
    return Homefold(preset_config("small", settings), device="cpu").fit(twelve_each, holdout="street")


@pytest.fixture
def place(tmp_path, monkeypatch, few_digits, a_model, few_of_digits_mini):
    """A folder with what pages speak of: photos/, new-images/, model, and the project's own study/ and examples/."""
    for i in range(0, len(few_digits), 4):
        domain = {"scan": "photo", "print": "art", "photo": "sketch"}.get(
            few_digits.domain_names[few_digits.domains[i]]
        )
        folder = tmp_path / "photos" / domain / few_digits.class_names[few_digits.labels[i]] if domain else None
        folder = folder or tmp_path / "new-images"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(few_digits.images[i]).resize((32, 32)).save(folder / f"{i}.png")
    for name in ("study", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    a_model.save(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    quick = {"features.epochs": 1, "manifold.epochs": 5}
    monkeypatch.setattr("homefold.model.preset_config", lambda name: preset_config(name, quick))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page, "python") and page.name not in RUN_ELSEWHERE],
    ids=lambda page: str(page.relative_to(DOCS)),
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, place, capsys):
    if page.name == "report.md":
        records = lzma.decompress((ROOT / "study" / "records" / "pacs.jsonl.xz").read_bytes())
        (place / "runs").mkdir()
        (place / "runs" / "records.jsonl").write_bytes(b"".join(records.splitlines(keepends=True)[:8]))
    scope = {"__name__": "page"}
    with forgetting():
        for code in blocks(page, "python"):
            exec(compile(code, str(page), "exec"), scope)
    assert "print(" not in "".join(blocks(page, "python")) or capsys.readouterr().out


def joined(shown: str) -> str:
    """Commands of several lines as one line each."""
    return re.sub(r"\\\n\s*", " ", shown)


def help_of(words: list[str]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main([*words, "--help"])
    return printed.getvalue()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_exist_with_their_flags(page):
    shown = "".join(block for language in ("console", "bash") for block in blocks(page, language))
    settings = {setting.name for setting in list_settings()}
    for line in re.findall(r"^(?:\$ )?(?:torchrun \S+ \d+ -m )?(homefold [a-z].*)$", joined(shown), re.MULTILINE):
        _, *words = shlex.split(line.replace("…", ""), comments=True)
        assert words[0] in COMMANDS, line
        inner = getattr(importlib.import_module(COMMANDS[words[0]].module), "COMMANDS", {})
        command = words[:2] if inner and words[1] in inner else words[:1]
        known = help_of(command)
        for flag in (word for word in words if word.startswith("--")):
            name = flag[2:].replace("-", "_").replace(".no_", ".")
            assert flag in known or name in settings, f"{line}: {flag}"


def test_settings_that_pages_name_exist():
    parts = {setting.name.partition(".")[0] for setting in list_settings() if "." in setting.name}
    known = {setting.name for setting in list_settings()} | {
        setting.name.rpartition(".")[0] for setting in list_settings()
    }
    for page in PAGES:
        for name in re.findall(rf"`({'|'.join(parts)})\.([a-z_.]+)(?==|`)", prose(page.read_text("utf-8"))):
            assert ".".join(name) in known or name[1] == "safetensors", f"{page.name}: {'.'.join(name)}"


def test_generated_parts_hold_everything():
    written = loaded(DOCS / "_ext" / "written_from_code.py")
    settings = written.fill((DOCS / "settings.md").read_text("utf-8"))
    for setting in list_settings():
        assert f"\n`{setting.name}`\n: " in settings
    for preset in list_presets():
        assert f"`{preset}`" in settings
    commands = written.fill((DOCS / "commands.md").read_text("utf-8"))
    for name in COMMANDS:
        assert f"\n## homefold {name}\n" in commands
    assert "\n### homefold data verify\n" in commands
    assert "$ homefold fit DATA --out MODEL" in commands
    assert "\n`--holdout DOMAIN …`\n: Domains to leave out: their images are not even opened." in commands


def test_a_page_that_is_not_there_is_left_out(tmp_path):
    (tmp_path / "serving.md").write_text("# Serving\n")
    written = loaded(DOCS / "_ext" / "written_from_code.py")
    assert written.without_absent("export\nserv*?\nhub*?\nrobustness\n", tmp_path) == "export\nserv*\nrobustness\n"


def test_every_public_name_is_in_the_reference_and_has_an_example():
    packages = {page.stem: page.read_text("utf-8") for page in (DOCS / "api").glob("*.md") if page.stem != "index"}
    examples = "\n".join(code for page in PAGES for code in blocks(page, "python"))
    assert {"homefold" if stem == "homefold" else f"homefold.{stem}" for stem in packages} >= set(PUBLIC)
    for stem, text in packages.items():
        module = importlib.import_module("homefold" if stem == "homefold" else f"homefold.{stem}")
        assert f".. automodule:: {module.__name__}\n" in text
        if stem in ("errors", "config"):
            continue
        for name in module.__all__:
            has = ">>>" in (getattr(module, name).__doc__ or "") or re.search(rf"\b{name}\b", examples)
            assert has or name in WITHOUT_EXAMPLE, f"{module.__name__}.{name}"
        for name in re.findall(r"\[`(\w+)`\]\((\w+)\.md\)", text):
            assert name[0] not in re.search(r"exclude-members: (.*)|$", packages[name[1]]).group(0)


PICTURES = {"homecoming.png", "similarity.png", "manifold.png"}


def test_pictures_are_small_and_say_what_their_captions_say():
    assert {path.name for path in (DOCS / "_static").glob("*.png")} == PICTURES
    assert all((DOCS / "_static" / name).stat().st_size < 200 * 1024 for name in PICTURES)
    facts = json.loads(Image.open(DOCS / "_static" / "homecoming.png").text["facts"])
    said = "Of {images} such images, projection corrects {corrected} and spoils {spoiled}."
    assert said.format(**facts) in README.replace("\n", " ")


@pytest.mark.slow
def test_pictures_can_be_made_again(tmp_path, twelve_each, few_of_digits_mini):
    facts = loaded(DOCS / "make_pictures.py").main(["--epochs", "1", "--out", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == PICTURES
    assert facts["homecoming"]["images"] == len(twelve_each.only("street"))
    assert facts["similarity"]["after_training"] > facts["similarity"]["before_training"]


def test_figures_with_an_error_stand_in_the_study():
    studied = " ".join(page.read_text("utf-8") for page in (ROOT / "study").glob("*.md"))
    for page in [ROOT / "README.md", *PAGES]:
        for figure in re.findall(r"[+−]?\d+\.\d ± \d+\.\d(?!\d)", prose(page.read_text("utf-8"))):
            assert figure in studied or figure.lstrip("+") in studied, f"{page.name}: {figure}"
