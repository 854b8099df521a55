"""What a run has seen, said as it goes, and what it has missed."""

import textwrap


class Seen:
    def __init__(self) -> None:
        self._part = ""
        self._count = 0
        self._misses: list[str] = []

    def part(self, name: str) -> None:
        self._part = name
        print(f"\n== {name}", flush=True)

    def that(self, claim: str, is_so: object, shown: str = "") -> None:
        """`shown`: what shows it, or what was there instead."""
        self._count += 1
        print(f"{'ok  ' if is_so else 'MISS'} {claim}", flush=True)
        if shown:
            print(textwrap.indent(shown.rstrip(), "       | "), flush=True)
        if not is_so:
            self._misses.append(f"{self._part}: {claim}")

    def missed(self, claim: str) -> None:
        self.that(claim, False)

    def figure(self, what: str, said: str) -> None:
        print(f"     {what}: {said}", flush=True)

    def summary(self) -> int:
        """The exit status."""
        print(f"\n{self._count} looked for, {len(self._misses)} missed")
        for miss in self._misses:
            print(f"  {miss}")
        return 1 if self._misses else 0
