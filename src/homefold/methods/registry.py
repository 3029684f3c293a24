"""Methods by name; `wrapper+method` names a test-time method on top of another, `method:name=value` settings."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from homefold.config.method_spec import split_settings
from homefold.errors import ConfigError
from homefold.methods.base import Method, MethodInfo, TestTimeMethod
from homefold.methods.configured import configured
from homefold.methods.origin import Origin, remember_code
from homefold.methods.settings import with_settings
from homefold.methods.test_time.class_means import ClassMeans
from homefold.methods.test_time.memo import Memo
from homefold.methods.test_time.one_nn import OneNearestNeighbour
from homefold.methods.test_time.shot_im import ShotIM
from homefold.methods.test_time.t3a import T3A
from homefold.methods.test_time.tent import Tent
from homefold.methods.test_time.ttt import TestTimeTraining
from homefold.methods.training.ccsa import CCSA
from homefold.methods.training.crossgrad import CrossGrad
from homefold.methods.training.d_sam import DSam
from homefold.methods.training.ddaig import Ddaig
from homefold.methods.training.deep_all import DeepAllMethod
from homefold.methods.training.home import HomeMethod
from homefold.methods.training.jigen import Jigen
from homefold.methods.training.mmd_aae import MmdAae
from homefold.methods.training.mmld import Mmld
from homefold.methods.training.rotation import Rotation
from homefold.methods.training.rsc import RSC

__all__ = ["find_method", "list_methods", "register_method", "register_test_time_method", "wrapped_by_default"]

_PAPER = "Pandey et al., CVPR 2021"


@dataclass(frozen=True)
class _Wrapper:
    wrap: Callable[[Method], TestTimeMethod]
    default: str


_methods: dict[str, Method] = {}
_wrappers: dict[str, _Wrapper] = {}
_origins: dict[str, Origin | None] = {}


def register_method(method: Method) -> None:
    """Make a method known by its name; a name can be taken once, but for the same class of the same file again."""
    _claim(method.info.name, type(method))
    _methods[method.info.name] = method


def register_test_time_method(
    name: str, wrap: Callable[[Method], TestTimeMethod], *, default: str = "deep-all"
) -> None:
    """Make a test-time method known: `name` wraps the default method, and `name+other` any other.

    Args:
        name: what people type.
        wrap: the test-time method on top of the one it is given.
        default: name of a method that is registered already.
    """
    _claim(name, wrap)
    _wrappers[name] = _Wrapper(wrap, default)


@contextmanager
def unless_it_fails() -> Iterator[None]:
    """What is registered inside stays, unless an error comes out."""
    kept = [(known, dict(known)) for known in (_methods, _wrappers, _origins)]
    try:
        yield
    except BaseException:
        for known, before in kept:
            known.clear()
            known.update(before)  # type: ignore[arg-type]
        raise


def _claim(name: str, by: Any) -> None:
    origin = remember_code(by)
    if (name in _methods or name in _wrappers) and (origin is None or origin != _origins[name]):
        raise ValueError(f"a method called {name!r} is registered already; give yours another name")
    if "+" in name:
        raise ValueError(f"{name!r} has a plus in it, which joins a test-time method and the method it wraps")
    if ":" in name:
        raise ValueError(f"{name!r} has a colon in it, which stands before a method's settings")
    _origins[name] = origin


def find_method(name: str) -> Method:
    """The method called `name`, or a test-time method on top of another as `wrapper+method`.

    Hyper-parameters of a method's own follow its name: `jigen:weight=0.3,ordered=0.9` or `tent:batch_size=32+vae`.
    Dotted names among them are settings of the configuration that is common to all methods of a benchmark, changed for
    this one: `vae:projection.steps=100,manifold.kl_weight=0.01`.

    >>> find_method("vae").info.title
    'Full method (VAE)'
    >>> find_method("memo:copies=16+jigen:weight=0.3").base.weight
    0.3
    >>> find_method("vae:projection.steps=100").info.title
    'Full method (VAE) (projection.steps=100)'
    """
    first, _, rest = name.partition("+")
    plain, colon, settings = first.partition(":")
    if plain in _wrappers:
        wrapper = _wrappers[plain]
        base = find_method(rest or wrapper.default)
        if _plain_name(rest) in _wrappers:
            raise ConfigError(f"{plain} wraps a training-time method, and {rest} is a test-time method itself.")
        method: Method = wrapper.wrap(base)
    elif plain in _methods and not rest:
        method = _methods[plain]
    else:
        raise _unknown(name if plain in _methods else plain)
    if not colon:
        return method
    common, own = split_settings(settings)
    return configured(with_settings(method, ",".join(own)) if own else method, common)


def _plain_name(name: str) -> str:
    """Without settings and without what it wraps."""
    return name.partition("+")[0].partition(":")[0]


def _unknown(name: str) -> ConfigError:
    known = [*_methods, *_wrappers]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return ConfigError(
        f"there is no method {name!r}; choose among {', '.join(known)}, or bring your own by --plugin FILE.py.{hint}"
    )


def list_methods() -> tuple[MethodInfo, ...]:
    """What is registered, in that order; then test-time methods, each on top of the method it wraps by default."""
    wrapped = [replace(wrapper.wrap(_methods[wrapper.default]).info, name=name) for name, wrapper in _wrappers.items()]
    return (*(method.info for method in _methods.values()), *wrapped)


def wrapped_by_default() -> dict[str, str]:
    """By the name of each test-time method the name of the method that it wraps when none is named."""
    return {name: wrapper.default for name, wrapper in _wrappers.items()}


def _info(name: str, title: str, summary: str) -> MethodInfo:
    return MethodInfo(
        name=name,
        title=title,
        year=2021,
        needs_domain_labels=False,
        touches_target=False,
        stateless=True,
        reference=_PAPER,
        summary=summary,
    )


register_method(DeepAllMethod())
register_method(
    HomeMethod(
        _info("without-projection", "w/o G", "The features of the method and its classifier, without projection."),
        manifold=None,
    )
)
register_method(
    HomeMethod(
        _info("without-features", "w/o f", "Projection on the features of Deep All."),
        features="deep-all",
    )
)
register_method(
    HomeMethod(_info("nearest", "1-NN", "The nearest source feature stands for the projection."), manifold="nearest")
)
register_method(HomeMethod(_info("vae", "Full method (VAE)", "Projection onto the manifold of a VAE.")))
register_method(HomeMethod(_info("gan", "Full method (GAN)", "Projection onto the manifold of a GAN."), manifold="gan"))
for method in (CCSA(), MmdAae(), CrossGrad(), Ddaig(), Jigen(), RSC(), DSam(), Mmld(), Rotation()):
    register_method(method)

register_test_time_method("1-nn", OneNearestNeighbour)
register_test_time_method("class-means", ClassMeans)
register_test_time_method("t3a", T3A)
register_test_time_method("tent", Tent)
register_test_time_method("ttt", TestTimeTraining, default="rotation")
register_test_time_method("shot-im", ShotIM)
register_test_time_method("memo", Memo)
