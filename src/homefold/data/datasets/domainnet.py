"""DomainNet: 345 kinds of things as clip art, infographics, paintings, quick drawings, photos and sketches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np

from homefold.data.index import ImageIndex, LoadRequest
from homefold.data.layout import Layout, find_images_of
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.data.split_lists import SplitList, lists_beside, lists_packed
from homefold.errors import DataError
from homefold.runtime.text import some

__all__ = ["DOMAINNET_CLASSES", "find_domainnet"]

_COUNTS = {
    "clipart": 48129,
    "infograph": 51605,
    "painting": 72266,
    "quickdraw": 172500,
    "real": 172947,
    "sketch": 69128,
}
"""Images of the official lists together; the lists of clipart and painting are the cleaned ones."""
_NAMES = """
    aircraft_carrier airplane alarm_clock ambulance angel animal_migration ant anvil apple arm asparagus axe
    backpack banana bandage barn baseball baseball_bat basket basketball bat bathtub beach bear beard bed bee belt
    bench bicycle binoculars bird birthday_cake blackberry blueberry book boomerang bottlecap bowtie bracelet brain
    bread bridge broccoli broom bucket bulldozer bus bush butterfly cactus cake calculator calendar camel camera
    camouflage campfire candle cannon canoe car carrot castle cat ceiling_fan cello cell_phone chair chandelier
    church circle clarinet clock cloud coffee_cup compass computer cookie cooler couch cow crab crayon crocodile
    crown cruise_ship cup diamond dishwasher diving_board dog dolphin donut door dragon dresser drill drums duck
    dumbbell ear elbow elephant envelope eraser eye eyeglasses face fan feather fence finger fire_hydrant fireplace
    firetruck fish flamingo flashlight flip_flops floor_lamp flower flying_saucer foot fork frog frying_pan garden
    garden_hose giraffe goatee golf_club grapes grass guitar hamburger hammer hand harp hat headphones hedgehog
    helicopter helmet hexagon hockey_puck hockey_stick horse hospital hot_air_balloon hot_dog hot_tub hourglass
    house house_plant hurricane ice_cream jacket jail kangaroo key keyboard knee knife ladder lantern laptop leaf
    leg light_bulb lighter lighthouse lightning line lion lipstick lobster lollipop mailbox map marker matches
    megaphone mermaid microphone microwave monkey moon mosquito motorbike mountain mouse moustache mouth mug
    mushroom nail necklace nose ocean octagon octopus onion oven owl paintbrush paint_can palm_tree panda pants
    paper_clip parachute parrot passport peanut pear peas pencil penguin piano pickup_truck picture_frame pig pillow
    pineapple pizza pliers police_car pond pool popsicle postcard potato power_outlet purse rabbit raccoon radio
    rain rainbow rake remote_control rhinoceros rifle river roller_coaster rollerskates sailboat sandwich saw
    saxophone school_bus scissors scorpion screwdriver sea_turtle see_saw shark sheep shoe shorts shovel sink
    skateboard skull skyscraper sleeping_bag smiley_face snail snake snorkel snowflake snowman soccer_ball sock
    speedboat spider spoon spreadsheet square squiggle squirrel stairs star steak stereo stethoscope stitches
    stop_sign stove strawberry streetlight string_bean submarine suitcase sun swan sweater swing_set sword syringe
    table teapot teddy-bear telephone television tennis_racquet tent The_Eiffel_Tower The_Great_Wall_of_China
    The_Mona_Lisa tiger toaster toe toilet tooth toothbrush toothpaste tornado tractor traffic_light train tree
    triangle trombone truck trumpet t-shirt umbrella underwear van vase violin washing_machine watermelon waterslide
    whale wheel windmill wine_bottle wine_glass wristwatch yoga zebra zigzag
"""
DOMAINNET_CLASSES = tuple(_NAMES.split())
_LAYOUT = Layout("domainnet", domains=dict.fromkeys(_COUNTS, ()), classes=dict.fromkeys(DOMAINNET_CLASSES, ()))
_SPLITS = ("train", "test")
_PLACES = (".", "splits", "txt", "*", "*/splits", "*/txt")


@register_dataset(
    DatasetEntry(
        name="domainnet",
        description="345 kinds of things as clip art, infographics, paintings, drawings, photos, sketches: 586,575.",
        source="its authors' page (ai.bu.edu/M3SDA), clipart and painting cleaned; or DomainBed's download script",
        licence="research and education, as its page says (fair use)",
        layout="<root>/<domain>/<class>/<image>, in folders, or a zip a domain; official <domain>_train.txt and "
        "<domain>_test.txt in <root>, <root>/splits or the archive",
        domains=tuple(_COUNTS),
        classes=DOMAINNET_CLASSES,
        split_rule="the lists <domain>_train.txt and <domain>_test.txt",
        # Of each class none are published, so domains are compared as a whole.
        published=_COUNTS,
    )
)
def find_domainnet(request: LoadRequest) -> ImageIndex:
    """The images of DomainNet; where the official lists are, those that they name, with their splits."""
    index = find_images_of(_LAYOUT, request)
    wanted = {domain: [f"{domain}_{split}.txt" for split in _SPLITS] for domain in index.domain_names}
    every = [name for names in wanted.values() for name in names]
    lists = lists_beside(request.folder, every, _PLACES) or lists_packed(index, every)
    if not lists:
        return index
    lacking = [name for name in every if name not in lists]
    if lacking:
        warning = f"There is no list {some(lacking)} in {index.root}: no official split is used."
        return replace(index, warnings=(*index.warnings, warning))
    return _listed(index, lists)


def _listed(index: ImageIndex, lists: dict[str, SplitList]) -> ImageIndex:
    """The listed images alone: the archives of some domains also hold duplicates, which the lists leave out."""
    split_of: dict[tuple[str, str, str], str] = {}
    for domain in index.domain_names:
        for split in _SPLITS:
            found = lists[f"{domain}_{split}.txt"]
            for key in _read_list(found, domain):
                if split_of.setdefault(key, split) != split:
                    raise DataError(
                        f"{found.path} and the other list both hold {'/'.join(key)}. Take the official lists."
                    )
    splits = [
        split_of.get((index.domain_names[domain], index.class_names[label], PurePosixPath(source.path).name), "")
        for domain, label, source in zip(index.domains.tolist(), index.labels.tolist(), index.sources, strict=True)
    ]
    kept = [i for i, split in enumerate(splits) if split]
    warnings, absent = index.warnings, len(split_of) - len(kept)
    if not kept:
        raise DataError(
            f"None of the images in {index.root} stands in its lists. Take the official lists, or move them away."
        )
    if absent:
        warnings = (*warnings, f"{absent} images of the official lists are not in {index.root}.")
    return replace(
        index,
        sources=[index.sources[i] for i in kept],
        labels=index.labels[kept],
        domains=index.domains[np.array(kept)],
        splits=tuple(splits[i] for i in kept),
        ignored=index.ignored + len(splits) - len(kept),
        warnings=warnings,
    )


def _read_list(found: SplitList, domain: str) -> Iterator[tuple[str, str, str]]:
    """`(domain, class, name)` of every line `domain/class/name label`; the class is that of the folder."""
    for number, line in found.lines():
        parts = PurePosixPath(line.rpartition(" ")[0].strip()).parts
        label = _LAYOUT.class_of(parts[-2]) if len(parts) >= 3 else None
        if label is None or parts[-3] != domain:
            raise DataError(f"{found.path}, line {number}: expected '{domain}/<class>/<image> <label>'; got {line!r}.")
        yield domain, label, parts[-1]
