"""What lint finds in a memory tree, rule by rule, and what it mends."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core import index_sync
from amend.core.aicontext import DICTIONARY_NAME, INDEX_NAME, Child, Directory, Document, LineKind
from amend.core.tree_lint import (
    REASONS,
    Finding,
    Rule,
    fixed_index,
    fixed_note,
    lint,
    rules_page,
)
from amend.core.tree_lint.rules import DESCRIPTION_CHARACTERS_MAX
from amend.formats.aicontext import parse_dictionary, parse_index, parse_note

TODAY = date(2026, 11, 30)
NOTE = "2026-11-01: Sessions\n  - Kept in the database\n"
LONG = "d" * (DESCRIPTION_CHARACTERS_MAX + 1)
TERMS_IN_USE = "2026-11-01: LRT and DLT\n  - LRT, LRTs; (LRT)\n  - DLT/DLT\n"

Files = Mapping[str, str | bytes]


def directories(files: Files) -> list[Directory]:
    """The tree of these files. Every directory on the way to one is there."""
    paths = {""}
    for path in files:
        parts = path.split("/")[:-1]
        paths |= {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return [_directory(path, paths, files) for path in sorted(paths)]


def _directory(path: str, paths: set[str], files: Files) -> Directory:
    prefix = f"{path}/" if path else ""
    here = {
        name.removeprefix(prefix): text if isinstance(text, bytes) else text.encode()
        for name, text in files.items()
        if name.startswith(prefix) and "/" not in name.removeprefix(prefix)
    }
    below = [
        other.removeprefix(prefix)
        for other in sorted(paths)
        if other and other.startswith(prefix) and "/" not in other.removeprefix(prefix)
    ]
    index, dictionary = here.pop(INDEX_NAME, None), here.pop(DICTIONARY_NAME, None)
    children = [Child(LineKind.DIRECTORY, name) for name in below]
    children += [Child(LineKind.FILE, name) for name in sorted(here)]
    if dictionary is not None:
        children.append(Child(LineKind.DICTIONARY, DICTIONARY_NAME))
    return Directory(
        path,
        parse_index(index) if index is not None else None,
        tuple(children),
        {name: parse_note(text) for name, text in here.items()},
        parse_dictionary(dictionary) if dictionary is not None else None,
    )


def findings(files: Files, *, gone: frozenset[str] = frozenset()) -> list[Finding]:
    return lint_directories(directories(files), gone=gone)


def lint_directories(
    tree: list[Directory], *, gone: frozenset[str] = frozenset(), unknown: bool = False
) -> list[Finding]:
    def exists(path: str) -> bool | None:
        return None if unknown else path not in gone and not path.startswith("memory/")

    return lint(
        "memory",
        tree,
        today=TODAY,
        exists=exists,
        cited=cited,
        count_tokens=lambda t: len(t.split()),
    )


def cited(document: Document) -> list[tuple[int, str]]:
    """Words that look like paths of source files."""
    return [
        (number, word)
        for number, line in enumerate(document.lines, 1)
        for word in line.raw.decode(errors="replace").split()
        if word.endswith(".py")
    ]


def note(text: str | bytes) -> Files:
    """A tree with nothing wrong but in its one note."""
    return {"index.aicontext": "file: note.aicontext | About it\n", "note.aicontext": text}


def index(text: str, *names: str) -> Files:
    """A tree with notes that are right, and this index."""
    return {"index.aicontext": text, **dict.fromkeys(names, NOTE)}


def dictionary(text: str) -> Files:
    return {
        "index.aicontext": "dict: dict.aicontext | Words\nfile: note.aicontext | About it\n",
        "dict.aicontext": text,
        "note.aicontext": TERMS_IN_USE,
    }


@dataclass(frozen=True)
class Case:
    rule: Rule
    files: Files
    lines: tuple[tuple[str, int], ...]  # below "memory/"
    gone: frozenset[str] = frozenset()


def case(rule: Rule, files: Files, *lines: tuple[str, int], gone: str = "") -> Case:
    return Case(rule, files, lines, frozenset(gone.split()))


IN_NOTE = "note.aicontext"
IN_INDEX = "index.aicontext"
IN_DICT = "dict.aicontext"

WRONG = [
    case(Rule.NOT_UTF8, note(NOTE.encode() + b"  - Caf\xe9\n  - \xff\n"), (IN_NOTE, 3)),
    case(
        Rule.CONFLICT_MARKERS,
        note(f"<<<<<<< HEAD\n{NOTE}=======\n{NOTE}>>>>>>> other\n<<<<<<< a\n=======\n>>>>>>> b\n"),
        (IN_NOTE, 1),
        (IN_NOTE, 8),
    ),
    case(Rule.CONFLICT_MARKERS, note(f"{NOTE}>>>>>>> other\n"), (IN_NOTE, 3)),
    case(Rule.LEFT_ALONE, note(NOTE + "  - a\0b\n- c\n"), (IN_NOTE, 1)),
    case(
        Rule.NAME_CLASH,
        index(
            "file: Auth.aicontext | A\nfile: auth.aicontext | B\n",
            "Auth.aicontext",
            "auth.aicontext",
        ),
        ("auth.aicontext", 1),
    ),
    case(
        Rule.NAME_CLASH,
        index(
            "file: caf\u00e9.aicontext | A\nfile: cafe\u0301.aicontext | B\n",
            "caf\u00e9.aicontext",
            "cafe\u0301.aicontext",
        ),
        ("caf\u00e9.aicontext", 1),
    ),
    case(Rule.NO_INDEX, {"note.aicontext": NOTE}, (IN_INDEX, 1)),
    case(
        Rule.NO_INDEX,
        {"index.aicontext": "dir: bugs/ | B\n", "bugs/one.aicontext": NOTE},
        ("bugs/index.aicontext", 1),
    ),
    case(Rule.MISSING_LINE, index("# Memory\n", "b.aicontext"), (IN_INDEX, 1)),
    case(
        Rule.MISSING_LINE,
        {"index.aicontext": "", "bugs/index.aicontext": "file: a.aicontext | A\n"}
        | {"bugs/a.aicontext": NOTE},
        (IN_INDEX, 1),
    ),
    case(Rule.MISSING_LINE, index("# file: b.aicontext | B\n", "b.aicontext"), (IN_INDEX, 1)),
    case(
        Rule.UNLISTED_DICTIONARY,
        {"index.aicontext": "# Memory\n", "dict.aicontext": "# none yet\n"},
        (IN_INDEX, 1),
    ),
    case(
        Rule.DANGLING_LINE,
        index("dir: infra/ | I\n\nfile: b.aicontext | B\ndict: dict.aicontext | D\n"),
        (IN_INDEX, 1),
        (IN_INDEX, 3),
        (IN_INDEX, 4),
    ),
    case(
        Rule.WRONG_LEVEL,
        {
            "index.aicontext": "dir: bugs/ | B\n"
            "file: bugs/a.aicontext | A\nfile: a.aicontext | B\n",
            "bugs/index.aicontext": "file: a.aicontext | A\ndir: bugs/ | B\ndir: ../ | up\n",
            "bugs/a.aicontext": NOTE,
        },
        ("bugs/index.aicontext", 2),
        ("bugs/index.aicontext", 3),
        (IN_INDEX, 2),
        (IN_INDEX, 3),
    ),
    case(Rule.WRONG_LEVEL, index("file: index.aicontext | This\n"), (IN_INDEX, 1)),
    case(
        Rule.WRONG_KIND,
        {
            "index.aicontext": (
                "file: bugs/ | B\ndir: a.aicontext | A\nfile: dict.aicontext | Words\n"
            ),
            "dict.aicontext": "",
            "a.aicontext": NOTE,
            "bugs/index.aicontext": "",
        },
        (IN_INDEX, 1),
        (IN_INDEX, 2),
        (IN_INDEX, 3),
    ),
    case(
        Rule.DUPLICATE_LINE,
        index("file: a.aicontext | A\n# between\nfile: a.aicontext | B\n", "a.aicontext"),
        (IN_INDEX, 3),
    ),
    case(
        Rule.DUPLICATE_LINE,
        index("file: a.aicontext\nfile: a.aicontext | A\n", "a.aicontext"),
        (IN_INDEX, 1),
    ),
    case(
        Rule.DUPLICATE_LINE,
        dictionary("LRT: long running transaction\nLRT: late return of tools\n"),
        (IN_DICT, 2),
    ),
    case(Rule.NO_DESCRIPTION, index("file: a.aicontext |\n", "a.aicontext"), (IN_INDEX, 1)),
    case(Rule.NO_DESCRIPTION, index("file: a.aicontext\n", "a.aicontext"), (IN_INDEX, 1)),
    case(
        Rule.LONG_DESCRIPTION, index(f"file: a.aicontext | {LONG}\n", "a.aicontext"), (IN_INDEX, 1)
    ),
    case(
        Rule.UNKNOWN_LINE,
        index("# M\nflie: a.aicontext | A\nSome words\nfile: a.aicontext | A\n", "a.aicontext"),
        (IN_INDEX, 2),
        (IN_INDEX, 3),
    ),
    case(Rule.UNKNOWN_LINE, dictionary("Abbreviations follow\n"), (IN_DICT, 1)),
    case(Rule.NO_ENTRY, note(""), (IN_NOTE, 1)),
    case(Rule.NO_ENTRY, note("# Sessions\n  - In the database\n"), (IN_NOTE, 1)),
    case(Rule.NO_TITLE, note("\n2026-11-01:\n  - In the database\n"), (IN_NOTE, 2)),
    case(Rule.NO_BULLETS, note("# Sessions\n2026-11-01: Sessions\n  -\n"), (IN_NOTE, 2)),
    case(
        Rule.HISTORY_KEPT,
        note(f"2026-09-01: Older\n  - a\n{NOTE}2026-10-01: Old\n  - b\n"),
        (IN_NOTE, 1),
        (IN_NOTE, 5),
    ),
    case(Rule.SEVERAL_ENTRIES, note(f"{NOTE}2026-11-01: Cookies\n  - c\n"), (IN_NOTE, 3)),
    case(
        Rule.PROSE,
        note(f"{NOTE}    goes on here\n\nWe met, and\ntalked for long.\n\n1. Then\n"),
        (IN_NOTE, 3),
        (IN_NOTE, 5),
        (IN_NOTE, 8),
    ),
    case(Rule.BAD_DATE, note("2026-02-30: Sessions\n  - a\n"), (IN_NOTE, 1)),
    case(Rule.BAD_DATE, note("10/04/2026: Sessions\n  - a\n"), (IN_NOTE, 1)),
    case(Rule.BAD_DATE, note("2026-4-1: Sessions\n  - a\n"), (IN_NOTE, 1)),
    case(Rule.BAD_DATE, note("2026-04-01 Sessions\n  - a\n"), (IN_NOTE, 1)),
    case(Rule.BAD_DATE, note("2026.04.01: Sessions\n  - a\n"), (IN_NOTE, 1)),
    case(Rule.BAD_DATE, note("2026-04-01T10:00Z: Sessions\n  - a\n"), (IN_NOTE, 1)),
    case(Rule.BAD_DATE, note("\ufeff2026-13-01: Sessions\n  - a\n"), (IN_NOTE, 1)),
    case(Rule.FUTURE_DATE, note("2026-12-02: Sessions\n  - a\n"), (IN_NOTE, 1)),
    case(
        Rule.BAD_INDENTATION,
        note("2026-11-01: S\n- a\n\t- b\n    - c\n  * d\n  -  e\n  - f\n"),
        (IN_NOTE, 2),
        (IN_NOTE, 3),
        (IN_NOTE, 4),
        (IN_NOTE, 5),
        (IN_NOTE, 6),
    ),
    case(Rule.BAD_INDENTATION, note("  2026-11-01: Sessions\n  - a\n"), (IN_NOTE, 1)),
    case(
        Rule.GONE_PATH,
        note("2026-11-01: S\n  - In src/a.py and src/b.py and src/a.py\n  - In src/a.py\n"),
        (IN_NOTE, 2),
        (IN_NOTE, 3),
        gone="src/a.py",
    ),
    case(
        Rule.UNUSED_TERM,
        dictionary("LRT: long running transaction\nXYZ: exact yearly zeal\nRT: run of trees\n"),
        (IN_DICT, 2),
        (IN_DICT, 3),
    ),
    case(
        Rule.RARE_TERM,
        {**dictionary("OLT: one late train\n"), "note.aicontext": NOTE + "  - OLT: an OLT\n"},
        (IN_DICT, 1),
    ),
    case(Rule.SHORT_TERM, dictionary("DLT: dead letters\n"), (IN_DICT, 1)),
]

RIGHT = [
    case(Rule.NOT_UTF8, note("2026-11-01: Café\n  - 9 – 17 h\n")),
    case(Rule.CONFLICT_MARKERS, note(NOTE + "  - <<<<<<< is what git writes\n")),
    case(Rule.LEFT_ALONE, note(NOTE)),
    case(Rule.NAME_CLASH, index("file: a.aicontext | A\nfile: b.aicontext | B\n", "a.aicontext")
         | {"b.aicontext": NOTE}),
    case(Rule.NO_INDEX, index("file: a.aicontext | A\n", "a.aicontext")),
    case(Rule.NO_INDEX, {}),
    case(Rule.MISSING_LINE, index("# x\nfile: a.aicontext | A", "a.aicontext")),
    case(Rule.UNLISTED_DICTIONARY, dictionary("LRT: long running transaction\n")),
    case(Rule.DANGLING_LINE, index("# dir: infra/ | I\n# file: <name> | <text>\n")),
    case(
        Rule.WRONG_LEVEL,
        {
            "index.aicontext": "dir: a/ | A\ndir: b/ | B\n",
            "a/index.aicontext": "file: same.aicontext | A\n",
            "a/same.aicontext": NOTE,
            "b/index.aicontext": "file: same.aicontext | B\n",
            "b/same.aicontext": NOTE,
        },
    ),
    case(Rule.WRONG_KIND, dictionary("LRT: long running transaction\n")),
    case(
        Rule.DUPLICATE_LINE,
        index("# file: a.aicontext | Before\nfile: a.aicontext | A\n", "a.aicontext"),
    ),
    case(Rule.NO_DESCRIPTION, index("file: a.aicontext | A\n", "a.aicontext")),
    case(Rule.LONG_DESCRIPTION, index(f"file: a.aicontext | {LONG[1:]}\n", "a.aicontext")),
    case(Rule.UNKNOWN_LINE, index("\n# Sentences are comments.\n   \n")),
    case(Rule.UNKNOWN_LINE, dictionary("# Terms\n\nLRT: long running transaction\n")),
    case(Rule.NO_ENTRY, note(f"# Sessions\n\n{NOTE}")),
    case(Rule.NO_TITLE, note("2026-11-01: S\n  - a\n")),
    case(Rule.NO_BULLETS, note(NOTE)),
    case(Rule.HISTORY_KEPT, note(NOTE + "  - Until 2026-09-01 there were cookies\n")),
    case(Rule.SEVERAL_ENTRIES, note(NOTE + "\n\n  - Also this\n")),
    case(Rule.PROSE, note(f"# Words in a comment\n{NOTE}\n  - x: y, #z, 10%\n")),
    case(Rule.BAD_DATE, note("2024-02-29: A leap day\n  - 10/04/2026 is no entry\n")),
    case(Rule.BAD_DATE, note(f"{NOTE}    2026-02-30: goes on\n1.2.3: a version\n")),
    case(Rule.HISTORY_KEPT, note(f"{NOTE}    2026-09-01: goes on\n2026-08-01 we met\n")),
    case(Rule.FUTURE_DATE, note("2026-12-01: Tomorrow, today further east\n  - a\n")),
    case(Rule.BAD_INDENTATION, note("2026-11-01: S\r\n  - a\r\n  - - b\r\n")),
    case(Rule.GONE_PATH, note("2026-11-01: S\n  - In src/a.py\n"), gone="src/other.py"),
    case(Rule.UNUSED_TERM, dictionary("LRT: long running transaction\n")),
    case(
        Rule.RARE_TERM,
        dictionary("DLT: dead letter table\n")  # twice in the note, once in the index
        | {"index.aicontext": "dict: dict.aicontext | DLT\nfile: note.aicontext | Rest\n"}
        | {"note.aicontext": NOTE + "  - DLT, DLTs\n"},
    ),
    case(Rule.SHORT_TERM, dictionary("DLT: dead letter table\n")),
]  # fmt: skip


def ids(cases: list[Case]) -> list[str]:
    return [f"{number}-{each.rule}" for number, each in enumerate(cases)]


@pytest.mark.parametrize("wrong", WRONG, ids=ids(WRONG))
def test_what_is_wrong_is_found_with_its_rule_path_and_line_and_nothing_else_is(
    wrong: Case,
) -> None:
    found = findings(wrong.files, gone=wrong.gone)

    assert [(each.rule, each.path, each.line) for each in found] == [
        (wrong.rule, f"memory/{path}", line) for path, line in wrong.lines
    ]


@pytest.mark.parametrize("right", RIGHT, ids=ids(RIGHT))
def test_what_is_right_is_not_found(right: Case) -> None:
    assert right.rule not in {found.rule for found in findings(right.files, gone=right.gone)}


def test_every_rule_has_a_case_that_trips_it_and_one_that_does_not() -> None:
    assert {each.rule for each in WRONG} == set(Rule)
    assert {each.rule for each in RIGHT} == set(Rule)


@pytest.mark.parametrize("wrong", WRONG, ids=ids(WRONG))
def test_a_message_is_one_lower_case_line_that_says_what_to_do(wrong: Case) -> None:
    for found in findings(wrong.files, gone=wrong.gone):
        assert found.message.isprintable()
        assert found.message[0] == "`" or found.message[0].islower() or found.message[0].isdigit()
        assert ": " in found.message
        assert not found.message.endswith(".")


# -- left alone ------------------------------------------------------------------------------------


def test_a_file_that_amend_leaves_alone_is_found_with_the_reason() -> None:
    tree = [
        Directory(
            "",
            Document((), "it is a symlink"),
            (Child(LineKind.FILE, "a.aicontext"),),
            {"a.aicontext": Document((), "it is larger than 1048576 bytes")},
        )
    ]

    found = lint_directories(tree)

    assert [(each.rule, each.path) for each in found] == [
        (Rule.LEFT_ALONE, "memory/a.aicontext"),
        (Rule.LEFT_ALONE, "memory/index.aicontext"),
    ]
    assert "larger than 1048576 bytes" in found[0].message
    assert not any(each.is_fixable for each in found)


def test_a_term_is_not_called_unused_while_a_note_cannot_be_read() -> None:
    tree = directories(dictionary("XYZ: exact yearly zeal\n"))
    unread = {"note.aicontext": Document((), "it cannot be read")}
    tree = [
        Directory(each.path, each.index, each.children, unread, each.dictionary) for each in tree
    ]

    assert [found.rule for found in lint_directories(tree)] == [Rule.LEFT_ALONE]


def test_a_path_of_which_nobody_knows_is_not_called_gone() -> None:
    tree = directories(note("2026-11-01: S\n  - In src/a.py\n"))

    assert lint_directories(tree, unknown=True) == []


def test_a_line_for_a_file_that_is_no_note_does_not_dangle() -> None:
    files = index("file: map.svg | How it hangs together\ndir: scans/ | On paper\nfile: b.md | B\n")

    found = lint(
        "memory",
        directories(files),
        today=TODAY,
        exists=lambda path: path in ("memory/map.svg", "memory/scans"),
        cited=lambda _: (),
        count_tokens=len,
    )

    assert [(each.rule, each.line) for each in found] == [(Rule.DANGLING_LINE, 3)]


# -- messages --------------------------------------------------------------------------------------


def messages(files: Files) -> list[str]:
    return [found.message for found in findings(files)]


def test_a_line_that_misspells_a_name_is_told_the_right_one() -> None:
    files = index("file: Auth.aicontext | A\nfile: db | D\n", "auth.aicontext", "db.aicontext")

    found = findings(files)

    dangling = [each for each in found if each.rule is Rule.DANGLING_LINE]
    assert "write `file: auth.aicontext`" in dangling[0].message
    assert "write `file: db.aicontext`" in dangling[1].message


def test_more_of_a_bullet_is_to_be_joined_with_it() -> None:
    assert messages(note(f"{NOTE}    for a day\n")) == [
        "`for a day` goes on with the bullet above: a bullet is one line, join them"
    ]


def test_a_placeholder_is_called_one() -> None:
    assert messages(index("dir: infra/ | Where it runs\n")) == [
        "there is no `infra/`: remove the line, or comment it out if it is a placeholder"
    ]


def test_control_characters_do_not_reach_a_message() -> None:
    found = messages(index("file: a\x1b[31m\u202eb | Red\nwords\x07\n"))

    assert found
    assert all(message.isprintable() for message in found)


def test_a_note_that_no_line_can_name_is_to_be_renamed() -> None:
    found = findings(index("# M\n", "a|b.aicontext"))

    assert [(each.rule, each.is_fixable) for each in found] == [(Rule.MISSING_LINE, False)]
    assert "rename it" in found[0].message


def test_what_the_sync_writes_is_no_long_description() -> None:
    assert index_sync.DESCRIPTION_CHARS_MAX <= DESCRIPTION_CHARACTERS_MAX


# -- order and place -------------------------------------------------------------------------------


def test_findings_are_sorted_by_path_and_line() -> None:
    files = {
        "index.aicontext": "dir: z/ | Z\nfile: gone.aicontext | G\n",
        "z/index.aicontext": "words\nfile: n.aicontext\n",
        "z/n.aicontext": "words\n",
        "b.aicontext": "",
    }

    found = findings(files)

    assert found == sorted(found, key=lambda each: (each.path, each.line))
    assert len({each.path for each in found}) == 4


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        ("memory", "memory/a.aicontext"),
        ("docs/memory/", "docs/memory/a.aicontext"),
        (".", "a.aicontext"),
    ],
)
def test_paths_are_below_the_repositorys_root(tree: str, path: str) -> None:
    files = index("file: a.aicontext | A\n") | {"a.aicontext": ""}

    found = lint(
        tree,
        directories(files),
        today=TODAY,
        exists=lambda _: None,
        cited=lambda _: (),
        count_tokens=len,
    )

    assert [each.path for each in found] == [path]


def test_a_title_between_two_dates_of_one_day_is_told_where_the_other_entry_is() -> None:
    found = findings(note(f"{NOTE}2026-10-01: Old\n  - o\n2026-11-01: New\n  - n\n"))

    assert [(each.rule, each.line) for each in found] == [
        (Rule.HISTORY_KEPT, 3),
        (Rule.SEVERAL_ENTRIES, 5),
    ]
    assert "line 1" in found[0].message
    assert "line 1" in found[1].message


def test_a_longer_term_is_no_use_of_a_shorter_one() -> None:
    terms = "JWT: signed web token\nJWT-R: signed token that is revocable\n"
    used = {"note.aicontext": NOTE + "  - JWT-R, JWT-R; no JWT-R\n"}

    found = findings({**dictionary(terms), **used})

    assert [(each.rule, each.line) for each in found] == [(Rule.UNUSED_TERM, 1)]


# -- mending ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("2026-11-01: S\n- a\n* b\n", "2026-11-01: S\n  - a\n  - b\n"),
        ("2026-11-01: S\n\t- a\n\t- b", "2026-11-01: S\n  - a\n  - b"),
        ("2026-11-01: S\r\n    -   a  \r\n", "2026-11-01: S\r\n  - a  \r\n"),
        ("  2026-11-01: S\n  • a\n", "2026-11-01: S\n  - a\n"),
        ("2026-11-01: S\n- a\n    - below\n", "2026-11-01: S\n  - a\n    - below\n"),
    ],
)
def test_bullets_get_their_indentation_and_keep_their_words(wrong: str, right: str) -> None:
    assert fixed_note(parse_note(wrong.encode())) == right.encode()


@pytest.mark.parametrize(
    "text",
    [
        NOTE,
        "",
        "prose\n  - -\n-prose\n",
        "2026-11-01: S\n  - a\n    - below\n      - deeper\n",
        "2026-11-01: S\n  - a\n    2026-09-01: goes on\n",
        "\ufeff- a\n",
        "<<<<<<< HEAD\n- a\n=======\n* a\n>>>>>>> b\n",
    ],
)
def test_a_note_is_left_where_nothing_is_to_mend_or_a_person_must_say_how(text: str) -> None:
    assert fixed_note(parse_note(text.encode())) is None


def test_a_bullet_below_a_bullet_is_found_and_not_called_fixable() -> None:
    found = findings(note("2026-11-01: S\n  - a\n    - below\n    - below\n  - b\n"))

    assert [(each.rule, each.line, each.is_fixable) for each in found] == [
        (Rule.BAD_INDENTATION, 3, False),
        (Rule.BAD_INDENTATION, 4, False),
    ]


note_lines = st.lists(
    st.builds(
        "".join,
        st.tuples(
            st.sampled_from(["", " ", "  ", "    ", "\t", " \t"]),
            st.sampled_from(
                ["- ", "* ", "+ ", "-", "-  ", "2026-11-01: ", "2026-13-01: ", "# ", ""]
            ),
            st.sampled_from(["a", "b c", "- d", "", "é", "\x0b"]),
            st.sampled_from(["\n", "\r\n", " \n", "\n\n"]),
        ),
    ),
    max_size=8,
).map("".join)


@given(note_lines)
def test_mending_a_note_changes_no_word_and_leaves_nothing_that_is_fixable(text: str) -> None:
    before = parse_note(text.encode())

    mended = fixed_note(before)

    is_fixable = any(
        found.is_fixable and found.path.endswith("note.aicontext") for found in findings(note(text))
    )
    assert (mended is not None) == is_fixable
    if mended is not None:
        assert _words(mended) == _words(text.encode())
        assert fixed_note(parse_note(mended)) is None


def _words(data: bytes) -> list[list[str]]:
    """The words of every line, without the sign that begins a bullet."""
    words = [line.split() for line in data.decode().split("\n")]
    return [line[1:] if line and line[0] in "-*+" else line for line in words]


def mended(text: str, *names: str) -> bytes | None:
    return fixed_index(directories(index(text, *names))[0])


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (
            "file: a.aicontext\n# c\nfile: a.aicontext | A\nfile: a.aicontext | A\n",
            "# c\nfile: a.aicontext | A\n",
        ),
        ("file: a.aicontext | A\r\nfile: a.aicontext |", "file: a.aicontext | A\r\n"),
        ("dir: gone/ | G\ndir: gone | G\n", "dir: gone/ | G\n"),
    ],
)
def test_of_lines_for_one_thing_the_first_with_a_description_stays(wrong: str, right: str) -> None:
    assert mended(wrong, "a.aicontext") == right.encode()


@pytest.mark.parametrize(
    "text",
    [
        "file: a.aicontext | A\nfile: gone.aicontext\n",
        "file: a.aicontext | A\nfile: a.aicontext | What somebody else wrote\n",
        "file: a.aicontext | A\ndir: a.aicontext | A\n",
        "<<<<<<< HEAD\nfile: a.aicontext | A\n=======\nfile: a.aicontext | A\n>>>>>>> b\n",
    ],
)
def test_an_index_keeps_every_line_that_says_something_of_its_own(text: str) -> None:
    assert mended(text, "a.aicontext") is None


def test_a_directory_without_an_index_has_none_to_mend() -> None:
    assert fixed_index(directories({"a.aicontext": NOTE})[0]) is None


index_lines = st.lists(
    st.sampled_from(
        [
            "file: a.aicontext | A\n",
            "file: a.aicontext\n",
            "file: a.aicontext | B\n",
            "dir: a.aicontext\n",
            "dir: c/ | A\n",
            "dir: c | A\r\n",
            "# file: a.aicontext | A\n",
            "\n",
            "words\n",
        ]
    ),
    max_size=8,
).map("".join)


@given(index_lines)
def test_mending_an_index_keeps_every_description_and_leaves_nothing_that_is_fixable(
    text: str,
) -> None:
    files = index(text, "a.aicontext")

    after = mended(text, "a.aicontext")

    is_fixable = any(
        found.is_fixable and found.rule is Rule.DUPLICATE_LINE for found in findings(files)
    )
    assert (after is not None) == is_fixable
    if after is not None:
        described = {(line.kind, line.name, line.text) for line in parse_index(text.encode()).lines}
        kept = {(line.kind, line.name, line.text) for line in parse_index(after).lines}
        assert {each for each in described if each[2]} == {each for each in kept if each[2]}
        assert mended(after.decode(), "a.aicontext") is None


@given(st.binary(max_size=120), st.binary(max_size=120), st.binary(max_size=60))
def test_no_bytes_break_lint_or_mending(index: bytes, text: bytes, words: bytes) -> None:
    files = {"index.aicontext": index, "note.aicontext": text, "dict.aicontext": words}

    found = findings(files)

    assert all(each.message.isprintable() and each.line >= 1 for each in found)
    tree = directories(files)[0]
    fixed_index(tree)
    fixed_note(tree.notes["note.aicontext"])


# -- the page --------------------------------------------------------------------------------------


def test_every_rule_has_its_reason() -> None:
    assert set(REASONS) == set(Rule)
    assert all(reason.endswith((".", ")")) for reason in REASONS.values())


def test_the_page_of_the_documentation_is_the_one_that_the_rules_make() -> None:
    page = Path(__file__).parents[2] / "docs" / "memory-lint.md"

    assert page.read_text(encoding="utf-8") == rules_page(), (
        "write docs/memory-lint.md anew from amend.core.tree_lint.rules_page()"
    )
