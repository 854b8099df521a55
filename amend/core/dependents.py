"""Which entries rest on a source.

One index from source to entry names, through files, listings, globs and absent paths alike: the
watcher says which source was touched, this says whose verdict that may change. Tuples rather than
sets: a source is cited by a handful of entries, and a set costs 200 bytes before its first member.
"""

from collections.abc import Iterable

from amend.core.model import EntryName, Source


class Dependents:
    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[Source, tuple[EntryName, ...]] = {}

    def add(self, name: EntryName, sources: Iterable[Source]) -> list[Source]:
        """The sources that nothing rested on before."""
        new = []
        for source in sources:
            names = self._names.get(source)
            if names is None:
                new.append(source)
                self._names[source] = (name,)
            elif name not in names:
                self._names[source] = (*names, name)
        return new

    def discard(self, name: EntryName, sources: Iterable[Source]) -> list[Source]:
        """The sources that nothing rests on any more."""
        orphans = []
        for source in sources:
            names = self._names.get(source, ())
            if name not in names:
                continue
            rest = tuple(other for other in names if other != name)
            if rest:
                self._names[source] = rest
            else:
                del self._names[source]
                orphans.append(source)
        return orphans

    def of(self, source: Source) -> tuple[EntryName, ...]:
        return self._names.get(source, ())

    def __len__(self) -> int:
        return len(self._names)
