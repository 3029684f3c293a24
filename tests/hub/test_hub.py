"""Push and pull against a stand-in for the Hub: what is sent, what is taken, and what never is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stand_in import TOKEN, StandIn, stand_in

from homefold import Homefold, ManifoldProjector
from homefold.cli import main
from homefold.errors import ConfigError, ModelFileError
from homefold.hub import pull_model, push_model
from homefold.hub.card import Measured, hub_card

yaml = pytest.importorskip("yaml", reason="huggingface_hub brings it")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch):
    with stand_in() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield running


@pytest.fixture(scope="module")
def model(fitted: Homefold, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model"
    fitted.save(path)
    return path


def front_matter(card: str) -> dict[str, object]:
    _, matter, _ = card.split("---\n", 2)
    return yaml.safe_load(matter)


def evaluation(path: Path, **rows: dict[str, object]) -> Path:
    domains = [{"domain": name, "images": 72, **row} for name, row in rows.items()]
    path.write_text(json.dumps({"data": "digits/", "domains": domains}))
    return path


@pytest.mark.slow
def test_what_was_pushed_comes_back_and_answers_the_same(hub, model, fitted, few_digits, tmp_path):
    pushed = push_model(model, "me/digits")
    pulled = pull_model("me/digits", tmp_path / "again", revision=pushed.revision)
    assert (pulled.folder, pulled.repository, pulled.revision) == (tmp_path / "again", "me/digits", pushed.revision)
    assert pushed.url == f"{hub.address}/me/digits"
    assert {file.name for file in pulled.folder.iterdir()} == {file.name for file in model.iterdir()}
    again = Homefold.load(pulled.folder, device="cpu")
    assert again.predict(few_digits).probabilities.tobytes() == fitted.predict(few_digits).probabilities.tobytes()


def test_the_card_says_what_the_hub_asks(hub, model, tmp_path):
    measured = [Measured("digits", "street", 72, 0.73611)]
    push_model(model, "me/digits", licence="mit", base_model="timm/resnet18.a1_in1k", measured=measured)
    card = hub.newest("me/digits")["README.md"].decode()
    found = front_matter(card)
    assert found["library_name"] == "homefold"
    assert found["pipeline_tag"] == "image-classification"
    assert {"homefold", "domain-generalization"} <= set(found["tags"])
    assert (found["license"], found["base_model"]) == ("mit", "timm/resnet18.a1_in1k")
    (entry,) = found["model-index"]
    assert entry["name"] == "digits"
    (result,) = entry["results"]
    assert result["task"]["type"] == "image-classification"
    assert "street" in result["dataset"]["name"]
    assert result["metrics"] == [{"type": "accuracy", "value": 0.7361, "name": "accuracy with projection"}]
    assert "# A homefold model" in card
    assert not (model / "README.md").read_text().startswith("---")


@pytest.mark.slow
def test_push_says_that_images_travel(hub, model, keeping, tmp_path, capsys):
    assert main(["push", str(keeping), "me/digits"]) == 0
    told = capsys.readouterr()
    assert "training images of 16 × 16 px are kept in the model" in told.err
    assert "They go to me/digits too." in told.err
    assert "whoever sees the repository sees these training images" in told.out
    assert "- Thumbnails: " in hub.newest("me/digits")["README.md"].decode()
    again = Homefold.load(pull_model("me/digits", tmp_path / "again").folder, device="cpu")
    assert len(again.thumbnails()) == len(again.sources.rows)
    assert main(["push", str(model), "me/digits"]) == 0
    assert "training images" not in "".join(capsys.readouterr())
    assert "thumbnails.safetensors" not in hub.newest("me/digits")


def test_what_nobody_knows_is_not_in_the_card(hub, model):
    push_model(model, "me/digits")
    assert not {"license", "base_model", "model-index"} & set(
        front_matter(hub.newest("me/digits")["README.md"].decode())
    )


@pytest.mark.parametrize(
    ("backbone", "weights", "expected"),
    [
        ("timm:resnet18.a1_in1k", "auto", "timm/resnet18.a1_in1k"),
        ("timm:resnet18.a1_in1k", "none", None),
        ("timm:resnet18.a1_in1k", "weights.safetensors", None),
        ("timm:resnet18", "timm", None),  # which of several weights is not said
        ("resnet18", "auto", None),
    ],
)
def test_weights_of_timm_are_the_base_model(backbone, weights, expected):
    features = {"backbone": backbone, "weights": weights}
    description = {"kind": "images", "settings": {"features": features}, "classes": ["a", "b"]}
    card = hub_card("# Card\n", description, name="x")
    assert front_matter(card).get("base_model") == expected
    assert hub_card(card, description, name="x") == card  # its front matter is replaced, not repeated


@pytest.mark.slow
def test_a_projector_is_pushed_without_a_task_for_images(hub, tmp_path):
    random = np.random.default_rng(0)
    projector = ManifoldProjector(manifold="nearest", classifier_epochs=5, device="cpu")
    projector.fit(random.normal(size=(40, 8)), np.repeat([0, 1], 20)).save(tmp_path / "projector")
    push_model(tmp_path / "projector", "me/projector")
    assert "pipeline_tag" not in front_matter(hub.newest("me/projector")["README.md"].decode())
    pull_model("me/projector", tmp_path / "again")
    assert ManifoldProjector.load(tmp_path / "again", device="cpu").n_features_in_ == 8


@pytest.mark.slow
def test_repositories_are_private_unless_asked(hub, model):
    push_model(model, "me/secret")
    push_model(model, "me/open", public=True)
    assert hub.private == {"me/secret": True, "me/open": False}


def test_a_model_without_styles_takes_those_of_the_last_one_away(hub, model):
    files = {"style.safetensors": b"old", "notes.md": b"kept", "model.json": b"{}"}
    hub.commit("me/digits", files)
    push_model(model, "me/digits")
    assert set(hub.newest("me/digits")) == {file.name for file in model.iterdir()} | {"notes.md"}


@pytest.mark.slow
def test_a_revision_stays_what_it_was(hub, model, tmp_path):
    first = push_model(model, "me/digits").revision
    hub.commit("me/digits", {"model.json": b"{}"})
    assert pull_model("me/digits", tmp_path / "first", revision=first).revision == first
    with pytest.raises(ModelFileError, match="does not describe a homefold model"):
        pull_model("me/digits", tmp_path / "newest")
    assert not (tmp_path / "newest").exists()
    assert all(f"/resolve/{first}/" in line for line in hub.downloads if "README" in line)


@pytest.mark.parametrize("name", ["model.py", "pytorch_model.bin", "home.pkl", "run.sh", "deep/x.pt", "a.JSON.exe"])
def test_code_and_pickles_are_refused_before_anything_is_downloaded(name, hub, model, tmp_path):
    push_model(model, "me/digits")
    hub.commit("me/digits", hub.newest("me/digits") | {name: b"import os"})
    with pytest.raises(ModelFileError, match="JSON, safetensors and Markdown alone, so nothing was downloaded"):
        pull_model("me/digits", tmp_path / "out")
    assert hub.downloads == []
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_only_the_files_of_a_model_are_taken(hub, model, tmp_path):
    push_model(model, "me/digits")
    more = {"other.json": b"{}", "docs/page.md": b"", "extra.safetensors": b""}
    hub.commit("me/digits", hub.newest("me/digits") | more)
    pulled = pull_model("me/digits", tmp_path / "out")
    assert {file.name for file in pulled.folder.iterdir()} == {file.name for file in model.iterdir()}


@pytest.mark.slow
def test_a_damaged_model_does_not_take_the_place_of_a_whole_one(hub, model, tmp_path):
    push_model(model, "me/digits")
    pull_model("me/digits", tmp_path / "out")
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    hub.commit("me/digits", hub.newest("me/digits") | {"home.safetensors": b"cut"})
    with pytest.raises(ModelFileError, match="truncated or was changed"):
        pull_model("me/digits", tmp_path / "out")
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before
    assert os.listdir(tmp_path) == ["out"]


def test_a_damaged_model_is_not_pushed(hub, model, tmp_path):
    with pytest.raises(ModelFileError, match="there is no model"):
        push_model(tmp_path / "nothing", "me/digits")
    assert hub.requests == []


def test_what_is_no_model_is_said(hub, tmp_path):
    hub.commit("me/other", {"README.md": b"hello"})
    with pytest.raises(ModelFileError, match=r"me/other is not a homefold model: it has no model\.json"):
        pull_model("me/other", tmp_path / "out")
    with pytest.raises(ModelFileError, match="there is no model me/nothing at"):
        pull_model("me/nothing", tmp_path / "out")
    with pytest.raises(ModelFileError, match="me/other has no revision v9"):
        pull_model("me/other", tmp_path / "out", revision="v9")
    with pytest.raises(ConfigError, match="is no name of a repository; write OWNER/NAME"):
        pull_model("me/../other", tmp_path / "out")


def test_a_large_text_is_refused(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("homefold.hub.pull._LARGEST_TEXT", 3)
    hub.commit("me/digits", {"model.json": b"12345"})
    with pytest.raises(ModelFileError, match=r"model\.json of me/digits is too large for a text"):
        pull_model("me/digits", tmp_path / "out")


def test_nothing_is_written_over_what_is_no_model(hub, model, tmp_path):
    push_model(model, "me/digits")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(ModelFileError, match="is not a homefold model, so it is not replaced"):
        pull_model("me/digits", tmp_path / "out")


def test_a_push_that_is_not_allowed_is_said(hub, model, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(ModelFileError, match=r"does not allow this for me/digits \(401\): log in"):
        push_model(model, "me/digits")


@pytest.mark.slow
def test_a_hub_that_does_not_answer_is_said(model, tmp_path, monkeypatch):
    with stand_in() as gone:
        pass
    monkeypatch.setenv("HF_ENDPOINT", gone.address)
    with pytest.raises(ModelFileError, match="could not be reached for me/digits"):
        pull_model("me/digits", tmp_path / "out")


def test_without_the_client_a_sentence_says_what_to_install(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"need the huggingface_hub package: pip install 'homefold\[hub\]'"):
        pull_model("me/digits", tmp_path / "out")


@pytest.mark.slow
def test_the_commands_push_and_pull(hub: StandIn, model, tmp_path, capsys):
    seen = {"seen_in_training": True, "accuracy_with_projection": 0.99}
    new = {"seen_in_training": False, "accuracy_with_projection": 0.7}
    figures = evaluation(tmp_path / "figures.json", scan=seen, street=new)
    words = ["push", str(model), "me/digits", "--license", "mit", "--evaluation", str(figures), "--json"]
    assert main(words) == 0
    pushed = json.loads(capsys.readouterr().out)
    results = front_matter(hub.newest("me/digits")["README.md"].decode())["model-index"][0]["results"]
    assert [result["metrics"][0]["value"] for result in results] == [0.7]
    out = str(tmp_path / "out")
    assert main(["pull", "me/digits", "--out", out, "--revision", pushed["revision"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["revision"] == pushed["revision"]
    assert main(["info", out]) == 0
    assert main(["pull", "me/digits", "--out", out]) == 1
    assert "holds a model already" in capsys.readouterr().err
    assert main(["pull", "me/digits", "--out", out, "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[]", "is not what homefold evaluate --json prints"),
        ('{"data": "x", "domains": []}', "measures no domain but those of the training"),
        (
            '{"data": "x", "domains": [{"domain": "a", "images": 3, "seen_in_training": false, '
            '"accuracy_with_projection": 70}]}',
            "an accuracy that is not between 0 and 1",
        ),
    ],
)
def test_figures_that_say_nothing_of_an_unseen_domain_are_refused(content, told, hub, model, tmp_path, capsys):
    (tmp_path / "figures.json").write_text(content)
    assert main(["push", str(model), "me/digits", "--evaluation", str(tmp_path / "figures.json")]) == 1
    assert told in capsys.readouterr().err
    assert hub.requests == []


@pytest.mark.slow
def test_a_fresh_process_talks_to_nobody_but_the_endpoint(hub, model, tmp_path):
    env = os.environ | {"HF_HOME": str(tmp_path / "home")}
    words = [sys.executable, "-m", "homefold"]
    subprocess.run([*words, "push", str(model), "me/digits"], env=env, check=True, capture_output=True)
    done = subprocess.run([*words, "pull", "me/digits", "--out", str(tmp_path / "out")], env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "model.json").read_bytes() == (model / "model.json").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["push", "pull"])
def test_the_help_needs_neither_torch_nor_the_client(command):
    code = (
        "import sys; from homefold.cli.app import main; assert main([sys.argv[1], '--help']) == 0; "
        "print('torch' in sys.modules, 'huggingface_hub' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code, command], capture_output=True, text=True, check=True).stdout
    assert found.splitlines()[-1] == "False False"
