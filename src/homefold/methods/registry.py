"""Methods by name; `wrapper+method` names a test-time method on top of another, `method:name=value` settings.

What there is to say of a method stands in the decorator of its class, in plain text and numbers. So the methods of this
package are listed by reading their files, and a file is imported, with all that it needs, when its method is used.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from homefold.config.grammar import split_settings
from homefold.config.migration import current_names
from homefold.errors import ConfigError
from homefold.runtime.registry import Registry

if TYPE_CHECKING:
    from homefold.methods.base import Method, TestTimeMethod
    from homefold.methods.recipe import Recipe

__all__ = [
    "AUTHORS",
    "METHODS",
    "OURS",
    "RECIPES",
    "MethodEntry",
    "MethodInfo",
    "find_method",
    "list_methods",
    "method_named",
    "own_titles",
    "recipe_followed",
    "register_method",
    "register_test_time_method",
    "typed_settings",
    "under_our_recipe",
    "wrapped_by_default",
]

C = TypeVar("C")


@dataclass(frozen=True)
class MethodInfo:
    """What a person wants to know of a method before running it.

    Args:
        name: what people type.
        title: what tables show.
        year: of its publication.
        reference: where it was published.
        summary: what it does, in one sentence.
        needs_domain_labels: whether training needs to know each image's domain.
        touches_target: whether it learns from target images at test time.
        stateless: whether an answer depends on the model, the image and the seed alone.
    """

    name: str
    title: str
    year: int
    reference: str
    summary: str
    _: KW_ONLY
    needs_domain_labels: bool = False
    touches_target: bool = False
    stateless: bool = True

    def wrapping(self, base: MethodInfo) -> MethodInfo:
        """What a test-time method is on top of another: it needs, touches and remembers what either of them does."""
        return replace(
            self,
            name=f"{self.name}+{base.name}",
            title=f"{self.title} on {base.title}",
            needs_domain_labels=self.needs_domain_labels or base.needs_domain_labels,
            touches_target=self.touches_target or base.touches_target,
            stateless=self.stateless and base.stateless,
        )


@dataclass(frozen=True)
class MethodEntry:
    """One method, that the module `place` registers."""

    info: MethodInfo
    """What it is; of a test-time method, on top of the method that it wraps by default."""
    wraps: str
    """The name of that method; empty for a training-time method."""
    place: str
    make: Method | Callable[[Method], TestTimeMethod] | None = None
    """The method itself, or what puts a test-time method on top of another; None where `place` is to be asked."""


AUTHORS, OURS = "authors", "ours"
RECIPES = (AUTHORS, OURS)
"""By whose recipe a method runs: that of its own authors, or the one that this package's method has."""

_FIRST = (f"{__package__}.training.deep_all", f"{__package__}.training.paper")

_imported: dict[str, object] = {}

METHODS: Registry[MethodEntry] = Registry(
    "method",
    order=lambda entry: (entry.wraps != "", entry.place not in _FIRST, entry.place in _FIRST or entry.info.year),
    also="or bring your own in a plugin",
)


def method_named(name: str, *words: Any, wraps: str = "", **flags: Any) -> Callable[[C], C]:
    """Register the decorated class, or a function that makes a training-time method of its `MethodInfo`.

    All is written as plain text and numbers, or as constants of the file that are, since it is read from there too.

    Args:
        name: what people type.
        *words: title, year, reference and summary, as in `MethodInfo`.
        wraps: the method that a test-time method stands on when none is named.
        **flags: those of `MethodInfo` that are not as usual.
    """
    info = MethodInfo(name, *words, **flags)

    def keep(by: C) -> C:
        if isinstance(by, type):
            by.about = info  # type: ignore[attr-defined]
        make: Any = by
        if not wraps:
            make = make() if isinstance(by, type) else make(info)
        _register(_entry(info, wraps, by.__module__, make), by)
        return by

    return keep


def _entry(info: MethodInfo, wraps: str, place: str, make: Any = None) -> MethodEntry:
    alone = replace(info.wrapping(METHODS[wraps].info), name=info.name) if wraps else info
    return MethodEntry(alone, wraps, place, make)


def register_method(method: Method) -> None:
    """Make a method known by its name; a name can be taken once, but for the same class of the same file again."""
    _register(MethodEntry(method.info, "", type(method).__module__, method), type(method))


def register_test_time_method(
    name: str, wrap: Callable[[Method], TestTimeMethod], *, default: str = "deep-all"
) -> None:
    """Make a test-time method known: `name` wraps the default method, and `name+other` any other.

    Args:
        name: what people type.
        wrap: the test-time method on top of the one it is given.
        default: name of a method that is registered already.
    """
    alone = replace(wrap(find_method(default)).info, name=name)
    _register(MethodEntry(alone, default, wrap.__module__, wrap), wrap)


def _register(entry: MethodEntry, by: Any) -> None:
    name = entry.info.name
    if "+" in name:
        raise ValueError(f"{name!r} has a plus in it, which joins a test-time method and the method it wraps")
    if ":" in name:
        raise ValueError(f"{name!r} has a colon in it, which stands before a method's settings")
    if name in METHODS and METHODS[name].place == entry.place and name not in _imported:
        _imported[name] = entry.make
    else:
        METHODS.add(name, entry, by)


def find_method(name: str, backbone: str = "", recipe: str = AUTHORS) -> Method:
    """The method called `name`, or a test-time method on top of another as `wrapper+method`.

    Hyper-parameters of a method's own follow its name: `jigen:weight=0.3,ordered=0.9` or `tent:batch_size=32+vae`.
    Dotted names among them are settings of the configuration that is common to all methods of a benchmark, changed for
    this one: `vae:search.steps=100,manifold.kl_weight=0.01`. `recipe=ours` or `recipe=authors` says by whose recipe it
    runs.

    Args:
        name: as people type it.
        backbone: the network to run it on as its authors would; without one it has the defaults of its settings.
        recipe: whose recipe it follows where its name does not say, `authors` or `ours`.

    >>> find_method("vae").info.title
    'Full method (VAE)'
    >>> find_method("memo:copies=16+jigen:weight=0.3").base.weight
    0.3
    >>> find_method("vae:search.steps=100").info.title
    'Full method (VAE) (search.steps=100)'
    """
    from homefold.methods.settings import configured, with_settings

    first, _, rest = name.partition("+")
    plain, colon, settings = first.partition(":")
    entry = METHODS[plain]
    if entry.wraps:
        base = find_method(rest or entry.wraps, backbone, recipe)
        if rest and METHODS[_plain_name(rest)].wraps:
            raise ConfigError(f"{plain} wraps a training-time method, and {rest} is a test-time method itself.")
        method = cast(Callable[["Method"], "Method"], _made(entry))(base)
    elif not rest:
        method = cast("Method", _made(entry))
    else:
        method = cast("Method", METHODS[name])  # which there is not
    common, own = split_settings(settings) if colon else ((), ())
    own, followed = _recipe_for(method, own, backbone, recipe)
    if followed is not None:
        method = method.varied(**followed.own)
    method = with_settings(method, ",".join(own)) if own or (colon and not settings) else method
    return configured(method, common, None if followed is None else followed.training)


def _recipe_for(
    method: Method, own: tuple[str, ...], backbone: str, recipe: str
) -> tuple[tuple[str, ...], Recipe | None]:
    """The settings that are no recipe, and the authors' recipe if the method follows it on this network."""
    from homefold.methods.recipe import kind_of_network

    asked = [part.partition("=")[2] for part in own if part.partition("=")[0] == "recipe"]
    if asked and not method.recipes:
        raise ConfigError(f"{method.own_name} has no recipe of other authors to choose; leave out recipe={asked[0]}.")
    if len(asked) > 1 or not {*asked, recipe} <= set(RECIPES):
        wrong = ", ".join(f"recipe={value}" for value in asked or [recipe])
        raise ConfigError(f"recipe of {method.own_name} is {' or '.join(RECIPES)}; got {wrong}.")
    followed = backbone and (asked or [recipe])[0] == AUTHORS
    left = tuple(part for part in own if part.partition("=")[0] != "recipe")
    return left, method.recipes.get(kind_of_network(backbone)) if followed else None


def recipe_followed(name: str, backbone: str, recipe: str = AUTHORS) -> str:
    """By whose recipe the method called `name` runs on a network: `authors`, if any part of it does, or `ours`."""
    for part in _parts(name):
        own = split_settings(part.partition(":")[2])[1]
        if _recipe_for(find_method(_plain_name(part)), own, backbone, recipe)[1] is not None:
            return AUTHORS
    return OURS


def under_our_recipe(name: str) -> str:
    """The name of the same method under this package's recipe, where it does not say otherwise.

    >>> under_our_recipe("jigen:weight=0.3"), under_our_recipe("vae"), under_our_recipe("tent+jigen")
    ('jigen:weight=0.3,recipe=ours', 'vae', 'tent:recipe=ours+jigen:recipe=ours')
    """
    found = []
    for part in name.split("+"):
        says = any(item.startswith("recipe=") for item in split_settings(part.partition(":")[2])[1])
        if find_method(_plain_name(part)).recipes and not says:
            part += f"{',' if ':' in part else ':'}recipe={OURS}"
        found.append(part)
    return "+".join(found)


def typed_settings(name: str) -> tuple[str, ...]:
    """The settings that follow the names of a method and of what it wraps, as candidates name them.

    >>> typed_settings("tent:steps=3+jigen:weight=0.3,features.epochs=5")
    ('steps', 'features.epochs', 'jigen:weight')
    """
    found: list[str] = []
    for place, part in enumerate(name.split("+")):
        plain, _, settings = part.partition(":")
        common, own = split_settings(settings)
        found += current_names({word.partition("=")[0]: None for word in common})
        found += [f"{plain}:{word}" if place else word for word in (word.partition("=")[0] for word in own) if word]
    return tuple(found)


def _parts(name: str) -> list[str]:
    """A test-time method and what it wraps, named or not; a training-time method alone."""
    parts = name.split("+")
    wrapped = METHODS[_plain_name(name)].wraps
    return [*parts, wrapped] if len(parts) == 1 and wrapped else parts


def _made(entry: MethodEntry) -> object:
    if entry.make is not None:
        return entry.make
    import_module(entry.place)
    return _imported[entry.info.name]


def _plain_name(name: str) -> str:
    """Without settings and without what it wraps."""
    return name.partition("+")[0].partition(":")[0]


def list_methods() -> tuple[MethodInfo, ...]:
    """Deep All and this package's own, others by year, then test-time methods, each on what it wraps by default."""
    return tuple(entry.info for entry in METHODS.values())


def wrapped_by_default() -> dict[str, str]:
    """By the name of each test-time method the name of the method that it wraps when none is named."""
    return {entry.info.name: entry.wraps for entry in METHODS.values() if entry.wraps}


def own_titles(name: str) -> dict[str, str]:
    """The titles of a method and of what it wraps, each by its plain name; of those that are registered."""
    entries = {plain: METHODS[plain] for plain in map(_plain_name, name.split("+")) if plain in METHODS}
    bases = {plain: f" on {METHODS[entry.wraps].info.title}" for plain, entry in entries.items() if entry.wraps}
    return {plain: entry.info.title.removesuffix(bases.get(plain, "")) for plain, entry in entries.items()}


def _read_entries() -> Iterator[MethodEntry]:
    """What the decorators in the files of this package say."""
    for folder in ("training", "test_time"):  # in this order: a test-time method says more of what it wraps
        for file in sorted((Path(__file__).parent / folder).glob("*.py")):
            content = file.read_text(encoding="utf-8")
            if f"\n@{method_named.__name__}(" not in content:
                continue
            module = ast.parse(content).body
            constants = {ast.unparse(node.targets[0]): node.value for node in module if isinstance(node, ast.Assign)}
            for call in (call for node in module for call in getattr(node, "decorator_list", ())):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == method_named.__name__:
                    words = [ast.literal_eval(constants.get(ast.unparse(word), word)) for word in call.args]
                    flags = {str(item.arg): ast.literal_eval(item.value) for item in call.keywords}
                    wraps = flags.pop("wraps", "")
                    yield _entry(MethodInfo(*words, **flags), wraps, f"{__package__}.{folder}.{file.stem}")


for _found in _read_entries():
    METHODS.add(_found.info.name, _found)
