"""What the server did so far, as Prometheus reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

__all__ = ["Histogram", "Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_IMAGES = (1, 2, 4, 8, 16, 32, 64)


class Histogram:
    """How often values fell below each bound.

    Args:
        name: as Prometheus names it.
        about: a sentence.
        bounds: ascending.
    """

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self.name, self.about, self._bounds = name, about, bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self._counts)

    def add(self, value: float) -> None:
        """One more value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def lines(self) -> Iterator[str]:
        """As Prometheus reads it."""
        yield from _head(self.name, "histogram", self.about)
        below = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            below += count
            yield f'{self.name}_bucket{{le="{bound}"}} {below}'
        yield f"{self.name}_sum {self.total}"
        yield f"{self.name}_count {below}"


class Metrics:
    """Counts of this process; written from one thread, that of the event loop."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.images: Counter[str] = Counter()
        self.request_seconds = Histogram("homefold_request_seconds", "From a request's headers to its end.", _SECONDS)
        self.batch_seconds = Histogram("homefold_batch_seconds", "What the model took for a batch.", _SECONDS)
        self.batch_images = Histogram("homefold_batch_images", "Images that were computed together.", _IMAGES)
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Show what a function gives whenever somebody looks."""
        self._gauges[name] = about, value

    def text(self) -> str:
        """All of it in the text format of Prometheus."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield from _head("homefold_requests_total", "counter", "Requests by route, method and status.")
        for (route, method, status), count in sorted(self.requests.items()):
            yield f'homefold_requests_total{{route="{route}",method="{method}",status="{status}"}} {count}'
        yield from _head("homefold_images_total", "counter", "Images by what became of them.")
        for outcome, count in sorted(self.images.items()):
            yield f'homefold_images_total{{outcome="{outcome}"}} {count}'
        for histogram in (self.request_seconds, self.batch_seconds, self.batch_images):
            yield from histogram.lines()
        for name, (about, value) in self._gauges.items():
            yield from _head(name, "gauge", about)
            yield f"{name} {value()}"


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
