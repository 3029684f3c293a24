"""Backbones by name: torchvision's, timm's, and the two small networks of the paper."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from homefold.errors import ConfigError, ModelFileError, shown
from homefold.features.residual import RESIDUAL_NETWORKS, build_resnet

__all__ = [
    "DigitsNet",
    "WideResNet",
    "build_backbone",
    "find_weights",
    "list_backbones",
    "output_dim",
    "output_for_one_image",
]

_LARGE_PX = 512


class DigitsNet(nn.Sequential):
    """The small network for 32×32 digits: four blocks of 3×3 convolution, ReLU and 2×2 max-pooling, then flatten.

    At 32×32 and width 64 its output has 256 values, none of them negative: under L_A it needs a head, since
    features of one sign cannot be pushed apart.

    Args:
        width: channels of every block.
        batch_norm: normalise after each convolution (not in the paper; trains faster from scratch).
    """

    def __init__(self, width: int = 64, *, batch_norm: bool = False) -> None:
        layers: list[nn.Module] = []
        channels = 3
        for _ in range(4):
            # Pooling first gives the same values as ReLU first and leaves a quarter of the pixels to work on.
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=not batch_norm), nn.MaxPool2d(2)]
            if batch_norm:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.ReLU())
            channels = width
        super().__init__(*layers, nn.Flatten())
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


class _WideBlock(nn.Module):
    """Pre-activation residual block: BN-ReLU-conv twice, with a 1×1 shortcut where the shape changes."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        same = channels_in == channels_out and stride == 1
        self.shortcut = None if same else nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        active = torch.relu(self.norm1(x))
        residual = x if self.shortcut is None else self.shortcut(active)
        return residual + self.conv2(torch.relu(self.norm2(self.conv1(active))))


class WideResNet(nn.Module):
    """WRN-depth-width for 32×32 images, without its last layer; depth 16 and width 4 give 256 features.

    Args:
        depth: 6n + 4 for n blocks a group.
        width: multiplies the 16, 32 and 64 channels of the three groups.
    """

    def __init__(self, depth: int = 16, width: int = 4) -> None:
        super().__init__()
        if (depth - 4) % 6:
            raise ConfigError(f"a wide residual network has depth 6n + 4; got {depth}.")
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        blocks: list[nn.Module] = []
        channels = 16
        for group, base in enumerate((16, 32, 64)):
            for index in range((depth - 4) // 6):
                blocks.append(_WideBlock(channels, base * width, 2 if group and not index else 1))
                channels = base * width
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(channels)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.blocks(self.stem(x)))).mean(dim=(2, 3))


def _torchvision_backbone(name: str) -> nn.Module:
    if name in RESIDUAL_NETWORKS:
        return build_resnet(name)
    import torchvision

    model: nn.Module = getattr(torchvision.models, name)(weights=None)
    model.classifier = model.classifier[:-1]  # type: ignore[index]
    return model


_TORCHVISION = (*RESIDUAL_NETWORKS, "alexnet")
_OWN: dict[str, Callable[[], nn.Module]] = {
    "digits": DigitsNet,
    "digits-bn": lambda: DigitsNet(batch_norm=True),
    "wrn-16-4": WideResNet,
}


def list_backbones() -> list[str]:
    """Every name that `build_backbone` knows, beside `timm:<name>`.

    >>> "resnet18" in list_backbones() and "wrn-16-4" in list_backbones()
    True
    """
    return [*_TORCHVISION, *_OWN]


def build_backbone(name: str, weights: str = "none") -> nn.Module:
    """The network called `name` without its last layer, ready to give `(n, d)` features for images.

    Args:
        name: one of `list_backbones()`, or `timm:<name>` with the `timm` extra installed.
        weights: `none`; `torchvision` or `timm` for the published ones, downloaded on first use; or a path to a
            safetensors or torch file; `auto` takes the published ones if they lie in the local cache, and asks
            otherwise.
    """
    if name.startswith("timm:"):
        return _timm_backbone(name.removeprefix("timm:"), weights)
    if name in _OWN:
        model = _OWN[name]()
        if weights in ("none", "auto"):
            return model
        if weights == "torchvision":
            raise ConfigError(f"torchvision has no weights for {name!r}; choose weights none or a file.")
    elif name in _TORCHVISION:
        model = _torchvision_backbone(name)
        if weights == "none":
            return model
    else:
        raise ConfigError(
            f"there is no backbone {shown(name)}; choose one of {', '.join(list_backbones())}, or timm:<name>."
        )
    path = find_weights(name, weights)
    _load_weights(model, _torchvision_state(name) if path is None else _read_weights(path), name, str(path or weights))
    return model


def _torchvision_weights(name: str) -> tuple[str, Path]:
    """The address of torchvision's default weights for `name`, and the file that torch.hub keeps them in."""
    import torchvision

    url = torchvision.models.get_model_weights(name).IMAGENET1K_V1.url
    return url, Path(torch.hub.get_dir()) / "checkpoints" / Path(url).name


def find_weights(name: str, weights: str) -> Path | None:
    """The local file that `weights` stands for; None when torchvision's must be downloaded, as the user asked."""
    if weights in ("auto", "torchvision"):
        _, cached = _torchvision_weights(name)
        if cached.exists():
            return cached
        if weights == "torchvision":
            return None
        raise ConfigError(
            f"{name} starts from ImageNet weights, and none lie in {cached.parent}. Choose: --weights torchvision to "
            f"download them once, --weights FILE for a safetensors or .pth file of yours, or --weights none to train "
            f"from scratch (needs far more images); or another network with --backbone."
        )
    path = Path(weights)
    if not path.is_file():
        raise ConfigError(
            f"the weights file {weights} does not exist; give a safetensors or .pth file, torchvision, or none."
        )
    return path


def _torchvision_state(name: str) -> dict[str, torch.Tensor]:
    url, cached = _torchvision_weights(name)
    try:
        return torch.hub.load_state_dict_from_url(url, progress=False, check_hash=True, weights_only=True)
    except OSError as error:
        raise ModelFileError(
            f"torchvision's weights for {name} could not be downloaded from {url} ({error}). Put the file at {cached}, "
            f"or name another one with --weights FILE."
        ) from None


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name from a safetensors file, or from a torch file read without running code."""
    try:
        if path.suffix == ".safetensors":
            return load_file(str(path))
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, RuntimeError, OSError, ValueError, EOFError, KeyError) as error:
        raise ModelFileError(f"the weights file {path} cannot be read ({error}).") from None
    except Exception as error:  # torch raises pickle errors of several kinds for files that are no plain state
        raise ModelFileError(f"the weights file {path} is not a plain state dict of tensors ({error}).") from None
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ModelFileError(f"the weights file {path} does not hold tensors by name.")
    return {key.removeprefix("module."): value for key, value in state.items()}


def _load_weights(model: nn.Module, state: dict[str, torch.Tensor], name: str, origin: str) -> None:
    own = model.state_dict()
    usable = {key: value.to(own[key].dtype) for key, value in state.items() if key in own}
    absent = [key for key in own if key not in usable and not key.endswith("num_batches_tracked")]
    wrong = [key for key in usable if usable[key].shape != own[key].shape]
    if absent or wrong:
        example, first = (absent or wrong)[0], next(iter(state), None)
        raise ModelFileError(
            f"{origin} does not hold weights of {name}: {len(absent)} tensors are missing and {len(wrong)} have "
            f"another shape (for example {example!r}); it has {len(state)} tensors, such as {first!r}. Give a file of "
            f"{name}, or choose the network that this one belongs to with --backbone."
        )
    model.load_state_dict(usable, strict=False)


def _timm_backbone(name: str, weights: str) -> nn.Module:
    try:
        import timm
    except ImportError:
        raise ConfigError(f"timm:{name} needs the timm package: pip install 'homefold[timm]'.") from None
    if not timm.is_model(name):
        near = timm.list_models(f"*{name.split('_')[0]}*")[:5]
        raise ConfigError(f"timm has no model {shown(name)}; close names: {', '.join(near) or 'none'}.")
    if weights == "auto":
        raise ConfigError(
            f"timm:{name} may start from published weights: choose --weights timm to download them, --weights FILE, or "
            f"--weights none."
        )
    model: nn.Module = timm.create_model(name, pretrained=weights == "timm", num_classes=0)
    if weights not in ("none", "timm"):
        path = find_weights(name, weights)
        assert path is not None
        _load_weights(model, _read_weights(path), f"timm:{name}", weights)
    return model


def output_dim(backbone: nn.Module, image_size: tuple[int, int]) -> int:
    """How many features `backbone` gives for images of `(height, width)`, found by asking it."""
    try:
        features = output_for_one_image(backbone, image_size)
    except RuntimeError as error:
        raise ConfigError(
            f"the backbone cannot take images of {image_size[0]}×{image_size[1]} pixels ({error}); choose another "
            f"--image-size."
        ) from None
    if features.ndim != 2 or features.shape[1] == 0:
        raise ConfigError(
            f"a backbone must turn (n, 3, h, w) images into (n, d) features; for {image_size[0]}×{image_size[1]} "
            f"pixels it gave shape {tuple(features.shape)}."
        )
    return int(features.shape[1])


@torch.no_grad()
def output_for_one_image(backbone: nn.Module, image_size: tuple[int, int]) -> torch.Tensor:
    """What `backbone` gives for one image, for its shape; the network is left as it was.

    A large image takes gigabytes on its way, so that only the outline of the network is asked, where that can answer.
    """
    if max(image_size) > _LARGE_PX:
        try:
            outline = copy.deepcopy(backbone).to("meta").eval()
            return _forward(outline, image_size)
        except RuntimeError:  # a network of the user's own may look at values on its way
            pass
    was_training = backbone.training
    backbone.eval()
    try:
        return _forward(backbone, image_size)
    finally:
        backbone.train(was_training)


def _forward(network: nn.Module, image_size: tuple[int, int]) -> torch.Tensor:
    parameter = next(network.parameters(), torch.zeros(()))
    output: torch.Tensor = network(torch.zeros(1, 3, *image_size, device=parameter.device, dtype=parameter.dtype))
    return output
