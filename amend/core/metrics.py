"""Counters and histograms, rendered as Prometheus text. No clock, no registry.

Source: Prometheus' text exposition format 0.0.4. Label names are ours and assumed to be legal;
label values may be anything.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

# DESIGN section 11 promises p99s of 1 ms (a lookup) and 5 ms (a mark), and 50 ms at worst; the
# answer's own share is tens of microseconds. Dense below 50 ms, so that a promise about to break
# shows; three more tell slow from hung.
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
            yield f"{name}_sum{_braces(labels)} {_number(total[0])}"
            yield f"{name}_count{_braces(labels)} {below}"


class Counter:
    """`add(0, …)` makes a series appear before its first event."""

    def __init__(self) -> None:
        self._values: dict[Labels, int] = {}

    def add(self, count: int = 1, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        self._values[key] = self._values.get(key, 0) + count

    def lines(self, name: str) -> Iterable[str]:
        for labels, value in sorted(self._values.items()):
            yield f"{name}{_braces(labels)} {value}"


Metric = Counter | Histogram | Mapping[Labels, float]
"""A mapping is a gauge, by its labels."""


def render(metrics: Mapping[str, tuple[str, Metric]]) -> str:
    """Prometheus text of name → (help, metric)."""
    lines: list[str] = []
    for name, (text, metric) in metrics.items():
        lines.append(f"# HELP {name} {_one_line(text)}")
        match metric:
            case Counter():
                lines += [f"# TYPE {name} counter", *metric.lines(name)]
            case Histogram():
                lines += [f"# TYPE {name} histogram", *metric.lines(name)]
            case _:
                lines.append(f"# TYPE {name} gauge")
                lines += [f"{name}{_braces(key)} {_number(metric[key])}" for key in sorted(metric)]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """Every digit: `:g` would round bytes and long sums to six."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + inside + "}"


def _escaped(value: str) -> str:
    """As the format asks. A lone surrogate (a file name that is no UTF-8) becomes a "?"."""
    legible = value.encode("utf-8", "replace").decode()
    return legible.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
