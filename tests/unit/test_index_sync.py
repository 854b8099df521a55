"""The edits that keep an index in step with its directory, and where a note went."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from amend.core.aicontext import (
    AddLine,
    Child,
    DescribeLine,
    Document,
    DropLine,
    Line,
    LineEdit,
    LineKind,
    RenameLine,
)
from amend.core.index_sync import (
    DESCRIPTION_CHARS_MAX,
    DICTIONARY_TITLE,
    NoteThere,
    Origin,
    Plan,
    can_be_listed,
    default_title,
    derived_description,
    pair_moves,
    plan,
)

FILE, DIR, DICT = LineKind.FILE, LineKind.DIRECTORY, LineKind.DICTIONARY
KINDS = (DICT, DIR, FILE)

Listed = tuple[LineKind, str, str]

AUTH = Child(FILE, "auth.aicontext", "JWT with Redis")
DB = Child(FILE, "db.aicontext", "PostgreSQL")
INFRA = Child(DIR, "infra", "Infrastructure and deployment")
DICTIONARY = Child(DICT, "dict.aicontext")


def index(*listed: Listed, problem: str | None = None) -> Document:
    return Document(tuple(Line(kind, b"", name, text) for kind, name, text in listed), problem)


@dataclass
class World:
    """One directory's index, and what amend remembers of it."""

    lines: list[Listed] | None = None
    seen: set[tuple[LineKind, str]] = field(default_factory=set)
    derived: set[Listed] = field(default_factory=set)
    problem: str | None = None

    def plan(
        self, *children: Child, came_from: Mapping[tuple[LineKind, str], Origin] | None = None
    ) -> Plan:
        return plan(
            None if self.lines is None else index(*self.lines, problem=self.problem),
            children,
            was_seen=lambda kind, name: (kind, name) in self.seen,
            is_derived=lambda kind, name, text: (kind, name, text) in self.derived,
            came_from=came_from or {},
        )

    def sync(
        self, *children: Child, came_from: Mapping[tuple[LineKind, str], Origin] | None = None
    ) -> tuple[LineEdit, ...]:
        """Plan, apply and remember, as the daemon does."""
        planned = self.plan(*children, came_from=came_from)
        if self.lines is not None or planned.edits:
            self.lines = applied(self.lines or [], planned.edits)
        self.seen |= {(child.kind, child.name) for child in children}
        self.derived |= set(planned.derived)
        return planned.edits


def applied(lines: Iterable[Listed], edits: Iterable[LineEdit]) -> list[Listed]:
    """What the edits mean: in their order, each for every line of its kind and name."""
    result = list(lines)
    for edit in edits:
        at = [i for i, line in enumerate(result) if line[:2] == (edit.kind, edit.name)]
        match edit:
            case AddLine(kind, name, text):
                assert not at
                result.append((kind, name, text))
                continue
            case DropLine():
                result = [line for i, line in enumerate(result) if i not in at]
            case RenameLine(kind, _, new):
                result = [
                    (kind, new, line[2]) if i in at else line for i, line in enumerate(result)
                ]
            case DescribeLine(kind, name, text):
                result = [(kind, name, text) if i in at else line for i, line in enumerate(result)]
        assert at, f"no line for {edit}"
    return result


# -- lines come and go -----------------------------------------------------------------------------


def test_a_directory_without_an_index_gets_a_line_for_each_child() -> None:
    world = World()

    world.sync(AUTH, INFRA, DICTIONARY)

    assert world.lines == [
        (DICT, "dict.aicontext", DICTIONARY_TITLE),
        (DIR, "infra", "Infrastructure and deployment"),
        (FILE, "auth.aicontext", "JWT with Redis"),
    ]
    assert world.derived == set(world.lines)


def test_an_empty_directory_without_an_index_needs_no_edit() -> None:
    assert World().plan() == Plan()


def test_a_new_note_gets_a_line_with_its_title() -> None:
    world = World([(FILE, "auth.aicontext", "written by hand")])

    edits = world.sync(AUTH, DB)

    assert edits == (AddLine(FILE, "db.aicontext", "PostgreSQL"),)


def test_new_lines_do_not_depend_on_the_order_of_the_listing() -> None:
    assert World().plan(AUTH, DB, INFRA) == World().plan(INFRA, DB, AUTH)


def test_a_removed_note_loses_its_line() -> None:
    world = World()
    world.sync(AUTH, DB)

    edits = world.sync(DB)

    assert edits == (DropLine(FILE, "auth.aicontext"),)


def test_a_removed_note_loses_its_line_also_when_a_person_described_it() -> None:
    world = World([(FILE, "auth.aicontext", "written by hand")])
    world.sync(AUTH)

    edits = world.sync()

    assert edits == (DropLine(FILE, "auth.aicontext"),)


def test_a_placeholder_is_kept() -> None:
    world = World([(DIR, "architecture", "System architecture decisions")])

    edits = world.sync(AUTH)

    assert edits == (AddLine(FILE, "auth.aicontext", "JWT with Redis"),)


def test_a_placeholder_that_amend_once_described_stays_known_as_its_own() -> None:
    line = (DIR, "infra", "Infrastructure")

    planned = World([line], derived={line}).plan()

    assert planned == Plan((), (line,))


def test_a_placeholder_that_came_true_and_went_is_dropped() -> None:
    world = World([(DIR, "infra", "to come")])
    world.sync(INFRA)

    edits = world.sync()

    assert edits == (DropLine(DIR, "infra"),)


def test_a_name_of_another_case_is_another_child() -> None:
    world = World([(FILE, "Auth.aicontext", "written by hand")])

    world.sync(AUTH)

    assert world.lines == [
        (FILE, "Auth.aicontext", "written by hand"),
        (FILE, "auth.aicontext", "JWT with Redis"),
    ]


def test_a_line_that_is_commented_out_is_no_line() -> None:
    commented = Line(LineKind.COMMENT, b"", text="file: auth.aicontext | JWT")
    document = Document((commented,))

    planned = plan(
        document,
        [AUTH],
        was_seen=lambda *_: False,
        is_derived=lambda *_: False,
        came_from={},
    )

    assert planned.edits == (AddLine(FILE, "auth.aicontext", "JWT with Redis"),)


def test_an_index_with_a_problem_gets_no_edits_and_its_derived_lines_stay_known() -> None:
    world = World([(FILE, "auth.aicontext", "JWT"), (FILE, "gone.aicontext", "by hand")])
    world.problem = "it has conflict markers"
    world.seen = {(FILE, "gone.aicontext")}
    world.derived = {(FILE, "auth.aicontext", "JWT")}

    planned = world.plan(AUTH, DB)

    assert planned == Plan((), ((FILE, "auth.aicontext", "JWT"),))


def test_a_line_with_a_path_inside_is_never_touched() -> None:
    world = World([(FILE, "sub/auth.aicontext", "JWT"), (DIR, "a/b", "deep")])
    world.seen = {(FILE, "sub/auth.aicontext"), (DIR, "a/b")}
    world.derived = {(FILE, "sub/auth.aicontext", "JWT")}

    assert world.plan() == Plan()


def test_the_index_itself_is_no_child_and_a_line_for_it_is_never_touched() -> None:
    world = World([(FILE, "index.aicontext", "this file")])
    world.seen = {(FILE, "index.aicontext")}

    assert world.plan(Child(FILE, "index.aicontext", "a title")) == Plan()


@pytest.mark.parametrize(
    "name",
    ["a|b.aicontext", "two\nlines.aicontext", " edge.aicontext", "\udce9.aicontext", "edge "],
)
def test_a_name_that_no_line_can_hold_is_not_listed(name: str) -> None:
    assert not can_be_listed(name)
    assert World([]).plan(Child(FILE, name, "a title")) == Plan()


def test_a_line_of_a_renamed_child_whose_new_name_no_line_can_hold_is_dropped() -> None:
    world = World()
    world.sync(AUTH)
    origin = Origin("auth.aicontext", "JWT with Redis", derived=True)

    edits = world.sync(Child(FILE, "a|b.aicontext"), came_from={(FILE, "a|b.aicontext"): origin})

    assert edits == (DropLine(FILE, "auth.aicontext"),)


# -- lines of another kind, and several ------------------------------------------------------------


def test_a_dictionary_that_is_listed_as_a_file_is_listed() -> None:
    world = World([(FILE, "dict.aicontext", "our words")])

    assert world.sync(DICTIONARY) == ()


def test_a_dictionary_that_is_listed_as_a_file_stays_so_also_when_it_was_seen_as_a_file() -> None:
    world = World([(FILE, "dict.aicontext", "our words")], seen={(FILE, "dict.aicontext")})

    assert world.sync(DICTIONARY) == ()


def test_a_dictionary_that_was_listed_as_a_file_loses_that_line_with_the_dictionary() -> None:
    world = World([(FILE, "dict.aicontext", "our words")])
    world.sync(DICTIONARY)

    assert world.sync() == (DropLine(FILE, "dict.aicontext"),)


@pytest.mark.parametrize("name", ["infra", "infra/"])
def test_a_directory_that_is_listed_as_a_file_is_listed(name: str) -> None:
    world = World([(FILE, name, "by hand")])

    assert world.sync(INFRA) == ()


def test_a_note_whose_name_a_directory_took_gives_its_line_for_one_of_the_directory() -> None:
    world = World()
    world.sync(Child(FILE, "auth.aicontext", "JWT"))

    world.sync(Child(DIR, "auth.aicontext", "all about auth"))

    assert world.lines == [(DIR, "auth.aicontext", "all about auth")]


def test_duplicate_lines_are_left() -> None:
    lines = [(FILE, "auth.aicontext", "one"), (FILE, "auth.aicontext", "two")]
    world = World(list(lines), derived={lines[0]})

    assert world.sync(AUTH) == ()
    assert world.sync(AUTH) == ()


def test_duplicate_lines_of_a_removed_note_all_go() -> None:
    world = World([(FILE, "auth.aicontext", "one"), (FILE, "auth.aicontext", "two")])
    world.sync(AUTH)

    world.sync()

    assert world.lines == []


def test_duplicate_lines_of_a_renamed_note_keep_what_they_say() -> None:
    world = World([(FILE, "auth.aicontext", "one"), (FILE, "auth.aicontext", "two")])
    world.sync(AUTH)
    origin = Origin("auth.aicontext", "one", derived=False)

    world.sync(Child(FILE, "login.aicontext"), came_from={(FILE, "login.aicontext"): origin})

    assert world.lines == [(FILE, "login.aicontext", "one"), (FILE, "login.aicontext", "two")]


def test_of_a_renamed_directorys_lines_the_one_with_an_odd_slash_goes() -> None:
    world = World([(DIR, "infra/", "one"), (DIR, "infra", "two")])
    world.sync(INFRA)
    origin = Origin("infra", "two", derived=False)

    world.sync(Child(DIR, "ops"), came_from={(DIR, "ops"): origin})

    assert world.lines == [(DIR, "ops", "two")]


# -- descriptions ----------------------------------------------------------------------------------


def test_a_derived_description_follows_the_title() -> None:
    world = World()
    world.sync(AUTH)

    edits = world.sync(Child(FILE, "auth.aicontext", "OAuth"))

    assert edits == (DescribeLine(FILE, "auth.aicontext", "OAuth"),)
    assert world.sync(Child(FILE, "auth.aicontext", "OAuth")) == ()


def test_a_note_that_gets_its_title_later_is_described_by_it_then() -> None:
    world = World()
    world.sync(Child(FILE, "auth-flow.aicontext"))
    assert world.lines == [(FILE, "auth-flow.aicontext", "auth flow")]

    world.sync(Child(FILE, "auth-flow.aicontext", "OAuth"))

    assert world.lines == [(FILE, "auth-flow.aicontext", "OAuth")]


@pytest.mark.parametrize("by_hand", ["written by hand", ""])
def test_a_description_that_a_person_wrote_stays(by_hand: str) -> None:
    world = World()
    world.sync(AUTH)
    world.lines = [(FILE, "auth.aicontext", by_hand)]

    assert world.sync(Child(FILE, "auth.aicontext", "OAuth")) == ()


def test_an_empty_description_is_never_amends_own() -> None:
    world = World([(FILE, "auth.aicontext", "")], derived={(FILE, "auth.aicontext", "")})

    assert world.plan(AUTH) == Plan()


def test_a_description_that_reads_like_the_title_but_was_not_derived_stays() -> None:
    world = World([(FILE, "auth.aicontext", "JWT with Redis")])
    world.sync(AUTH)

    assert world.sync(Child(FILE, "auth.aicontext", "OAuth")) == ()


# -- renames and moves -----------------------------------------------------------------------------

LOGIN = Child(FILE, "login.aicontext", "JWT with Redis")


def test_a_renamed_note_keeps_its_place_and_its_description() -> None:
    world = World([(FILE, "auth.aicontext", "by hand"), (FILE, "db.aicontext", "also")])
    world.sync(AUTH, DB)
    origin = Origin("auth.aicontext", "by hand", derived=False)

    edits = world.sync(DB, LOGIN, came_from={(FILE, "login.aicontext"): origin})

    assert edits == (RenameLine(FILE, "auth.aicontext", "login.aicontext"),)
    assert world.lines == [(FILE, "login.aicontext", "by hand"), (FILE, "db.aicontext", "also")]


def test_a_renamed_note_with_a_derived_description_is_described_by_its_title_now() -> None:
    world = World()
    world.sync(Child(FILE, "auth-flow.aicontext"), DB)
    origin = Origin("auth-flow.aicontext", "auth flow", derived=True)
    login = Child(FILE, "login.aicontext")

    world.sync(DB, login, came_from={(FILE, "login.aicontext"): origin})

    assert world.lines == [(FILE, "login.aicontext", "login"), (FILE, "db.aicontext", "PostgreSQL")]
    assert world.sync(DB, Child(FILE, "login.aicontext", "OAuth")) == (
        DescribeLine(FILE, "login.aicontext", "OAuth"),
    )


def test_a_renamed_note_whose_line_a_person_changed_meanwhile_keeps_the_persons_words() -> None:
    world = World([(FILE, "auth.aicontext", "by hand, just now")], {(FILE, "auth.aicontext")})
    origin = Origin("auth.aicontext", "JWT", derived=True)

    world.sync(LOGIN, came_from={(FILE, "login.aicontext"): origin})

    assert world.lines == [(FILE, "login.aicontext", "by hand, just now")]
    assert world.derived == set()


def test_a_renamed_note_whose_line_amend_derived_anew_meanwhile_is_described_by_its_title() -> None:
    world = World([(FILE, "auth.aicontext", "JWT")], derived={(FILE, "auth.aicontext", "JWT")})
    origin = Origin("auth.aicontext", None, derived=False)

    world.sync(LOGIN, came_from={(FILE, "login.aicontext"): origin})

    assert world.lines == [(FILE, "login.aicontext", "JWT with Redis")]


def test_a_renamed_note_keeps_its_empty_description_whoever_is_said_to_have_left_it() -> None:
    world = World([(FILE, "auth.aicontext", "")])
    origin = Origin("auth.aicontext", "", derived=True)

    world.sync(LOGIN, came_from={(FILE, "login.aicontext"): origin})

    assert world.lines == [(FILE, "login.aicontext", "")]


def test_a_renamed_note_whose_new_name_is_listed_loses_only_its_old_line() -> None:
    world = World([(FILE, "auth.aicontext", "old"), (FILE, "login.aicontext", "new")])
    origin = Origin("auth.aicontext", "old", derived=False)

    world.sync(LOGIN, came_from={(FILE, "login.aicontext"): origin})

    assert world.lines == [(FILE, "login.aicontext", "new")]


def test_a_renamed_note_without_a_line_keeps_the_description_that_a_person_wrote() -> None:
    origin = Origin("auth.aicontext", "by hand", derived=False)

    edits = World([]).sync(LOGIN, came_from={(FILE, "login.aicontext"): origin})

    assert edits == (AddLine(FILE, "login.aicontext", "by hand"),)


def test_a_note_whose_old_name_is_still_there_is_new() -> None:
    world = World([(FILE, "auth.aicontext", "by hand")])
    origin = Origin("auth.aicontext", "by hand", derived=False)

    edits = world.sync(AUTH, LOGIN, came_from={(FILE, "login.aicontext"): origin})

    assert edits == (AddLine(FILE, "login.aicontext", "JWT with Redis"),)


def test_of_two_notes_from_one_only_the_first_has_its_line() -> None:
    world = World([(FILE, "auth.aicontext", "JWT")], {(FILE, "auth.aicontext")})
    origin = Origin("auth.aicontext", "JWT", derived=True)
    one, two = Child(FILE, "one.aicontext", "One"), Child(FILE, "two.aicontext", "Two")

    world.sync(
        two, one, came_from={(FILE, "one.aicontext"): origin, (FILE, "two.aicontext"): origin}
    )

    assert world.lines == [(FILE, "one.aicontext", "One"), (FILE, "two.aicontext", "Two")]


@pytest.mark.parametrize("by_hand", ["by hand", "", "x" * 200])
def test_a_note_from_another_directory_brings_the_description_that_a_person_wrote(
    by_hand: str,
) -> None:
    origin = Origin(None, by_hand, derived=False)

    planned = World([]).plan(AUTH, came_from={(FILE, "auth.aicontext"): origin})

    assert planned == Plan((AddLine(FILE, "auth.aicontext", by_hand),))


@pytest.mark.parametrize("description", ["JWT", None])
def test_a_note_from_another_directory_is_described_by_its_title_otherwise(
    description: str | None,
) -> None:
    origin = Origin(None, description, derived=description is not None)

    edits = World([]).sync(AUTH, came_from={(FILE, "auth.aicontext"): origin})

    assert edits == (AddLine(FILE, "auth.aicontext", "JWT with Redis"),)


def test_a_note_that_becomes_the_dictionary_is_listed_as_one() -> None:
    world = World([(FILE, "words.aicontext", "our words")], {(FILE, "words.aicontext")})
    origin = Origin("words.aicontext", "our words", derived=False)

    world.sync(DICTIONARY, came_from={(DICT, "dict.aicontext"): origin})

    assert world.lines == [(DICT, "dict.aicontext", "our words")]


# -- words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "title"),
    [
        (FILE, "auth-flow.aicontext", "auth flow"),
        (FILE, "API_design--v1.2.aicontext", "API design v1.2"),
        (DIR, "bug-reports", "bug reports"),
        (DIR, "---", "---"),
        (FILE, ".aicontext", "untitled"),
        (DICT, "dict.aicontext", DICTIONARY_TITLE),
    ],
)
def test_what_says_nothing_of_itself_is_described_by_its_name(
    kind: LineKind, name: str, title: str
) -> None:
    assert default_title(kind, name) == title


@pytest.mark.parametrize(
    ("title", "description"),
    [
        ("str | None", "str | None"),
        ("  two\n\tlines\u2028and\x1fmore ", "two lines and more"),
        ("a\x00b\x1b[31m\u202ec\ufeff", "ab[31mc"),
        ("\x07", "auth"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_a_title_becomes_one_clean_line(title: str, description: str) -> None:
    assert derived_description(Child(FILE, "auth.aicontext", title)) == description


def test_a_long_title_is_cut_at_the_end_of_a_word() -> None:
    title = "word, " * 40

    description = derived_description(Child(FILE, "auth.aicontext", title))

    assert description == "word, " * 19 + "word…"


@pytest.mark.parametrize("title", ["x" * 200, "a " + "x" * 200])
def test_a_long_word_is_cut_within(title: str) -> None:
    description = derived_description(Child(FILE, "auth.aicontext", title))

    assert description == title[: DESCRIPTION_CHARS_MAX - 1] + "…"


def test_a_title_of_just_the_allowed_length_is_whole() -> None:
    title = "x" * DESCRIPTION_CHARS_MAX

    assert derived_description(Child(FILE, "auth.aicontext", title)) == title


@given(st.sampled_from(KINDS), st.text(), st.text() | st.text(min_size=100))
def test_any_derived_description_is_one_short_line(kind: LineKind, name: str, title: str) -> None:
    description = derived_description(Child(kind, name, title))

    assert 0 < len(description) <= DESCRIPTION_CHARS_MAX
    assert description.splitlines() == [description.strip()]
    assert not {unicodedata.category(c) for c in description} & {"Cc", "Cs", "Zl", "Zp"}
    assert derived_description(Child(kind, name, description)) == description


# -- any index, any directory ----------------------------------------------------------------------

# Few, so that lines, children and memories meet.
NAMES_ALL = ["a", "b", "c.aicontext", "d.aicontext", "E.aicontext", "dict.aicontext"]
NAMES = st.sampled_from(NAMES_ALL)
ODD_NAMES = st.sampled_from(["a/", "a/b", "index.aicontext", "", "C.aicontext", "a/c.aicontext"])
TEXTS = st.sampled_from(["", "one", "two", "a", "c", DICTIONARY_TITLE])
KEYS = st.tuples(st.sampled_from(KINDS), NAMES | ODD_NAMES)
LINES = st.tuples(st.sampled_from(KINDS), NAMES | NAMES | ODD_NAMES, TEXTS)
ORIGINS = st.builds(Origin, st.none() | NAMES, st.none() | TEXTS, st.booleans())
OTHER_LINES = st.sampled_from(
    [
        Line(LineKind.COMMENT, b"# file: a | one\n", text="file: a | one"),
        Line(LineKind.BLANK, b"\n"),
        Line(LineKind.OTHER, b"a\n", name="a"),
        Line(LineKind.TERM, b"a: one\n", name="a", text="one"),
    ]
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    lines = draw(st.none() | st.lists(LINES, max_size=8))
    seen = {line[:2] for line in lines or () if draw(st.booleans())} | draw(st.sets(KEYS))
    derived = {line for line in lines or () if draw(st.booleans())}
    return World(lines, seen, derived)


@st.composite
def listings(draw: st.DrawFn) -> list[Child]:
    """What a directory can hold: each name once."""
    children = []
    for name in [*draw(st.permutations(NAMES_ALL)), "index.aicontext"]:
        if draw(st.booleans()):
            kind = DICT if name == "dict.aicontext" else draw(st.sampled_from([DIR, FILE]))
            children.append(Child(kind, name, draw(TEXTS)))
    return children


@st.composite
def situations(draw: st.DrawFn) -> tuple[World, list[Child], dict[tuple[LineKind, str], Origin]]:
    """Also with children that came from a line of this index, or from anywhere."""
    world, children = draw(worlds()), draw(listings())
    here = {child.name for child in children}
    gone = [line for line in world.lines or () if line[1] not in here and lists(line) == line[1]]
    told = [Origin(name, text, (k, name, text) in world.derived) for k, name, text in gone]
    origins = st.sampled_from(told) | ORIGINS if told else ORIGINS
    moved = [child for child in children if draw(st.booleans())]
    return world, children, {(child.kind, child.name): draw(origins) for child in moved}


def lists(line: Listed) -> str | None:
    """The name of the child that a line lists, or could."""
    name = line[1].removesuffix("/")
    return None if "/" in name or name == "index.aicontext" else name


def is_within(part: Sequence[Listed], whole: Sequence[Listed]) -> bool:
    """Whether all of a list is in another one, in its order."""
    rest = iter(whole)
    return all(line in rest for line in part)


@given(situations())
def test_any_index_is_brought_in_step(
    situation: tuple[World, list[Child], dict[tuple[LineKind, str], Origin]],
) -> None:
    world, children, came_from = situation
    here = {child.name: child for child in children if child.name != "index.aicontext"}
    was = {
        name: came_from[c.kind, name].name
        for name, c in here.items()
        if (c.kind, name) in came_from and came_from[c.kind, name].name not in here
    }
    before = list(world.lines or [])
    seen = {name for _, name in world.seen} | set(was.values())
    derived_before = set(world.derived)

    edits = world.sync(*children, came_from=came_from)

    after = list(world.lines or [])
    listed, listed_before = Counter(map(lists, after)), Counter(map(lists, before))
    for name in here:
        assert listed[name] >= 1
        if listed_before[name] + listed_before[was.get(name)] <= 1:
            assert listed[name] == 1
    assert not {lists(line) for line in after} & (seen - set(here) - {None})
    by_hand = [line for line in before if line not in derived_before]
    theirs = [line for line in by_hand if line[1] in here and here[line[1]].kind is line[0]]
    placeholders = [line for line in before if lists(line) not in {*here, *seen}]
    strange = [line for line in before if lists(line) is None]
    assert is_within(theirs, after)
    assert is_within(placeholders, after)
    assert is_within(strange, after)
    for new, old in was.items():
        key = (here[new].kind, new)
        kept = [line[2] for line in by_hand if line[:2] == (key[0], old)]
        if old and not listed_before[new] and list(was.values()).count(old) == 1:
            made_up = [came_from[key].description] if came_from[key].derived else []
            assert {*kept} - {*made_up} <= {text for *at, text in after if tuple(at) == key}
    assert world.sync(*children, came_from=came_from) == ()
    assert world.sync(*children) == ()
    for name in sorted({type(edit).__name__ for edit in edits}):
        event(name)


@given(situations())
def test_what_is_called_derived_stands_in_the_index_and_nothing_else_is_amends_own(
    situation: tuple[World, list[Child], dict[tuple[LineKind, str], Origin]],
) -> None:
    world, children, came_from = situation

    planned = world.plan(*children, came_from=came_from)

    after = applied(world.lines or [], planned.edits)
    added = {(e.kind, e.name, e.text) for e in planned.edits if isinstance(e, AddLine)}
    described = [e for e in planned.edits if isinstance(e, DescribeLine)]
    brought = {(*key, origin.description) for key, origin in came_from.items()}
    assert set(planned.derived) <= {(kind, name.removesuffix("/"), t) for kind, name, t in after}
    assert all(text for _, _, text in planned.derived)
    assert added <= set(planned.derived) | brought
    assert len({(e.kind, e.name) for e in described}) == len(described)


@given(worlds(), listings(), st.lists(st.tuples(st.integers(0, 8), OTHER_LINES)))
def test_other_lines_change_nothing(
    world: World, children: list[Child], others: list[tuple[int, Line]]
) -> None:
    lines = list(index(*(world.lines or [])).lines)
    for at, line in others:
        lines.insert(at, line)

    planned = plan(
        Document(tuple(lines)),
        children,
        was_seen=lambda kind, name: (kind, name) in world.seen,
        is_derived=lambda kind, name, text: (kind, name, text) in world.derived,
        came_from={},
    )

    assert planned == world.plan(*children)


@given(worlds(), listings())
def test_any_index_with_a_problem_is_left_alone(world: World, children: list[Child]) -> None:
    world.lines = world.lines or []
    world.problem = "it is no UTF-8"

    planned = world.plan(*children)

    assert planned.edits == ()
    assert set(planned.derived) <= world.derived


# -- where a note went -----------------------------------------------------------------------------


def note(path: str, content: str = "", title: str = "") -> NoteThere:
    return NoteThere(path, content.encode(), title)


def test_the_same_content_at_another_path_is_a_move() -> None:
    moves = pair_moves([note("a/x", "1", "T")], [note("b/y", "1", "T"), note("b/z", "2", "T")])

    assert moves == {"a/x": "b/y"}


def test_of_equal_contents_the_same_file_name_is_the_move() -> None:
    moves = pair_moves([note("a/x", "1")], [note("a/y", "1"), note("b/x", "1")])

    assert moves == {"a/x": "b/x"}


def test_of_equal_contents_the_same_directory_is_the_move_where_no_name_tells() -> None:
    moves = pair_moves([note("a/x", "1")], [note("a/y", "1"), note("b/z", "1")])

    assert moves == {"a/x": "a/y"}


def test_the_root_is_a_directory_like_the_others() -> None:
    assert pair_moves([note("x", "1")], [note("y", "1"), note("b/z", "1")]) == {"x": "y"}


def test_of_equal_contents_as_many_as_are_certain_are_moves() -> None:
    lost = [note("a/x", "1"), note("a/p", "1"), note("c/q", "1")]
    gained = [note("b/x", "1"), note("d/r", "1"), note("e/s", "1")]

    assert pair_moves(lost, gained) == {"a/x": "b/x"}


def test_of_equal_contents_the_last_on_either_side_belong_together() -> None:
    lost = [note("a/x", "1"), note("c/q", "1")]
    gained = [note("b/x", "1"), note("d/r", "1")]

    assert pair_moves(lost, gained) == {"a/x": "b/x", "c/q": "d/r"}


def test_where_two_could_have_gone_to_a_name_none_did() -> None:
    lost = [note("a/x", "1", "T"), note("b/x", "1", "T")]
    gained = [note("c/x", "1", "T"), note("a/y", "1", "T")]

    assert pair_moves(lost, gained) == {}


def test_an_equal_content_without_a_name_or_directory_in_common_is_not_told_apart() -> None:
    assert pair_moves([note("a/x", "1")], [note("b/y", "1"), note("c/z", "1")]) == {}


def test_a_note_that_was_moved_and_edited_is_found_by_its_title() -> None:
    moves = pair_moves([note("a/x", "1", "JWT")], [note("b/y", "2", "JWT"), note("b/z", "3", "DB")])

    assert moves == {"a/x": "b/y"}


def test_a_title_that_two_notes_have_tells_nothing() -> None:
    moves = pair_moves(
        [note("a/x", "1", "JWT")], [note("b/y", "2", "JWT"), note("b/z", "3", "JWT")]
    )

    assert moves == {}


def test_no_title_and_no_known_content_tell_nothing() -> None:
    assert pair_moves([note("a/x"), note("b/x", "1")], [note("a/y"), note("b/y", "2")]) == {}


NOTES = st.lists(
    st.builds(
        note,
        st.builds(
            "{}{}".format, st.sampled_from(["", "a/", "b/", "a/b/"]), st.sampled_from("pqrs")
        ),
        st.sampled_from(["", "1", "2", "3"]),
        st.sampled_from(["", "S", "T"]),
    ),
    unique_by=lambda note: note.path,
    max_size=12,
)


@given(NOTES, st.sets(st.integers(0, 11)), st.randoms(use_true_random=False))
def test_moves_are_certain_whatever_the_order(
    notes: list[NoteThere], left: set[int], random: Random
) -> None:
    lost = [n for i, n in enumerate(notes) if i in left]
    gained = [n for i, n in enumerate(notes) if i not in left]
    by_path = {n.path: n for n in notes}
    shuffled = [random.sample(side, len(side)) for side in (lost, gained)]

    moves = pair_moves(lost, gained)

    pairs = [(by_path[old], by_path[new]) for old, new in moves.items()]
    assert pair_moves(*shuffled) == moves
    assert len(set(moves.values())) == len(moves)
    assert all(old in lost and new in gained for old, new in pairs)
    for old, new in pairs:
        assert (old.blob and old.blob == new.blob) or (old.title and old.title == new.title)
    blobs = [Counter(n.blob for n in side) for side in (lost, gained)]
    for old in lost:
        if old.blob and blobs[0][old.blob] == blobs[1][old.blob] == 1:
            assert by_path[moves[old.path]].blob == old.blob


def test_ten_thousand_equal_notes_that_moved_with_their_directory_are_paired() -> None:
    lost = [note(f"old/{i}", "1") for i in range(10_000)]
    gained = [note(f"new/{i}", "1") for i in range(10_000)]

    moves = pair_moves(lost, gained)

    assert moves == {f"old/{i}": f"new/{i}" for i in range(10_000)}
