"""`homefold explore`: the explorer of a model as a folder that opens without a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from homefold.cli.output import note, show_bytes
from homefold.cli.parsing import Arg, DeviceFlag, PluginFlag, Positional, parse
from homefold.errors import ConfigError

__all__ = ["ExploreOptions", "run"]


@dataclass(frozen=True)
class ExploreOptions:
    """Write the explorer of a model and its labelled images as a folder, whose index.html opens without a server.

    homefold serve MODEL --data FOLDER shows the same page, and answers for new images too.

    Example: homefold explore model --data photos/ --export explorer
    """

    model: Annotated[Path, Positional("MODEL")]
    """The folder of a model."""
    export: Annotated[Path, Arg("OUT")]
    """The folder to write."""
    data: Annotated[str | None, Arg("FOLDER")] = None
    """Labelled images, FOLDER/domain/class/image: what the model was fitted on, and others. Without them the page shows
    the thumbnails that fit --keep-thumbnails kept."""
    pictures: bool = False
    """Put the images there too, as the model sees them; without, the page shows points and labels."""
    map: Annotated[Literal["pca", "umap"], Arg("LAYOUT")] = "pca"
    """How the map is laid out: pca, or umap (needs pip install 'homefold[umap]')."""
    overwrite: bool = False
    """Replace an earlier export."""
    device: DeviceFlag = "auto"
    plugin: PluginFlag = ()


def run(arguments: Sequence[str]) -> int:
    """Look at every image, and write."""
    options = parse(ExploreOptions, "explore", arguments)
    # These import torch, which --help does not need.
    from homefold.cli.labelled import labelled_images
    from homefold.cli.unfinished import tidy_after_fit
    from homefold.model import Homefold
    from homefold.runtime.progress import RichReporter
    from homefold.serving.standalone import write_standalone

    model = Homefold.load(options.model, device=options.device)
    tidy_after_fit(options.model)
    explorer = labelled_images(options.model, model, options.data, layout=options.map)
    if explorer is None:
        raise ConfigError(
            f"{options.model} keeps no thumbnails, so homefold explore needs --data FOLDER: the images that it was "
            f"fitted on."
        )
    written = write_standalone(
        model,
        options.model.resolve().name,
        explorer,
        options.export,
        pictures=options.pictures,
        overwrite=options.overwrite,
        reporter=RichReporter(),
    )
    size = sum(file.stat().st_size for file in options.export.rglob("*") if file.is_file())
    print(f"Open {options.export / 'index.html'} in a browser: {written.images:,} images, {show_bytes(size)}.")
    if not options.pictures:
        note("It holds no pictures; --pictures puts them in.")
    if not written.has_table:
        note("points.parquet is left out: it needs pip install 'homefold[parquet]'.")
    return 0
