"""Methods by name; `wrapper+method` names a test-time method on top of another."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from homefold.errors import ConfigError
from homefold.methods.base import Method, MethodInfo, TestTimeMethod
from homefold.methods.ccsa import CCSA
from homefold.methods.crossgrad import CrossGrad
from homefold.methods.d_sam import DSam
from homefold.methods.ddaig import Ddaig
from homefold.methods.deep_all import DeepAllMethod
from homefold.methods.home import HomeMethod
from homefold.methods.jigen import Jigen
from homefold.methods.mmd_aae import MmdAae
from homefold.methods.mmld import Mmld
from homefold.methods.rsc import RSC

__all__ = ["find_method", "list_methods", "register_method", "register_test_time_method"]

_PAPER = "Pandey et al., CVPR 2021"

_methods: dict[str, Method] = {}
_wrappers: dict[str, Callable[[Method], TestTimeMethod]] = {}
_WRAPPED_BY_DEFAULT = "deep-all"


def register_method(method: Method) -> None:
    """Make a method known by its name; a name can be taken once."""
    _claim(method.info.name)
    _methods[method.info.name] = method


def register_test_time_method(name: str, wrap: Callable[[Method], TestTimeMethod]) -> None:
    """Make a test-time method known: `name` wraps Deep All, and `name+other` any other method.

    Args:
        name: what people type.
        wrap: the test-time method on top of the one it is given.
    """
    _claim(name)
    _wrappers[name] = wrap


def _claim(name: str) -> None:
    if name in _methods or name in _wrappers:
        raise ValueError(f"a method called {name!r} is registered already")
    if "+" in name:
        raise ValueError(f"{name!r} has a plus in it, which joins a test-time method and the method it wraps")


def find_method(name: str) -> Method:
    """The method called `name`, or a test-time method on top of another as `wrapper+method`.

    >>> find_method("vae").info.title
    'Full method (VAE)'
    """
    first, _, rest = name.partition("+")
    if first in _wrappers:
        return _wrappers[first](find_method(rest or _WRAPPED_BY_DEFAULT))
    if name in _methods:
        return _methods[name]
    known = [*_methods, *_wrappers]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise ConfigError(f"there is no method {name!r}; choose among {', '.join(known)}.{hint}")


def list_methods() -> tuple[MethodInfo, ...]:
    """What is registered, in that order; test-time methods on top of Deep All."""
    wrapped = [wrap(_methods[_WRAPPED_BY_DEFAULT]).info for wrap in _wrappers.values()]
    return (*(method.info for method in _methods.values()), *wrapped)


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
for method in (CCSA(), MmdAae(), CrossGrad(), Ddaig(), Jigen(), RSC(), DSam(), Mmld()):
    register_method(method)
