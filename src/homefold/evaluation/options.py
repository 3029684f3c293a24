"""What a benchmark is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from homefold.errors import ConfigError, shown

__all__ = ["BenchOptions"]

_MOST_SEEDS = 10_000
_LAST_SEED = 2**62
_MOST_CANDIDATES = 10_000


@dataclass(frozen=True)
class BenchOptions:
    """A suite on a dataset, and which part of it.

    Args:
        suite: its name.
        data: a dataset's name, `name:path`, or a folder; empty for the dataset that the suite is meant for.
        domain_from: a pattern that finds the domain in the paths of the images; empty where the data says it.
        out: folder of records, artifacts and stages.
        methods: which to run; empty for the suite's.
        targets: which domains to test on; empty for all.
        sources: only splits that train on exactly these domains; empty for all.
        seeds: how many independent runs: seeds 0, 1, … or from `first_seed` on.
        first_seed: the seed of the first run; to share a study among machines, or to judge again with new seeds.
        preset: `paper`, `default`, `thorough` or `quick`.
        recipe: by whose recipe methods of other papers run where their names do not say: `authors` or `ours`; empty for
            the authors', or with `quick`, whose point is to take minutes, for ours.
        backbones: empty for the suite's.
        weights: where a pretrained backbone starts; empty for the preset's.
        device: where to compute.
        jobs: processes side by side on this machine.
        on: `local`, or `ray` for the machines of a Ray cluster.
        threads: CPU threads of each process; 0 shares this machine's cores among the jobs, and is 1 on Ray.
        selection: name of the selection rule.
        candidates: settings that the selection rule chooses among, `name=value …` each.
        search: how many candidates to try in their place: the settings as they are, and others drawn from the ranges
            that each method declares; 0 for no random search.
        search_seed: what the drawn candidates are a function of.
        settings: changes to the configuration, `name=value` each.
        images_per_class: use only so many images of each domain and class; 0 for all.
        source_images_per_class: train on only so many images of each source domain and class, drawn with the seed; the
            targets stay whole. 0 for all.
        plugins: Python files to import first, which register methods.
        command: the command line that asks for it, as it was typed; empty from Python. Stands in every record.
    """

    suite: str
    out: Path
    data: str = ""
    methods: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    seeds: int = 5
    first_seed: int = 0
    preset: str = "default"
    recipe: str = ""
    backbones: tuple[str, ...] = ()
    weights: str = ""
    device: str = "auto"
    jobs: int = 1
    on: str = "local"
    threads: int = 0
    selection: str = "source-validation"
    candidates: tuple[str, ...] = ()
    search: int = 0
    search_seed: int = 0
    settings: tuple[str, ...] = ()
    images_per_class: int = 0
    source_images_per_class: int = 0
    plugins: tuple[Path, ...] = ()
    command: str = ""
    domain_from: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.plugins, str | Path):
            raise ConfigError(f"plugins takes several files, ({str(self.plugins)!r},) for one.")
        if self.recipe not in ("", "authors", "ours"):
            raise ConfigError(f"recipe is authors or ours; got {shown(self.recipe)}.")
        for name in ("seeds", "jobs"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.on not in ("local", "ray"):
            raise ConfigError(f"on is local or ray; got {shown(self.on)}.")
        if self.on == "ray" and self.jobs > 1:
            raise ConfigError("jobs is for one machine: on ray the cluster has room for as many as it has CPUs.")
        for name in ("threads", "first_seed", "search", "search_seed", "images_per_class", "source_images_per_class"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative; got {getattr(self, name)}.")
        limits = {"seeds": _MOST_SEEDS, "first_seed": _LAST_SEED, "search": _MOST_CANDIDATES, "search_seed": _LAST_SEED}
        for name, most in limits.items():
            if getattr(self, name) > most:
                raise ConfigError(f"{name} must be at most {most}; got {getattr(self, name)}.")
        if self.search and self.candidates:
            raise ConfigError("search draws the candidates, and candidates names them; give one of the two.")
        if self.selection == "last" and (self.search or self.candidates):
            raise ConfigError(
                "the selection rule last looks at nothing, and cannot choose among candidates; choose "
                "source-validation, leave-one-source-out or oracle."
            )

    @property
    def recipe_followed(self) -> str:
        """`authors` or `ours`, for methods whose names do not say."""
        return self.recipe or ("ours" if self.preset == "quick" else "authors")

    @property
    def changes(self) -> str:
        """What makes these runs differ from others of the same preset, as a person would type it; often empty.

        >>> BenchOptions("pacs", Path("runs"), weights="none", settings=("features.epochs=60",)).changes
        'features.weights=none features.epochs=60'
        """
        words = [f"features.weights={self.weights}"] if self.weights else []
        words += self.settings
        for name in ("images_per_class", "source_images_per_class"):
            words += [f"{name}={getattr(self, name)}"] if getattr(self, name) else []
        return " ".join(words)
