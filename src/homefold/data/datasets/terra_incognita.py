"""TerraIncognita: animals before four camera traps, as DomainBed chose them."""

from __future__ import annotations

from homefold.data.index import ImageIndex, LoadRequest
from homefold.data.layout import Layout, find_images_of
from homefold.data.registry import DatasetEntry, register_dataset

__all__ = ["find_terra_incognita"]

_COUNTS = {"location_38": 9736, "location_43": 3970, "location_46": 5883, "location_100": 4741}
"""What DomainBed's download script makes today."""
_EARLIER = {"location_38": 9767, "location_43": 4020, "location_46": 6122, "location_100": 4879}
"""What it made in its first years, 24,788 images, by which most figures were found."""
_NAMES = "bird bobcat cat coyote dog empty opossum rabbit raccoon squirrel"
_LAYOUT = Layout(
    "terra-incognita",
    domains={name: (name.replace("location_", "L"),) for name in _COUNTS},
    classes=dict.fromkeys(_NAMES.split(), ()),
)


@register_dataset(
    DatasetEntry(
        name="terra-incognita",
        description="Nine kinds of animals, or none, before four camera traps: 24,330 photos.",
        source="DomainBed's download script, which takes them from Caltech Camera Traps (lila.science)",
        licence="Community Data License Agreement, permissive",
        layout="<root>/<location_38|location_43|location_46|location_100>/<class>/<image>",
        domains=tuple(_COUNTS),
        classes=tuple(_LAYOUT.classes),
        # Of each class none are published, so locations are compared as a whole.
        published=_COUNTS,
        earlier=_EARLIER,
    )
)
def find_terra_incognita(request: LoadRequest) -> ImageIndex:
    """The images of TerraIncognita; `L38` and `location_38` are the same."""
    return find_images_of(_LAYOUT, request)
