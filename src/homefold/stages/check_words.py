"""What `homefold check` found, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from homefold.stages.check import DomainCheck

__all__ = ["HOW_WRONG", "estimates_of", "facts_of", "headline", "percent"]

HOW_WRONG = (
    "Thresholds and temperature were fitted on held-out images of the source domains, not on held-out domains, which "
    "did not help. Errors made with confidence are in no estimate. On PACS it was off by 6 points on average, where "
    "the mean confidence alone was off by 16; on digits by 4 points with 60 training images of each class and domain, "
    "by 7 to 11 with fewer. The interval holds the truth in nine of ten of those cases (study/check.md)."
)
_WAYS = {
    "thresholded": "Average thresholded confidence",
    "difference": "Difference of confidences",
    "agreement": "Agreement with and without projection",
    "confidence": "Mean confidence (naive)",
}


def headline(found: DomainCheck) -> str:
    """The estimated accuracy in a sentence, or why there is none."""
    if found.accuracy is None:
        return "The accuracy on these images cannot be estimated with this model."
    each = found.accuracy
    return (
        f"About {percent(each.estimate)} of these {len(found)} answers are right, from {percent(each.low)} to "
        f"{percent(each.high)}; on held-out source images it is {percent(each.held_out_accuracy)}."
    )


def percent(share: float) -> str:
    """A share of one in whole percent."""
    return f"{100 * share:.0f} %"


def facts_of(found: DomainCheck) -> dict[str, str]:
    """What is told in a line each."""
    facts = {"Images": str(len(found)), "Labels that projection keeps": percent(found.agreement)}
    if found.two_sample is not None:
        test = found.two_sample
        p_value = "below 0.001" if test.p_value < 0.001 else f"{test.p_value:.3f}"
        facts["Told apart from held-out images"] = (
            f"in {percent(test.accuracy)} of {test.tested} cases (chance is 50 %), p {p_value}"
        )
    if found.nearest_source:
        shares = sorted(found.nearest_source.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{name} {percent(share)}" for name, share in shares)
        facts["Nearest source"] = f"{listed} (by {found.nearest_by})"
    if found.duplicates is not None:
        facts["Copies of training images"] = str(len(found.duplicates) or "none found")
    return facts


def estimates_of(found: DomainCheck) -> tuple[tuple[str, str], ...]:
    """Name and value of each estimate; none where there is no record to make them from."""
    if found.accuracy is None:
        return ()
    each = found.accuracy
    rows = [(_WAYS[name], value) for name, value in each.estimates.items()]
    rows.append(("Together: the first and the last", each.estimate))
    return tuple((name, f"{100 * value:.1f} %") for name, value in rows)
