"""Office-Home: 65 kinds of everyday objects as art, clip art, product pictures and photographs."""

from __future__ import annotations

from homefold.data.index import ImageIndex, LoadRequest
from homefold.data.layout import Layout, find_images_of
from homefold.data.registry import DatasetEntry, register_dataset

__all__ = ["OFFICE_HOME_CLASSES", "find_office_home"]

_NAMES = """
    Alarm_Clock Backpack Batteries Bed Bike Bottle Bucket Calculator Calendar Candles Chair Clipboards Computer Couch
    Curtains Desk_Lamp Drill Eraser Exit_Sign Fan File_Cabinet Flipflops Flowers Folder Fork Glasses Hammer Helmet
    Kettle Keyboard Knives Lamp_Shade Laptop Marker Monitor Mop Mouse Mug Notebook Oven Pan Paper_Clip Pen Pencil
    Postit_Notes Printer Push_Pin Radio Refrigerator Ruler Scissors Screwdriver Shelf Sink Sneakers Soda Speaker Spoon
    TV Table Telephone ToothBrush Toys Trash_Can Webcam
"""
OFFICE_HOME_CLASSES = tuple(_NAMES.split())
_LAYOUT = Layout(
    "office-home",
    domains={"art": (), "clipart": (), "product": (), "real_world": ("real",)},
    classes=dict.fromkeys(OFFICE_HOME_CLASSES, ()),
)


@register_dataset(
    DatasetEntry(
        name="office-home",
        description="65 kinds of everyday objects as art, clip art, product pictures and photos: 15,588 images.",
        source="its authors' page (hemanthdv.org/officeHomeDataset.html), or DomainBed's download script",
        licence="non-commercial research and education",
        layout="<root>/<Art|Clipart|Product|Real World>/<class>/<image>, also with {train,val} between",
        domains=tuple(_LAYOUT.domains),
        classes=OFFICE_HOME_CLASSES,
        split_rule="none official; folders train and val where they are there",
        # Of each class none are published, so domains are compared as a whole.
        published={"art": 2427, "clipart": 4365, "product": 4439, "real_world": 4357},
    )
)
def find_office_home(request: LoadRequest) -> ImageIndex:
    """The images of Office-Home; `Real World`, `Real_World` and `RealWorld` are the same."""
    return find_images_of(_LAYOUT, request)
