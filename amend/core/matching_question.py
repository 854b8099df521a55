"""A question, in words → what it asks for.

Its words weigh by where they stand: what its first sentence names is what it is about. Beside them
stand the files that it names, what it wants left out, and whether it wants a change rather than an
answer. English, as agents and people write it; what is written in another language has words that
no entry knows, and is left unanswered.

Time is linear in the text, of which no more than `TEXT_CHARS_MAX` are read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from amend.core.matching_words import TEXT_CHARS_MAX, Stems, Word, joined, words

# Prompts of three paragraphs have 40 to 60 words that say something.
WORDS_MAX: Final = 80

_EDITS: Final = words("""
    add adjust bump change clean convert create delete disable drop edit enable extend fix implement
    improve install introduce make migrate modify move optimise optimize patch plan refactor remove
    rename replace revert rewrite undo update upgrade write
    """)
# Nouns as often as not: `build the image` wants something done, `build time` asks for something.
_EDITS_OF_SOMETHING: Final = words(
    "build change commit deploy merge move patch plan port push release run split support update"
)
_DETERMINERS: Final = words(
    "a all an another any each every it my new our some that the their them these this those unused"
    " your adding"
)
_INTENDED: Final = words(
    "about asked going has have intend like need needs order plan planning trying want wants wanted"
)
_POLITE: Final = words("also and just kindly lets now please then")

_EXCLUDES: Final = words(
    "besides except exclude excludes excluding ignore ignoring neither never nor not skip skipping"
    " unrelated without"
)
_EXCLUDES_IN_TWO: Final = frozenset(
    (
        ("anything", "but"),
        ("apart", "from"),
        ("aside", "from"),
        ("instead", "of"),
        ("no", "longer"),
        ("nothing", "but"),
        ("other", "than"),
        ("rather", "than"),
    )
)
# "Not only …" leaves nothing out, and "not found" is what a status is called.
_EXCLUDES_NOTHING: Final = words("found just least merely necessarily only sure yet")
# What does not do so is broken, and how it does is no answer.
_FUNCTIONS: Final = words("appear function load respond run show work worked working")
_EXCLUDED_WORDS_MAX: Final = 6

_NOT: Final = re.compile(r"\b(?:cannot|can['\u2019]t|won['\u2019]t)\b|n['\u2019]t\b", re.IGNORECASE)
_APOSTROPHE: Final = re.compile(r"['\u2019](?=\w)")
# Words, and what ends a sentence or a part of one.
_PIECE: Final = re.compile(r"[^\W_]+|[\n,()]|[.!?;:](?=\s|$)|[-\u2013\u2014*\u2022](?=\s)")
_ENDS_SENTENCE: Final = frozenset("\n.!?;:")
_ENDS_CLAUSE: Final = frozenset((*"\n.!?;:,()-*\u2013\u2014\u2022", "but"))

# What agents say around what they ask for, where its words could be somebody's subject as well.
_META: Final = re.compile(
    r"\b(?:search(?:es|ing)?(?= (?:the|this|for|through|across|in|is fine)\b)|file ?paths?|"
    r"absolute paths?|line numbers?|code snippets?|code paths?|report(?= (?:back|with|the|by|file|"
    r"your|them|on|exact|all)\b)|research only|(?:this|the) (?:project|repository|repo|codebase|"
    r"application|app)|do not modify|key (?:files|functions))\b",
    re.IGNORECASE,
)

# Without a directory a name with a dot is a file only where its end says so: "stripe.com" is none.
_ENDS: Final = words("""
    astro avif bash bat c cc cfg cjs clj cmake conf cpp cs css csv dart env erl ex exs fs go gql
    gradle graphql h hbs hcl hpp hs html ini ipynb java jl js json jsonc jsx kt kts less lock lua md
    mdx mjml mjs ml mts nix php pl plist prisma proto ps1 py pyi r rb rs rst sass scala scss sh sol
    sql svelte svg swift tf toml ts tsx txt vue wasm xml yaml yml zig
    """)
_NO_FILES: Final = re.compile(
    r"(?:node|next|nuxt|vue|react|express|three|d3|chart|moment|ember|alpine|nest|solid)\.js",
    re.IGNORECASE,
)

_CHUNK: Final = re.compile(r"[^\s\"'`,;<>|=]+")
_LINE: Final = re.compile(r"(?::\d|#).*", re.DOTALL)
_END: Final = re.compile(r"[^.]\.([A-Za-z]\w{0,9})$")


@dataclass(frozen=True, slots=True)
class Path:
    """A file or a directory that a question names; `parts` without what leads to the root."""

    text: str
    parts: tuple[str, ...]
    is_directory: bool


@dataclass(frozen=True, slots=True)
class Question:
    """`head`: the words of the first sentence that has any, `tail`: those of the others; in the
    order they come, each stem once. `excluded`: stems that it wants left out."""

    head: tuple[Word, ...]
    tail: tuple[Word, ...]
    paths: tuple[Path, ...]
    excluded: tuple[str, ...]
    is_edit: bool


def read(text: str, stems: Stems) -> Question:
    text = text[:TEXT_CHARS_MAX]
    paths = tuple(_paths(text))
    plain = _APOSTROPHE.sub("", _NOT.sub(" not ", text))
    plain = _META.sub(" ", joined(plain))
    pieces = _PIECE.findall(plain)
    excluded: dict[str, None] = {}
    is_edit = False
    for clause in _split(pieces, _ENDS_CLAUSE):
        excluded.update(dict.fromkeys(_excluded(clause, stems)))
        is_edit = is_edit or _wants_change(clause)
    head: dict[str, Word] = {}
    tail: dict[str, Word] = {}
    is_first = True
    for sentence in _split(pieces, _ENDS_SENTENCE):
        into = head if is_first else tail
        for token in sentence:
            for word in stems.of(token) if token not in _ENDS_CLAUSE else ():
                if not (word.stem in head or word.stem in tail or word.stem in excluded):
                    into[word.stem] = word
        is_first = is_first and not any(word.weight == 1 for word in head.values())
        if len(head) + len(tail) >= WORDS_MAX:
            break
    first = tuple(head.values())[:WORDS_MAX]
    rest = tuple(tail.values())[: WORDS_MAX - len(first)]
    return Question(first, rest, paths, tuple(excluded), is_edit)


def _split(pieces: Sequence[str], ends: frozenset[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for piece in pieces:
        if piece not in ends:
            part.append(piece)
        elif part:
            yield part
            part = []
    if part:
        yield part


def _paths(text: str) -> Iterator[Path]:
    for found in _CHUNK.findall(text):
        if not ("/" in found or "." in found[:-1] or "\\" in found):
            continue
        chunk = _LINE.sub("", found.replace("\\", "/").strip("(){}*.:!?"))
        parts = tuple(part for part in chunk.split("/") if part not in ("", ".", "..", "~"))
        if "://" in chunk or not parts:
            continue
        if chunk.endswith("/"):
            if len(parts) > 1:
                yield Path(chunk, parts, is_directory=True)
            continue
        end = _END.search(parts[-1])
        if end is None or _NO_FILES.fullmatch(parts[-1]):
            continue
        if len(parts) > 1 or end[1].lower() in _ENDS:
            yield Path(chunk, parts, is_directory=False)


def _excluded(tokens: Sequence[str], stems: Stems) -> Iterator[str]:
    words = [token.lower() for token in tokens]
    for at, word in enumerate(words):
        following = words[at + 1 : at + 2]
        if word in _EXCLUDES:
            start = at + 1
        elif following and (word, following[0]) in _EXCLUDES_IN_TWO:
            start = at + 2
        else:
            continue
        rest = words[start : start + _EXCLUDED_WORDS_MAX]
        if rest and rest[0] in _EXCLUDES_NOTHING:
            continue
        if rest and rest[0] in _FUNCTIONS:
            yield rest[0]
        for each in rest:
            if each not in _EDITS:
                yield from (found.stem for found in stems.of(each) if found.weight == 1)


def _wants_change(tokens: Sequence[str]) -> bool:
    words = [token.lower() for token in tokens]
    for at, word in enumerate(words):
        is_of_something = word in _EDITS_OF_SOMETHING
        if word not in _EDITS and not is_of_something:
            continue
        if is_of_something and not _DETERMINERS.intersection(words[at + 1 : at + 2]):
            continue
        before = words[:at]
        while before and before[-1] in _POLITE:
            before.pop()
        if not before and "not" not in words[:at]:
            return True
        if before[-1:] == ["to"] and _INTENDED.intersection(before[-2:-1]):
            return True
        if before[-1:] == ["you"] and {"can", "could", "would", "will"} & set(before[-2:-1]):
            return True
    return False
