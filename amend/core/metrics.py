"""Counters and histograms, rendered as Prometheus text. No clock, no registry."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

# A hook's whole budget is 50 ms; the answer's own share is tens of microseconds. Three steps a
# decade from 50 µs show a promise about to break.
SECONDS_BUCKETS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
)  # fmt: skip

Labels = tuple[tuple[str, str], ...]


class Histogram:
    """Seconds, by labels."""

    def __init__(self) -> None:
        self._series: dict[Labels, tuple[list[int], list[float]]] = {}

    def observe(self, seconds: float, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = ([0] * (len(SECONDS_BUCKETS) + 1), [0.0])
        series[0][bisect_left(SECONDS_BUCKETS, seconds)] += 1
        series[1][0] += seconds

    def lines(self, name: str) -> Iterable[str]:
        for labels, (counts, total) in sorted(self._series.items()):
            below = 0
            for bound, count in zip((*SECONDS_BUCKETS, None), counts, strict=True):
                below += count
                edge = "+Inf" if bound is None else f"{bound:g}"
                yield f"{name}_bucket{_braces((*labels, ('le', edge)))} {below}"
            yield f"{name}_sum{_braces(labels)} {total[0]:g}"
            yield f"{name}_count{_braces(labels)} {below}"


class Counter:
    def __init__(self) -> None:
        self._values: dict[Labels, int] = {}

    def add(self, count: int = 1, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        self._values[key] = self._values.get(key, 0) + count

    def lines(self, name: str) -> Iterable[str]:
        for labels, value in sorted(self._values.items()):
            yield f"{name}{_braces(labels)} {value}"


def render(
    metrics: Mapping[str, tuple[str, Counter | Histogram | Mapping[Labels, float]]],
) -> str:
    """Prometheus text. Name → (help, what is counted); a mapping is a gauge, by its labels."""
    lines = []
    for name, (text, metric) in metrics.items():
        kind = (
            "counter"
            if isinstance(metric, Counter)
            else "histogram"
            if isinstance(metric, Histogram)
            else "gauge"
        )
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        if isinstance(metric, Counter | Histogram):
            lines += metric.lines(name)
        else:
            lines += [f"{name}{_braces(labels)} {value:g}" for labels, value in metric.items()]
    return "\n".join(lines) + "\n"


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + inside + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
