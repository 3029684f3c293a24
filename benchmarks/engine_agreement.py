"""Whether the fast engines answer like the slow one on real features: labels, stop indices and accuracy.

First, where the features were made (a GPU), take the trained stages of a benchmark, answer with every fast engine, and
write the models and the answers down; then, anywhere, run the reference engine to the end on the same features.

    homefold bench pacs --data PACS --backbone resnet18 --methods vae --seeds 1 --out RUNS
    python benchmarks/engine_agreement.py answer pacs --data PACS --backbone resnet18 --runs RUNS --out answers
    python benchmarks/engine_agreement.py compare answers --out results/engine_agreement.json
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from homefold.classifier import ClassifierConfig, build_classifier
from homefold.config import config_from_dict, config_to_dict
from homefold.config.search import SearchConfig
from homefold.evaluation.execution import Executor
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner
from homefold.features import extract_features
from homefold.manifold import ManifoldConfig, ManifoldReport, build_manifold
from homefold.methods.training.paper import TrainedPaperMethod
from homefold.projection import project
from homefold.runtime.provenance import hardware, versions
from homefold.store.files import read_state, write_json, write_state

_CHUNK = 512


def searches() -> dict[str, SearchConfig]:
    """The settings whose engines are compared: the default, and one that stops at an elbow from random starts."""
    return {
        "default": SearchConfig(),
        "8 starts": SearchConfig(encoder_start=False, random_starts=8, steps=100),
        "authors": SearchConfig(
            encoder_start=False, random_starts=1, step="normalised", rate=0.01, steps=300, stop="elbow"
        ),
    }


def engines(device: torch.device, search: str) -> list[tuple[str, str]]:
    """Engine and precision; what has to be compiled anew for every search, which takes long, only for the default."""
    if device.type == "cuda":
        compiled = [("compiled", "highest")] if search == "default" else []
        return [*compiled, ("fused", "high"), ("fused", "medium")]
    return [("batched", "highest")]


def answer(arguments: argparse.Namespace) -> None:
    options = BenchOptions(
        suite=arguments.suite,
        data=arguments.data,
        out=arguments.runs,
        methods=("vae",),
        seeds=1,
        preset=arguments.preset,
        weights=arguments.weights,
        backbones=tuple(arguments.backbone),
        targets=tuple(arguments.targets),
        device=arguments.device,
        settings=tuple(arguments.settings),
    )
    planner = Planner(options)
    executor = Executor(planner)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for unit in planner.units():
        for run in unit:
            data = planner.data(run.config)
            trained = run.method.train(executor._task(run, data))
            assert isinstance(trained, TrainedPaperMethod)
            model = trained.model
            images = data.dataset.images[run.target.indices]
            z = model.prepare(extract_features(trained.features.net, images, executor.device))
            answers: dict[str, Any] = {}
            for name, search in searches().items():
                for engine, precision in engines(executor.device, name):
                    config = replace(search, engine=engine, precision=precision)
                    found = project(model.manifold, z, config, seed=model.seed)
                    labels = model.logits(found.features).argmax(1).to(torch.int16).cpu()
                    answers[f"{name}/{engine}/{precision}"] = {"labels": labels, "steps": found.iterations.int().cpu()}
            state = {
                "manifold": {key: value.cpu() for key, value in model.manifold.state_dict().items()},
                "manifold_config": config_to_dict(run.config.manifold),
                "report": model.manifold.report.as_dict(),
                "classifier": {key: value.cpu() for key, value in model.classifier.state_dict().items()},
                "classifier_config": config_to_dict(run.config.classifier),
                "classes": len(data.dataset.class_names),
                "plain": model.logits(z).argmax(1).to(torch.int16).cpu(),
                "features": z.cpu(),
                "truth": torch.from_numpy(data.dataset.labels[run.target.indices]).to(torch.int16),
                "seed": model.seed,
                "answers": answers,
                "hardware": hardware(executor.device),
                "versions": versions(),
            }
            write_state(arguments.out / f"{data.dataset.name}_{run.target.name}.safetensors", state)
            print(data.dataset.name, run.target.name, len(z), flush=True)


def _reference(part: tuple[dict[str, Any], torch.Tensor, str, str]) -> tuple[torch.Tensor, torch.Tensor]:
    state, z, name, engine = part
    torch.set_num_threads(1)
    config = config_from_dict(ManifoldConfig, state["manifold_config"])
    manifold = build_manifold(config, z.shape[1])
    manifold.load_state_dict(state["manifold"])
    manifold.report = ManifoldReport.from_dict(state["report"])
    found = project(manifold, z, replace(searches()[name], engine=engine), seed=state["seed"])  # type: ignore[arg-type]
    return found.features, found.iterations


def compare(arguments: argparse.Namespace) -> None:
    rows = []
    paths = sorted(arguments.answers.glob("*.safetensors"))
    if not paths:
        raise SystemExit(f"{arguments.answers} holds no answers; make them with the command answer.")
    with ProcessPoolExecutor(arguments.processes) as pool:
        for path in paths:
            state = read_state(path)
            z, truth = state["features"], state["truth"]
            given = {key: state[key] for key in ("manifold", "manifold_config", "report", "seed")}
            for name in arguments.searches or searches():
                every = max(1, len(z) // arguments.most) if name != "default" else 1
                chosen = z[::every]
                parts = [(given, part, name, arguments.engine) for part in chosen.split(_CHUNK)]
                features, steps = (torch.cat(found) for found in zip(*pool.map(_reference, parts), strict=True))
                expected = _classify(state, features)
                for key, found in state["answers"].items():
                    if key.rsplit("/", 2)[0] != name:
                        continue
                    labels, taken = found["labels"][::every], found["steps"][::every]
                    rows.append(
                        {
                            "target": path.stem,
                            "search": name,
                            "engine": key.split("/", 1)[1],
                            "samples": len(chosen),
                            "same_label": float((labels == expected).float().mean()),
                            "same_steps": float((taken == steps).float().mean()),
                            "accuracy": float((labels == truth[::every]).float().mean()),
                            "accuracy_on_all": float((found["labels"] == truth).float().mean()),
                            "accuracy_of_reference": float((expected == truth[::every]).float().mean()),
                            "accuracy_without_projection": float(
                                (state["plain"][::every] == truth[::every]).float().mean()
                            ),
                        }
                    )
                    print(rows[-1], flush=True)
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    if arguments.out:
        result = {
            "command": " ".join(["python", *sys.argv]),
            "commit": asked.stdout.strip(),
            "reference": arguments.engine,
            "hardware_of_answers": state["hardware"],
            "versions_of_answers": state["versions"],
            "rows": rows,
        }
        write_json(arguments.out, result)


def _classify(state: dict[str, Any], z: torch.Tensor) -> torch.Tensor:
    config = config_from_dict(ClassifierConfig, state["classifier_config"])
    classifier = build_classifier(config, z.shape[1], state["classes"])
    classifier.load_state_dict(state["classifier"])
    return classifier(z).argmax(1).to(torch.int16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("answer", help="with the fast engines, from a benchmark's trained stages")
    first.add_argument("suite")
    first.add_argument("--data", required=True)
    first.add_argument("--runs", type=Path, required=True)
    first.add_argument("--preset", default="default")
    first.add_argument("--weights", default="")
    first.add_argument("--backbone", nargs="*", default=[], help="by default the suite's")
    first.add_argument("--targets", nargs="*", default=[], help="by default all")
    first.add_argument("--device", default="auto")
    first.add_argument("--settings", nargs="*", default=[])
    first.add_argument("--out", type=Path, required=True)
    first.set_defaults(do=answer)
    second = commands.add_parser("compare", help="with the reference engine")
    second.add_argument("answers", type=Path)
    second.add_argument("--engine", default="reference", choices=["reference", "batched"])
    second.add_argument("--searches", nargs="*")
    second.add_argument("--most", type=int, default=200, help="samples a target for searches other than the default")
    second.add_argument("--processes", type=int, default=2)
    second.add_argument("--out", type=Path)
    second.set_defaults(do=compare)
    arguments = parser.parse_args()
    arguments.do(arguments)


if __name__ == "__main__":
    main()
