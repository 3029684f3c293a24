"""A dataset in one file: stripes and rings, dark on light and light on dark.

homefold fit stripes --out model --holdout light --preset small --plugin examples/plugins/stripes_dataset.py
"""

from __future__ import annotations

import numpy as np

from homefold.data import DatasetEntry, DomainDataset, dataset_from_arrays, register_dataset
from homefold.data.decoding.image import resize_images
from homefold.data.index import LoadRequest

DOMAINS, CLASSES, EACH = ("dark", "light", "noisy"), ("ring", "stripes"), 40


def draw(shape: str, domain: str, rng: np.random.Generator) -> np.ndarray:
    """One picture `(32, 32, 3)`."""
    y, x = np.mgrid[-1:1:32j, -1:1:32j]
    wave = np.hypot(x, y) if shape == "ring" else np.cos(turn := rng.uniform(0, np.pi)) * x + np.sin(turn) * y
    grey = 0.5 + 0.4 * np.sin(rng.uniform(8, 12) * wave)
    grey = {"dark": 0.5 * grey, "light": 1 - 0.5 * grey, "noisy": grey + 0.2 * rng.normal(size=grey.shape)}[domain]
    return np.repeat((255 * grey.clip(0, 1)).astype(np.uint8)[..., None], 3, axis=2)


@register_dataset(
    DatasetEntry(
        name="stripes",
        description="Stripes and rings in three domains: 240 images of 32 px.",
        source="drawn where it is used",
        licence="none needed",
        layout="none: it needs no files",
        domains=DOMAINS,
        classes=CLASSES,
        usual_size=(32, 32),
        embedded=True,
    )
)
def read(request: LoadRequest) -> DomainDataset:
    """Only the domains asked for, at the size asked for."""
    rng = np.random.default_rng(request.seed)
    every = [(draw(shape, domain, rng), shape, domain) for domain in DOMAINS for shape in CLASSES * EACH]
    pixels, labels, domains = zip(*every, strict=True)
    images = resize_images(np.stack(pixels), request.size or (32, 32), request.resize)
    dataset = dataset_from_arrays(images, labels, domains, class_names=CLASSES, domain_names=DOMAINS, name="stripes")
    return dataset if request.domains is None else dataset.only(*request.domains)
