"""What one writes first to label a folder of images: torchvision, a DataLoader, batches of 64. Used by `predict.py`.

python benchmarks/bare_loop.py FOLDER OUT --device cpu --workers 2
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models
from torchvision.transforms import v2


class Files(Dataset[torch.Tensor]):
    """Decoded and resized, one at a time."""

    def __init__(self, paths: Sequence[Path], side: int) -> None:
        self._paths = paths
        self._transform = v2.Compose([v2.Resize((side, side)), v2.PILToTensor()])

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with Image.open(self._paths[index]) as image:
            return self._transform(image.convert("RGB"))


@torch.no_grad()
def label(files: Sequence[Path], out: Path, device: torch.device, side: int, workers: int) -> None:
    """A network of torchvision's and a linear layer over all files."""
    net = models.resnet18(weights=None)
    net.fc = nn.Linear(512, 7)
    net = net.to(device).eval()
    mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225], device=device).view(1, 3, 1, 1)
    loader = DataLoader(Files(files, side), 64, num_workers=workers, pin_memory=device.type == "cuda")
    answers: list[int] = []
    for pixels in loader:
        given = (pixels.to(device, non_blocking=True).float() / 255 - mean) / deviation
        answers += net(given).softmax(1).argmax(1).tolist()
    out.write_text(json.dumps(dict(zip(map(str, files), answers, strict=True))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--side", type=int, default=224, help="image size in pixels")
    arguments = parser.parse_args()
    files = sorted(arguments.folder.iterdir())
    label(files, arguments.out, torch.device(arguments.device), arguments.side, arguments.workers)


if __name__ == "__main__":
    main()
