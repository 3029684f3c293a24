"""How wrong the estimates of `homefold check` are."""

from __future__ import annotations

from writing import markdown

from tables.reading import computed
from tables.registry import table

_COLUMNS = {
    "naive": "mean confidence (naive)",
    "held-out accuracy": "held-out accuracy",
    "thresholded": "thresholded",
    "difference": "difference",
    "agreement": "agreement",
    "together": "together",
}


@table("check-error")
def check_error() -> str:
    """Mean absolute error by data and size."""
    rows = [
        [
            f"{row['data']}, {row['images']}",
            str(row["cases"]),
            f"{row['accuracy']:.1f}",
            *(f"{row[name]:.1f}" for name in _COLUMNS),
            f"{row['inside']} %",
        ]
        for row in computed("check-error")["rows"]
    ]
    return markdown(["images a class and source", "cases", "accuracy", *_COLUMNS.values(), "inside the interval"], rows)


@table("check-error-domains")
def check_error_domains() -> str:
    """The same where temperature and threshold come from classifiers that did not see the domain."""
    names = ("thresholded", "thresholded, unseen domains", "difference", "difference, unseen domains")
    rows = [
        [f"{row['data']}, {row['images']}", *(f"{row[name]:.1f}" for name in names)]
        for row in computed("check-error")["rows"]
    ]
    head = ["images a class and source", *(name.replace(", unseen domains", ", domains") for name in names)]
    return markdown(head, rows)
