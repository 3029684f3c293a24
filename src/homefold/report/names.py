"""What methods are called in tables, in which order they stand, and which one is whose control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from homefold.config.grammar import split_settings
from homefold.methods.registry import own_titles, wrapped_by_default

__all__ = [
    "FULL",
    "OURS",
    "control_of",
    "full_method",
    "in_order",
    "plain_key",
    "remember_titles",
    "short_name",
    "shown_name",
]

OURS = {
    "deep-all": ("Deep All", "Deep All"),
    "without-projection": ("w/o G_φ (no projection)", "w/o G_φ"),
    "without-features": ("w/o f_θ (projected Deep All)", "w/o f_θ"),
    "nearest": ("1-NN in place of G_φ", "1-NN of f_θ"),
    "gan": ("Full method, GAN", "GAN"),
    "vae": ("Full method, VAE", "VAE"),
}
"""By key: the name in tables, and a short one for legends."""

_TITLES: dict[str, str] = {}
"""Titles of methods that are not the package's, by key, as records say them."""

FULL = ("vae", "gan", "nearest")
"""Methods that project onto the manifold of f's features, the paper's own first."""

# How an image is seen decides its feature, whether or not that is projected.
# As records of earlier versions call it; now all of look is of the features.
_OF_FEATURES = ("projection.views", "projection.mirror", "projection.textures", "projection.tints")


def shown_name(method: str) -> str:
    """The method's name in tables; an unknown one is called by its key, a test-time method names what it wraps.

    >>> shown_name("tent+vae"), shown_name("jigen:weight=0.3")
    ('Tent on Full method, VAE', 'JiGen (weight=0.3)')
    """
    return _name(method, 0)


def short_name(method: str) -> str:
    """The method's name in legends."""
    return _name(method, 1)


def _name(method: str, length: int) -> str:
    if method in OURS:
        return OURS[method][length]
    own, _, base = method.partition("+")
    own, colon, settings = own.partition(":")
    shown = OURS[own][length] if own in OURS else _TITLES.get(own) or own_titles(own).get(own, own)
    if colon:
        shown += f" ({settings.replace(',', ', ')})"
    # Alone it would look like the 1-NN of the paper's ablation, which searches f's features.
    base = base or ("deep-all" if own == "1-nn" else "")
    return f"{shown} on {_name(base, length)}" if base else shown


def remember_titles(titles: Mapping[str, str]) -> None:
    """Call methods so from now on: whoever reads records need not have the plugin that their methods are from."""
    _TITLES.update(titles)


def in_order(methods: Iterable[str]) -> list[str]:
    """Deep All, then methods of others by name, then ours, the full one last."""
    ours = list(OURS)

    def place(method: str) -> tuple[int, int, str]:
        own = _without_settings(method)
        return (0 if own == "deep-all" else 2, ours.index(own), method) if own in OURS else (1, 0, method)

    return sorted(dict.fromkeys(methods), key=place)


def control_of(method: str, present: Iterable[str]) -> str | None:
    """What a method must beat: for a projection the same features without it, for all else Deep All.

    A test-time method that wraps another must beat that other one.

    >>> control_of("tent+vae", ["deep-all", "vae", "tent+vae"])
    'vae'
    >>> control_of("vae:search.steps=9", ["deep-all", "without-projection", "vae"])
    'without-projection'
    """
    own, _, base = method.partition("+")
    base = base or wrapped_by_default().get(own.partition(":")[0], "")
    full = _without_settings(method) in FULL
    wanted = (*_unprojected(method), "deep-all") if full else (base, "deep-all")
    present = set(present)
    return next((name for name in wanted if name in present and name != method), None)


def _without_settings(method: str) -> str:
    """`vae` for `vae:search.steps=9`; a test-time method on another stays as it is."""
    return method if "+" in method else method.partition(":")[0]


def _unprojected(method: str) -> list[str]:
    """Names of the same features without projection or styles moved: under all other settings, under f's and C's."""
    text = method.partition(":")[2]
    settings = [part for parts in split_settings(text) for part in parts] if text else []
    others = [part for part in settings if not part.startswith("style.")]
    of_features = [part for part in others if not _of_projection(part)]
    plain = "without-projection"
    # Where f or C is another one, what is plain differs from the method by more than its projection.
    return [
        *(f"{plain}:{','.join(parts)}" for parts in (others, of_features) if parts),
        *([] if of_features else [plain]),
    ]


def _of_projection(setting: str) -> bool:
    """Whether it decides nothing where features are classified as they are."""
    name = setting.partition("=")[0]
    return name.startswith(("manifold.", "search.", "projection.")) and name not in _OF_FEATURES


def full_method(present: Iterable[str]) -> str | None:
    """The method that stands for the whole of the paper's, of those that were run."""
    present = set(present)
    return next((name for name in FULL if name in present), None)


def plain_key(name: str) -> str:
    """A name reduced to what spellings of it share.

    >>> plain_key("Office-Home") == plain_key("office_home")
    True
    """
    return "".join(letter for letter in name.lower() if letter.isalnum())
