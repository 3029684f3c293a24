"""Tensors of a file for a module: exactly those that it holds, by name, shape and dtype, and finite."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from homefold.errors import ModelFileError, cut, shown

__all__ = ["load_exactly", "module_digest", "rebuilt", "require_finite", "require_same"]

M = TypeVar("M", bound=nn.Module)


def rebuilt(
    build: Callable[[], M], tensors: Mapping[str, torch.Tensor], what: str, *, may_be_infinite: Collection[str] = ()
) -> M:
    """The module that `build` makes, holding `tensors`.

    Weights are never drawn at random only to be replaced. That takes most of the time, and memory that no one has where
    a description asks for sizes that its tensors do not have: what is not written to is not taken from the system.

    `what` they are called begins the sentence that refuses them; the values of those that `may_be_infinite` may be.
    """
    with _NothingDrawn():
        try:
            module = build()
        except RuntimeError as error:  # more than the system could ever give, or no number of bytes at all
            raise ModelFileError(f"{what} cannot be built ({cut(str(error))}).") from None
        load_exactly(module, tensors, what)
    require_finite({name: value for name, value in tensors.items() if name not in may_be_infinite}, what)
    return module


class _NothingDrawn(TorchFunctionMode):
    """Inside, parameters are left as they were allocated."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        drawn = func in (torch.Tensor.normal_, torch.Tensor.uniform_) and isinstance(args[0], nn.Parameter)
        if drawn or getattr(func, "__module__", "") == nn.init.__name__:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def load_exactly(module: nn.Module, tensors: Any, what: str) -> None:
    """Load `tensors` into a module; a `ModelFileError` where they are not those of its `state_dict`, by name, shape and
    dtype."""
    _require_tensors(tensors, what)
    problem = ""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        problem = str(error)
    require_same(module.state_dict(), tensors, what)
    if problem:
        raise ModelFileError(f"{what} cannot be loaded ({cut(problem)}).")


def module_digest(module: nn.Module) -> str:
    """24 hex digits that stand for a module's structure and weights; not for its code."""
    hasher = hashlib.sha256(repr(module).encode())
    for name, value in module.state_dict().items():
        hasher.update(name.encode())
        hasher.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return hasher.hexdigest()[:24]


def require_finite(tensors: Mapping[str, torch.Tensor], what: str) -> None:
    """Refuse NaN and infinity."""
    for name, value in tensors.items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise ModelFileError(f"{what} cannot be used: {shown(name)} holds NaN or infinite values.")


def require_same(expected: Mapping[str, torch.Tensor], found: Any, what: str) -> None:
    """Refuse tensors of other names, shapes or dtypes than are expected."""
    _require_tensors(found, what)
    for name, wanted in expected.items():
        if name not in found:
            raise ModelFileError(f"{what} does not fit: the tensor {shown(name)} is missing.")
        given = found[name]
        if given.shape != wanted.shape or given.dtype != wanted.dtype:
            raise ModelFileError(
                f"{what} does not fit: {shown(name)} should be {_outline(wanted)}, and is {_outline(given)}."
            )
    if unknown := [name for name in found if name not in expected]:
        raise ModelFileError(f"{what} does not fit: there should be no tensor {shown(unknown[0])}.")


def _require_tensors(found: Any, what: str) -> None:
    if not isinstance(found, Mapping) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise ModelFileError(f"{what} should be tensors by name; got {shown(found)}.")


def _outline(tensor: torch.Tensor) -> str:
    shape = cut(" × ".join(map(str, tensor.shape))) or "one number"
    return f"{shape} of {str(tensor.dtype).removeprefix('torch.')}"
