"""`homefold bench`: a whole table of the evaluation; stop it at any moment, start it again, and it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from homefold.cli.bench_board import BenchBoard
from homefold.cli.domain_from import DomainFromFlag
from homefold.cli.ending import when_stopped
from homefold.cli.output import fact_table, note, print_json, result_console, typed
from homefold.cli.parsing import Arg, DeviceFlag, JsonFlag, Names, PluginFlag, Positional, parse, unique
from homefold.errors import ConfigError
from homefold.runtime.progress import RichReporter
from homefold.runtime.text import counted

if TYPE_CHECKING:
    from homefold.evaluation.options import BenchOptions

__all__ = ["BenchCommand", "run"]

SuiteName = Literal[
    "pacs",
    "vlcs",
    "office-home",
    "digits-dg",
    "digits-mini",
    "samplers",
    "ablation",
    "single-source",
    "leave-two-out",
    "scarce",
    "few-shot",
    "cifar10-c",
    "beta",
    "stopping",
]


@dataclass(frozen=True)
class BenchCommand:
    """Run a suite of the evaluation: every method on every target with every seed, one record each.

    Finished runs and trained stages lie in RUNS: the same command, started again after a stop, repeats none of them.
    Runs that failed are tried again.

    Example: homefold bench digits-mini --preset quick --seeds 2 --out runs
    """

    suite: Annotated[SuiteName, Positional("SUITE", f"({', '.join(get_args(SuiteName))})")]
    """Which table: a dataset's, or one of the analyses, which run on any dataset that fits"""
    out: Annotated[Path, Arg("RUNS")]
    """The folder for records, artifacts and trained stages; several suites may share it."""
    data: Annotated[str, Arg("DATA", default="(default: the suite's own dataset)")] = ""
    """A dataset's name, NAME:PATH for one that needs files, a folder DATA/domain/class/image or a table."""
    domain_from: DomainFromFlag = ""
    methods: Annotated[Names, Arg("METHOD", default="(default: the suite's)")] = ()
    """Which methods to run (homefold methods lists them)."""
    targets: Annotated[Names, Arg("DOMAIN", default="(default: all)")] = ()
    """Which domains to test on."""
    sources: Annotated[Names, Arg("DOMAIN", default="(default: all)")] = ()
    """Only what trains on exactly these domains."""
    seeds: int = 5
    """Independent runs: trainings with the seeds 0, 1, … or from --first-seed on."""
    first_seed: int = 0
    """The seed of the first run: to share a study among machines, or to add to one."""
    preset: Annotated[Literal["paper", "default", "thorough", "quick"], Arg("NAME", "")] = "default"
    """paper (the text to the letter), default (what serves users best), thorough (the same, and several looks at each
    image to be answered) or quick (a small network, minutes)."""
    recipe: Annotated[Literal["authors", "ours"] | None, Arg("NAME", default="(default: authors)")] = None
    """How methods of other papers run: as their authors ran them, or as ours (as with --preset quick)."""
    backbone: Annotated[Names, Arg("NAME", default="(default: the suite's)")] = ()
    """Which networks to run with."""
    weights: Annotated[str, Arg("WEIGHTS", default="(default: the preset's)")] = ""
    """Where a pretrained network starts: auto, torchvision, a file, or none."""
    device: DeviceFlag = "auto"
    jobs: int = 1
    """Processes side by side; each takes a source and a seed, and so trains nothing twice."""
    on: Annotated[Literal["local", "ray"], Arg("WHERE")] = "local"
    """local, or ray: the machines of a Ray cluster (homefold[ray]; RAY_ADDRESS=HOST:PORT names one)."""
    threads: Annotated[int, Arg(default="(default: the cores shared by the jobs; on ray 1)")] = 0
    """CPU threads of each process."""
    selection: Annotated[Literal["source-validation", "last", "leave-one-source-out", "oracle"], Arg("RULE")] = (
        "source-validation"
    )
    """How settings are chosen: source-validation (held-out source images, as the paper), last (epoch),
    leave-one-source-out (by leaving each source out in turn) or oracle (by looking at the target; marked as such)."""
    search: Annotated[int, Arg("N", default="(default: 0, none)")] = 0
    """Choose among N candidates: the settings as they are, the others drawn at random from the ranges that each method
    declares. With --search 20 --seeds 3: the protocol of DomainBed, "In search of lost domain generalization"."""
    search_seed: int = 0
    """What the drawn settings are a function of."""
    candidates: Annotated[Names, Arg("'NAME=VALUE …'", default="(default: three learning rates)")] = ()
    """Choose among these in their place, each a quoted list of settings; leave-one-source-out and oracle have a
    default."""
    set: Annotated[Names, Arg("NAME=VALUE")] = ()
    """Settings to change, such as features.epochs=60 (or --features.epochs 60); homefold settings lists and explains
    them."""
    images_per_class: Annotated[int, Arg(default="(default: 0, all)")] = 0
    """Use only the first so many images of each domain and class, for trying things out."""
    source_images_per_class: Annotated[int, Arg(default="(default: 0, all)")] = 0
    """Train on only so many images of each source domain and class, drawn with the seed; targets stay whole."""
    plugin: PluginFlag = ()
    plan: bool = False
    """Only show what there would be to do."""
    json: JsonFlag = False

    def options(self, command: str = "") -> BenchOptions:
        """What the library is asked for, by this command line."""
        from homefold.evaluation.options import BenchOptions

        return BenchOptions(
            suite=self.suite,
            out=self.out,
            data=self.data,
            methods=unique(self.methods),
            targets=unique(self.targets),
            sources=unique(self.sources),
            seeds=self.seeds,
            first_seed=self.first_seed,
            preset=self.preset,
            recipe=self.recipe or "",
            backbones=unique(self.backbone),
            weights=self.weights,
            device=self.device,
            jobs=self.jobs,
            on=self.on,
            threads=self.threads,
            selection=self.selection,
            candidates=unique(self.candidates),
            search=self.search,
            search_seed=self.search_seed,
            settings=self.set,
            images_per_class=self.images_per_class,
            source_images_per_class=self.source_images_per_class,
            plugins=tuple(map(Path, self.plugin)),
            command=command,
            domain_from=self.domain_from,
        )


def run(arguments: Sequence[str]) -> int:
    """Plan, show the plan, do it, show the table; 1 when a run failed."""
    command = parse(BenchCommand, "bench", arguments)
    from homefold.cli.bench_tables import choices_of, print_tables  # imports scipy, which --help does not need
    from homefold.evaluation.bench import run_bench  # imports torch, as little
    from homefold.evaluation.planning import Planner, make_plan, records_path

    options = command.options(typed("homefold", "bench", *arguments))
    _require_place(options.out)
    if not command.plan and options.on == "local":
        _require_device(options.device)
    planner = Planner(options, reporter=RichReporter())
    plan = make_plan(planner)
    summary = plan.summary()
    if command.plan:
        _show_plan(command, summary)
        return 0
    note(_plan_text(summary))
    with (
        BenchBoard(plan.remaining, options.jobs if options.on == "local" else None) as board,
        when_stopped(lambda: _advice(command.out)),
    ):
        records = run_bench(options, plan=plan, planner=planner, reporter=board, on_run=board.on_run)
    if command.json:
        chosen = [choice.as_dict() for choice in choices_of(records)]
        print_json({"plan": summary, "records": [asdict(record) for record in records], "choices": chosen})
    else:
        print_tables(records, records_path(command.out))
    return 1 if any(record.status == "failed" for record in records) else 0


def _require_place(out: Path) -> None:
    """Refuse before images are decoded what could not be written."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; give --out a folder.")


def _require_device(name: str) -> None:
    """Refuse before images are decoded what could not run."""
    from homefold.runtime.device import resolve_device

    resolve_device(name)


def _advice(out: Path) -> str:
    """What to do when the benchmark stopped now."""
    kept = ("records.jsonl", "stages/*/*.safetensors")
    if any(file.stat().st_size for pattern in kept for file in out.glob(pattern)):
        return "Start the same command again to go on."
    return "Nothing was finished yet: the same command starts from the beginning."


def _show_plan(command: BenchCommand, summary: dict[str, Any]) -> None:
    if command.json:
        print_json(summary)
    else:
        result_console().print(fact_table(_plan_facts(summary)))


def _plan_facts(summary: dict[str, Any]) -> dict[str, str]:
    failed = f", {summary['failed_before']} of them failed before" if summary["failed_before"] else ""
    kinds = ", ".join(
        f"{counts['needed']} {kind} ({counts['done']} done)" for kind, counts in summary["trainings"].items()
    )
    left_out = "; ".join(f"{counted(n, 'run')}, since {reason}" for reason, n in summary["left_out"].items())
    return {
        "Suite": f"{summary['suite']} on {summary['dataset']}",
        "Protocol": f"{summary['protocol']}: {summary['description']}",
        "Selection": summary["selection"],
        "Runs": f"{summary['runs']}: {summary['done']} done, {summary['to_do']} to do{failed}",
        "Trainings": f"{summary['trainings_to_do']} to do: {kinds}",
        **({"Left out": left_out} if left_out else {}),
    }


def _plan_text(summary: dict[str, Any]) -> str:
    return "\n".join(f"{name:<10} {value}" for name, value in _plan_facts(summary).items())
