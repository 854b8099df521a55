"""Which entries rest on a source.

One index from source to entry names, through files, listings, globs and absent paths alike: the
watcher says which source was touched, this says whose verdict that may change. Lists rather than
sets: a set costs 200 bytes before its first member, and nothing here searches a long one but
`discard`.
"""

from collections.abc import Iterable, Sequence

from amend.core.model import EntryName, Source


class Dependents:
    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[Source, list[EntryName]] = {}

    def add(self, name: EntryName, sources: Iterable[Source]) -> list[Source]:
        """The sources that nothing rested on before. `name` must not rest on any of them yet, and
        each may come once only."""
        new = []
        for source in sources:
            names = self._names.get(source)
            if names is None:
                new.append(source)
                self._names[source] = [name]
            else:
                names.append(name)
        return new

    def discard(self, name: EntryName, sources: Iterable[Source]) -> list[Source]:
        """The sources that nothing rests on any more. `name` must rest on each of them."""
        orphans = []
        for source in sources:
            names = self._names[source]
            names.remove(name)
            if not names:
                del self._names[source]
                orphans.append(source)
        return orphans

    def of(self, source: Source) -> Sequence[EntryName]:
        return self._names.get(source, ())

    def __len__(self) -> int:
        return len(self._names)
