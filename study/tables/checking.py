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
    "confidence": "lowered",
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


@table("check-candidates")
def check_candidates() -> str:
    """Mean absolute error of other ways, by the number of source domains."""
    ways = {
        "confidence": "mean confidence (naive)",
        "thresholded": "thresholded",
        "together": "together",
        "shifted threshold": "shifted threshold",
        "shifted regression": "shifted regression",
        "halves": "halves",
    }
    rows = [
        [str(row["sources"]), str(row["cases"]), *(f"{row[name]:.1f}" for name in ways)]
        for row in computed("check-candidates")["rows"]
    ]
    return markdown(["source domains", "cases", *ways.values()], rows)


@table("check-trainings")
def check_trainings() -> str:
    """The mean confidence, and the same corrected by trainings without a source domain."""
    rows = [
        [str(row["cases there"]), f"{row['confidence there']:.1f}", f"{row['trainings']:.1f}"]
        for row in computed("check-candidates")["rows"]
        if row["cases there"]
    ]
    return markdown(["cases", "mean confidence (naive)", "corrected"], rows)
