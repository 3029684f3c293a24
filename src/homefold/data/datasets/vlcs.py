"""VLCS: photographs of five kinds of things from four older collections."""

from __future__ import annotations

from homefold.data.index import ImageIndex, LoadRequest
from homefold.data.layout import Layout, find_images_of
from homefold.data.registry import DatasetEntry, register_dataset

__all__ = ["find_vlcs"]

_LAYOUT = Layout(
    "vlcs",
    domains={
        "caltech": ("caltech101",),
        "labelme": (),
        "pascal": ("voc2007", "voc", "pascalvoc2007"),
        "sun": ("sun09",),
    },
    classes={"bird": ("0",), "car": ("1",), "chair": ("2",), "dog": ("3",), "person": ("4",)},
    overlapping_splits=True,
)


@register_dataset(
    DatasetEntry(
        name="vlcs",
        description="Birds, cars, chairs, dogs and people from Caltech101, LabelMe, VOC2007 and SUN09: 10,729 photos.",
        source="DomainBed's download script, or the copy with splits that JiGen and Dassl link to",
        licence="research use; each of the four collections has its own terms",
        layout="<root>/<domain>/<class>/<image> (VOC2007, LabelMe, Caltech101, SUN09), or "
        "<root>/<domain>/{train,crossval,test,full}/<class>/<image> (PASCAL, LABELME, CALTECH, SUN; classes 0 to 4)",
        domains=tuple(_LAYOUT.domains),
        classes=tuple(_LAYOUT.classes),
        split_rule="the folders train, crossval and test",
        # Of each class no published table was found, so domains are compared as a whole.
        published={"caltech": 1415, "labelme": 2656, "pascal": 3376, "sun": 3282},
    )
)
def find_vlcs(request: LoadRequest) -> ImageIndex:
    """The images of VLCS, with its splits where they are folders."""
    return find_images_of(_LAYOUT, request)
