"""`homefold export`: a model as ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from homefold.cli.output import fact_table, print_json, result_console, show_bytes
from homefold.cli.parsing import Arg, JsonFlag, PluginFlag, Positional, parse

__all__ = ["ExportOptions", "run"]


@dataclass(frozen=True)
class ExportOptions:
    """Write a model as ONNX: views, styles, search and classifier in one graph that runs without torch.

    Before the folder appears, its answers are compared with the model's own on image files, and timed.

    Example: homefold export model --to onnx --out model-onnx
    """

    model: Annotated[Path, Positional("MODEL")]
    """The folder of a model."""
    out: Annotated[Path, Arg("FOLDER")]
    """The folder to write: model.onnx, preprocessor.json and README.md."""
    to: Literal["onnx"] = "onnx"
    """The format."""
    overwrite: bool = False
    """Replace an earlier export."""
    json: JsonFlag = False
    plugin: PluginFlag = ()


def run(arguments: Sequence[str]) -> int:
    """Export and say what came out."""
    options = parse(ExportOptions, "export", arguments)
    # These import torch, which --help does not need.
    from homefold.export import export_onnx
    from homefold.model import Homefold

    model = Homefold.load(options.model, device="cpu")
    found = export_onnx(model, options.out, overwrite=options.overwrite)
    size = sum(file.stat().st_size for file in options.out.iterdir())
    if options.json:
        print_json({**asdict(found), "folder": str(found.folder), "size_bytes": size})
        return 0
    facts = {
        "Written": f"{found.folder} ({show_bytes(size)})",
        "Graph": f"{found.nodes} nodes, the search as {'one loop' if found.loop else 'steps one after the other'}",
        "Compared": f"{found.images} images: all labels equal, probabilities within "
        f"{found.probability_difference:.1e}, cosine distances within {found.distance_difference:.1e}",
        "Speed": f"{found.times_eager:.2f} times the time of torch for 13 images, one thread",
    }
    result_console().print(fact_table(facts))
    return 0
