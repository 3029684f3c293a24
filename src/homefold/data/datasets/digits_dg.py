"""Digits-DG: the ten digits as handwriting, on photographs, on houses and rendered from fonts."""

from __future__ import annotations

from homefold.data.index import ImageIndex, LoadRequest
from homefold.data.layout import Layout, find_images_of
from homefold.data.registry import DatasetEntry, register_dataset

__all__ = ["find_digits_dg"]

_LAYOUT = Layout(
    "digits-dg",
    domains={"mnist": (), "mnist_m": (), "svhn": (), "syn": ("synth", "syn_digits")},
    classes=dict.fromkeys("0123456789", ()),
)


@register_dataset(
    DatasetEntry(
        name="digits-dg",
        description="Digits of MNIST, MNIST-M, SVHN and SYN: 600 a class and domain, 24,000 images of 32 px.",
        source="the authors of L2A-OT and DDAIG link to it (digits_dg.zip); Dassl's instructions name the place",
        licence="that of MNIST, MNIST-M, SVHN (non-commercial) and SYN",
        layout="<root>/<domain>/{train,val}/<digit>/<image>, in folders or a zip",
        domains=tuple(_LAYOUT.domains),
        classes=tuple(_LAYOUT.classes),
        split_rule="the folders train and val",
        published={domain: dict.fromkeys(_LAYOUT.classes, 600) for domain in _LAYOUT.domains},
        usual_size=(32, 32),
    )
)
def find_digits_dg(request: LoadRequest) -> ImageIndex:
    """The images of Digits-DG, with its official `train` and `val`."""
    return find_images_of(_LAYOUT, request)
