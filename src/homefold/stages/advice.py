"""What to do next, in plain words, after new images were checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from homefold.stages.accuracy_estimate import AccuracyEstimate
from homefold.stages.two_sample import TwoSampleTest

__all__ = ["advice_on"]

_FEW_IMAGES = 50
_LARGE_LOSS, _SMALL_LOSS = 0.1, 0.03
_MANY_FAR = 0.1
_SURE = 0.01
_LARGE_SHARE = 0.2


def advice_on(
    *,
    images: int,
    accuracy: AccuracyEstimate | None,
    two_sample: TwoSampleTest | None,
    far: float,
    duplicates: int,
    shares: Mapping[str, tuple[float, float | None]],
) -> tuple[str, ...]:
    """Sentences, the most pressing first.

    Args:
        images: how many were checked.
        accuracy, two_sample: what is believed of them.
        far: share of them with an off-manifold score above 1.
        duplicates: how many repeat a training image.
        shares: by class, how often it is expected and how often it was in the sources.
    """
    return tuple(_sentences(images, accuracy, two_sample, far, duplicates, shares))


def _sentences(
    images: int,
    accuracy: AccuracyEstimate | None,
    two_sample: TwoSampleTest | None,
    far: float,
    duplicates: int,
    shares: Mapping[str, tuple[float, float | None]],
) -> Iterator[str]:
    differs = two_sample is not None and two_sample.p_value < _SURE
    if duplicates:
        yield f"Remove the {duplicates} images that repeat training images before you measure anything on the others."
    if accuracy is not None:
        loss = accuracy.held_out_accuracy - accuracy.estimate
        if loss > _LARGE_LOSS:
            yield (
                f"Expect about {100 * loss:.0f} points less than on held-out source images. Label about 100 of these "
                "images, with the most unusual ones among them, and measure with homefold evaluate before you rely on "
                "the answers; add them as a domain and fit again."
            )
        elif differs or loss > _SMALL_LOSS:
            yield (
                "These images differ from the sources, though the answers look sure. An estimate cannot see errors "
                "that are made with confidence: label about 50 of these images and measure with homefold evaluate."
            )
        else:
            yield "Nothing here speaks against using the model. Label about 50 of these images to make sure."
    if far > _MANY_FAR:
        yield (
            f"{100 * far:.0f} % lie farther out than 95 % of held-out source images. Withhold the answers for these "
            "(homefold predict --abstain-above 1), and look at the most unusual."
        )
    for name, (expected, sources) in shares.items():
        if sources is not None and abs(expected - sources) > _LARGE_SHARE:
            yield (
                f"{name} is expected in {100 * expected:.0f} % of the images, and was {100 * sources:.0f} % of the "
                "sources. If that is not so there, the answers lean to one side."
            )
    if images < _FEW_IMAGES:
        yield f"{images} images are few: with {_FEW_IMAGES} or more the interval is narrower."
