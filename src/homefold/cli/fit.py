"""`homefold fit`: train a model; stop it at any moment, start it again, and it goes on."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from homefold.cli.domain_from import DomainFromFlag
from homefold.cli.domains import domain_names, require_domains
from homefold.cli.ending import when_stopped
from homefold.cli.given_settings import SHORT_NAMES, fit_settings
from homefold.cli.info import size_on_disk
from homefold.cli.output import fact_table, note, print_json, result_console, show_bytes
from homefold.cli.parsing import (
    Arg,
    DeviceFlag,
    JsonFlag,
    Names,
    PluginFlag,
    Positional,
    SkipBadFlag,
    parse,
    unique,
)
from homefold.cli.settings import list_settings
from homefold.config import HomefoldConfig
from homefold.data import DomainDataset, load_dataset
from homefold.data.registry import count_images
from homefold.errors import ConfigError, DataError, ModelFileError
from homefold.runtime.progress import ProgressReporter, RichReporter, SilentReporter
from homefold.store.model_card import accuracy_line, confidence_line, thumbnails_line

if TYPE_CHECKING:
    import torch

    from homefold.model import Homefold

__all__ = ["FitOptions", "run"]

AUTO = "auto"
_Preset = Literal["auto", "default", "thorough", "small", "small-thorough", "paper", "foundation", "foundation-tuned"]


@dataclass(frozen=True)
class FitOptions:
    """Train a model on images of several domains, and write it to a folder.

    What is trained so far lies in MODEL.unfinished: after a stop the same command goes on from there, to the same
    model. On several GPUs: torchrun --nproc-per-node 2 -m homefold fit …

    Example: homefold fit photos/ --out model --holdout hospital4
    """

    data: Annotated[str, Positional("DATA")]
    """A folder DATA/domain/class/image, a table (CSV, parquet), tar or zip, or a dataset (homefold data list)."""
    out: Annotated[Path, Arg("MODEL")]
    """The folder to write the model to."""
    holdout: Annotated[Names, Arg("DOMAIN")] = ()
    """Domains to leave out: their images are not even opened."""
    preset: Annotated[_Preset, Arg("NAME", "")] = "auto"
    """Settings to start from: auto (unless another is named: what suits images and device), default (ResNet-18 at 224
    px), small (from scratch at 32 px), thorough or small-thorough (several looks), paper, foundation (a frozen CLIP),
    foundation-tuned."""
    config: Annotated[Path | None, Arg("FILE.toml")] = None
    """Settings to change, as TOML; --set and flags win over it."""
    set: Annotated[Names, Arg("NAME=VALUE")] = ()
    """Every other setting, such as manifold.epochs=60 (or --manifold.epochs 60); homefold settings lists and explains
    them."""
    device: DeviceFlag = "auto"
    deterministic: bool = False
    """Only algorithms that give the same bytes every time on CUDA too (slower)."""
    domain_from: DomainFromFlag = ""
    skip_bad: SkipBadFlag = False
    keep_thumbnails: bool = False
    """Let the model hold up to 1,000 small training images, for all to see."""
    overwrite: bool = False
    """Replace the model that is at MODEL, once the new one is complete."""
    tensorboard: Annotated[Path | None, Arg("DIR")] = None
    """Write the losses of each epoch to DIR for TensorBoard."""
    plugin: PluginFlag = ()
    json: JsonFlag = False


def run(arguments: Sequence[str]) -> int:
    """Fit, save, and say what came out; among the processes of torchrun only the first writes and speaks."""
    options, config, said = read_options(arguments)
    # Here and below: what imports torch, which --help does not need.
    from homefold.runtime.device import resolve_device
    from homefold.runtime.processes import joined_processes, local_device

    device = resolve_device(local_device(options.device))
    with joined_processes(device) as processes:
        if options.preset == AUTO:
            from homefold.model import auto_config

            config = auto_config(
                options.data,
                holdout=unique(options.holdout),
                domain_from=options.domain_from,
                settings=said,
                device=device,
            )
        if processes.is_first:
            return _fit_and_save(options, config, device)
        _help_to_fit(options, config, device)
        return 0


def _fit_and_save(options: FitOptions, config: HomefoldConfig, device: torch.device) -> int:
    from homefold.cli.unfinished import UnfinishedFit
    from homefold.features import build_backbone
    from homefold.model import Homefold
    from homefold.runtime.processes import wait_for_all

    holdout = unique(options.holdout)
    reporter = RichReporter()
    model = Homefold(config, device=device, deterministic=options.deterministic, reporter=reporter)
    sources = _source_domains(options, holdout)
    _require_free(options.out, options.overwrite)
    # These complain before images are decoded.
    config.require_consistent()
    build_backbone(config.features.backbone, config.features.weights, (config.preprocessing.image_size,) * 2)
    if options.preset == AUTO:
        from homefold.stages.estimate import announcement

        counts = count_images(options.data, sources or None, options.domain_from)
        reporter.message(announcement(config, int(counts.sum()), device, len(counts)))
    on_epoch = None if options.tensorboard is None else _tensorboard_writer(options.tensorboard, config.features.epochs)
    began = time.monotonic()
    with UnfinishedFit(options.out) as unfinished, when_stopped(unfinished.advice):
        wait_for_all()
        dataset = _load(options, config, sources, reporter)
        with _writing_to(unfinished.folder, unfinished.advice):
            model.fit(dataset, work_dir=unfinished.folder, on_epoch=on_epoch, keep_thumbnails=options.keep_thumbnails)
        with _writing_to(options.out, unfinished.advice):
            model.save(options.out, on_whole=unfinished.leads_to)
        unfinished.remove()
    summary = _summary(options, model, holdout, time.monotonic() - began)
    if options.json:
        print_json(summary)
    else:
        _print_summary(summary)
    return 0


def _help_to_fit(options: FitOptions, config: HomefoldConfig, device: torch.device) -> None:
    """The part of a process that is not the first: it trains along, from the same checkpoint, and writes nothing."""
    from homefold.cli.unfinished import UnfinishedFit
    from homefold.model import Homefold
    from homefold.runtime.processes import wait_for_all

    model = Homefold(config, device=device, deterministic=options.deterministic)
    sources = _source_domains(options, unique(options.holdout))
    # Until the first process has looked at what an earlier fit left.
    wait_for_all()
    dataset = _load(options, config, sources, SilentReporter(), quiet=True)
    model.fit(dataset, work_dir=UnfinishedFit(options.out).folder)


def read_options(arguments: Sequence[str]) -> tuple[FitOptions, HomefoldConfig, dict[str, Any]]:
    """What a command line asks for, all settings with it, and those that it names.

    With the preset `auto` all settings are those of `default`, until the images are known.
    """
    options = parse(FitOptions, "fit", arguments, _short_flags)
    preset = "default" if options.preset == AUTO else options.preset
    return options, *fit_settings(preset, options.config, options.set)


def _short_flags() -> dict[str, str]:
    settings = {setting.name: setting for setting in list_settings()}
    return {
        f"--{short}".replace("_", "-"): f"{settings[name].about} (default: {settings[name].defaults})"
        for short, name in SHORT_NAMES.items()
    }


def _source_domains(options: FitOptions, holdout: Sequence[str]) -> tuple[str, ...]:
    data = options.data
    known = domain_names(data, options.domain_from)
    require_domains(holdout, known, data)
    sources = tuple(name for name in known if name not in holdout)
    if known and not sources:
        raise DataError(f"no source domain is left: all domains of {data} are held out.")
    return sources


def _require_free(out: Path, overwrite: bool) -> None:
    """Refuse before any work what saving would have to refuse after it."""
    from homefold.cli.unfinished import tidy_after_fit
    from homefold.store.model_folder import holds_model, require_replaceable

    require_replaceable(Path(os.path.realpath(out)))
    if holds_model(out) and not overwrite:
        tidy_after_fit(out)
        raise ConfigError(f"{out} holds a model already; choose another --out, or add --overwrite to replace it.")


def _load(
    options: FitOptions,
    config: HomefoldConfig,
    sources: tuple[str, ...],
    reporter: ProgressReporter,
    *,
    quiet: bool = False,
) -> DomainDataset:
    """The source domains alone."""
    side = config.preprocessing.image_size
    dataset = load_dataset(
        options.data,
        size=(side, side),
        resize=config.preprocessing.resize,
        skip_bad=options.skip_bad,
        domains=sources or None,
        reporter=reporter,
        domain_from=options.domain_from,
    )
    for path, reason in () if quiet else dataset.skipped:
        note(f"left out: {path} {reason}")
    return dataset


@contextmanager
def _writing_to(path: Path, advise: Callable[[], str]) -> Iterator[None]:
    """A full disk, or any other reason not to write, becomes a sentence about `path`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None and not Path(error.filename).absolute().is_relative_to(path.absolute().parent):
            raise
        reason = error.strerror or str(error)
        raise ModelFileError(
            f"{path} could not be written ({reason}); what was there before is unchanged. Put that right. {advise()}"
        ) from error


def _tensorboard_writer(folder: Path, epochs: int) -> Callable[[dict[str, float]], None]:
    """Writes each epoch's figures, of several runs of so many epochs one after the other.

    A fit that goes on replaces the epochs that it repeats.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError("--tensorboard needs the tensorboard package: pip install 'homefold[tensorboard]'.") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--tensorboard {folder} cannot be made a folder ({error.strerror}).") from None
    writers: list[SummaryWriter] = []

    def write(figures: dict[str, float]) -> None:
        epoch = int(figures["epoch"]) + epochs * (int(figures.get("run", 1)) - 1)
        if not writers:
            writers.append(SummaryWriter(str(folder), purge_step=epoch))
        for name, value in figures.items():
            if name not in ("epoch", "run"):
                writers[0].add_scalar(f"features/{name}", value, epoch)
        writers[0].flush()

    return write


def _summary(options: FitOptions, model: Homefold, holdout: tuple[str, ...], seconds: float) -> dict[str, Any]:
    reports = model.reports
    return {
        "model": str(options.out),
        "size_bytes": size_on_disk(options.out),
        "data": options.data,
        "source_domains": list(model.source_domains),
        "held_out_domains": list(holdout),
        "class_names": list(model.class_names),
        "images": reports["images"],
        "held_out_accuracy": reports["classifier"]["held_out_accuracy"],
        "held_out": reports["held_out"],
        "features": reports["features"],
        "manifold": reports["manifold"],
        "calibration": reports.get("calibration"),
        "thumbnails": reports.get("thumbnails"),
        "device": str(model.device),
        "seconds": round(seconds, 1),
    }


def _print_summary(summary: dict[str, Any]) -> None:
    images = summary["images"]
    facts = {
        "Accuracy": accuracy_line(summary),
        **({"Confidence": confidence_line(summary)} if summary["calibration"] else {}),
        "Trained on": f"{images['trained_on']} images of {', '.join(summary['source_domains'])}",
        "Model": f"{summary['model']} ({show_bytes(summary['size_bytes'])}, {summary['seconds']:.0f} s)",
    }
    if kept := thumbnails_line(summary):
        facts["Thumbnails"] = kept
    if images["skipped"]:
        facts["Left out"] = f"{len(images['skipped'])} images that could not be read"
    console = result_console()
    console.print(fact_table(facts))
    unseen = summary["held_out_domains"] or ["UNSEEN"]
    evaluate = ["homefold", "evaluate", summary["model"], summary["data"], "--domain", *unseen]
    console.print("\nNext:")
    console.print(f"  {shlex.join(evaluate)}", soft_wrap=True)
    console.print(f"  homefold predict {shlex.quote(summary['model'])} IMAGES…", soft_wrap=True)
