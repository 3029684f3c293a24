"""Which projection does best on source domains that were left out: what the default preset was chosen by.

For every pair of domains one model is trained; each of the other domains is then judged with every candidate. For a
target t only the judgements in which t was neither trained on nor judged count: the three ways to leave one of its
sources out. No figure for t itself enters a choice for t.

    python study/choose_projection.py --data PACS --weights resnet18.safetensors --out choice.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from homefold import Homefold, preset_config
from homefold.config import replace_settings
from homefold.config.search import SearchConfig, search_preset
from homefold.data import DomainDataset, holdout_split
from homefold.data.registry import load_dataset
from homefold.manifold import ManifoldConfig
from homefold.runtime.progress import RichReporter
from homefold.runtime.provenance import hardware, versions
from homefold.stages.feature_model import FeatureModel, fit_feature_model


def candidates() -> dict[str, SearchConfig]:
    """Searches to compare; all are run on the same features and manifold."""
    random = {"encoder_start": False, "random_starts": 1}
    found = {f"encoder, Adam, {steps} steps": SearchConfig(steps=steps) for steps in (0, 10, 25, 50, 100, 200)}
    found |= {
        "encoder, normalised, elbow": SearchConfig(step="normalised", rate=0.01, steps=300, stop="elbow"),
        "1 random, Adam, 200 steps": SearchConfig(**random, steps=200),
        "1 random, normalised, elbow (authors)": search_preset("authors"),
        "1 random, gradient, elbow (paper, M = 2000)": replace(search_preset("paper"), steps=2000),
        "8 random, Adam, 200 steps": search_preset("restarts"),
        "nearest latent, Adam, 50 steps": SearchConfig(encoder_start=False, nearest_starts=1),
        "encoder + 3 nearest + 4 random, 100 steps": SearchConfig(nearest_starts=3, random_starts=4, steps=100),
    }
    return found


def manifolds() -> dict[str, ManifoldConfig]:
    """Manifolds to compare under the default search."""
    return {
        "vae, KL 1e-3": ManifoldConfig(kl_weight=1e-3),
        "vae, KL 1e-2": ManifoldConfig(kl_weight=1e-2),
        "conv-vae": ManifoldConfig(kind="conv-vae"),
        "gan": ManifoldConfig(kind="gan"),
        "nearest": ManifoldConfig(kind="nearest"),
    }


def refit(model: Homefold, z: torch.Tensor, source: DomainDataset, config: ManifoldConfig) -> FeatureModel:
    """Stages 2 and 3 once more, with another manifold."""
    train, held_out = holdout_split(source.labels, source.domains, model.config.features.held_out, model.config.seed)
    y = torch.from_numpy(source.labels)
    return fit_feature_model(
        z[train],
        y[train],
        z[held_out],
        y[held_out],
        replace(model.config, manifold=config),
        class_names=source.class_names,
        device=model.device,
    )


def judge(home: FeatureModel, z: torch.Tensor, labels: np.ndarray, config: SearchConfig | None) -> float:
    """Accuracy, in percent, of one candidate; None is no projection."""
    found = home.predict(z, projected=config is not None, config=config)
    return 100 * float((found.indices == labels).mean())


def run_pair(dataset: DomainDataset, pair: tuple[str, ...], arguments: argparse.Namespace) -> list[dict]:
    """Train on `pair`, judge every candidate on every other domain."""
    config = preset_config(arguments.preset)
    config = replace_settings(config, {"features.weights": arguments.weights, "seed": arguments.seed})
    if arguments.epochs:
        config = replace_settings(config, {"features.epochs": arguments.epochs})
    source = dataset.only(*pair)
    began = time.monotonic()
    model = Homefold(config, device=arguments.device, reporter=RichReporter()).fit(source)
    trained_seconds = time.monotonic() - began
    z = torch.from_numpy(model.features(source))
    rows = []
    others = [name for name in dataset.domain_names if name not in pair]
    unseen = {name: torch.from_numpy(model.features(dataset.only(name))) for name in others}
    for kind, manifold in manifolds().items():
        try:
            home = model.feature_model if kind == arguments.manifold else refit(model, z, source, manifold)
        except Exception as error:  # a candidate that cannot be used is a result too
            rows.append({"sources": pair, "judged": "", "manifold": kind, "search": "", "error": str(error)})
            continue
        searches = {"none": None} | (candidates() if kind == arguments.manifold else {"default": SearchConfig()})
        if kind == "nearest":
            searches = {"default": SearchConfig()}
        for name, (search, config_) in itertools.product(others, searches.items()):
            accuracy = judge(home, unseen[name], dataset.only(name).labels, config_)
            rows.append({"sources": pair, "judged": name, "manifold": kind, "search": search, "accuracy": accuracy})
            print(f"{'+'.join(pair)} → {name}: {kind}, {search}: {accuracy:.2f}", flush=True)
    print(f"{'+'.join(pair)} trained in {trained_seconds:.1f} s, all in {time.monotonic() - began:.1f} s", flush=True)
    return rows


def summarise(rows: list[dict], domains: tuple[str, ...]) -> list[dict]:
    """For each candidate the mean accuracy over all judgements, and over those allowed for each target."""
    table = []
    for manifold, search in dict.fromkeys((r["manifold"], r["search"]) for r in rows if "accuracy" in r):
        mine = [r for r in rows if (r["manifold"], r["search"]) == (manifold, search) and "accuracy" in r]
        row = {"manifold": manifold, "search": search, "all": round(float(np.mean([r["accuracy"] for r in mine])), 2)}
        for target in domains:
            allowed = [r["accuracy"] for r in mine if target not in (*r["sources"], r["judged"])]
            row[target] = round(float(np.mean(allowed)), 2) if allowed else None
        table.append(row)
    return sorted(table, key=lambda row: -row["all"])


def provenance() -> dict:
    """What every row must say beside its accuracy."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return {"hardware": hardware(device), "versions": versions(), "commit": commit or None}


def markdown(rows: list[dict], domains: tuple[str, ...]) -> str:
    """The summary as a Markdown table."""
    lines = [
        "| manifold | search | mean of all | " + " | ".join(f"for target {name}" for name in domains) + " |",
        "|---|---|---" + "|---" * len(domains) + "|",
    ]
    for row in summarise(rows, domains):
        figures = [row["all"], *(row[name] for name in domains)]
        shown = ["–" if value is None else f"{value:.2f}" for value in figures]
        lines.append(f"| {row['manifold']} | {row['search']} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder root/domain/class/image, or digits-mini; left out: only print the table")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--manifold", default="vae, KL 1e-3", help="the manifold under which all searches are compared")
    parser.add_argument("--epochs", type=int, default=0, help="epochs of stage 1, if not the preset's")
    parser.add_argument("--pairs", type=int, default=0, help="only the first so many pairs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines; pairs that stand there are not run again")
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    if arguments.data:
        side = preset_config(arguments.preset).preprocessing.image_size
        dataset = load_dataset(arguments.data, size=(side, side), reporter=RichReporter())
        done = {tuple(row["sources"]) for row in rows}
        pairs = list(itertools.combinations(dataset.domain_names, 2))[: arguments.pairs or None]
        for pair in pairs:
            if pair in done:
                continue
            found = [{**row, "seed": arguments.seed, **provenance()} for row in run_pair(dataset, pair, arguments)]
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            with arguments.out.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in found)
            rows += found
    domains = tuple(sorted({name for row in rows for name in row["sources"]}))
    print(markdown(rows, domains))


if __name__ == "__main__":
    main()
