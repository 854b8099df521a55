"""Text → words that can be compared.

A word is a stem: `verifyJwtTokens`, `verify-jwt-token` and "verifying a JWT token" have the same
three. Words of English that say nothing of any subject are none.

Depends on the text alone: no locale, no hash seed, no order of anything else. Time is linear in the
text, of which no more than `TEXT_CHARS_MAX` are read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

# The prompts that agents give to explorers have 200 to 3,000 characters, the API takes no longer
# question; what comes later is quoted material, and reading it would cost more than an answer may.
TEXT_CHARS_MAX: Final = 4_000

# Longer ones are hashes, base64 and minified code.
WORD_CHARS_MAX: Final = 40

# What agents say of every finding ("the flow", "is handled") tells entries apart a little only.
# Tuned (see `matching`): 0.1 to 0.3 give nearly the same.
LIGHT: Final = 0.2

TOKEN: Final = re.compile(r"[^\W_]+")
_CASED: Final = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+|\d+|[^\WA-Za-z\d_]+")
_WORD_AND_NUMBER: Final = re.compile(r"([^\W\d_]{4,})\d+")


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STOP: Final = words("""
    a about above after again all also am an and any anything are as at be because been before being
    below between both but by can cannot could did do does doing done during each either else etc
    ever every everything few for from further get gets getting give given go goes going got had has
    have having he her here hers him his how however i if in into is it its itself just know let
    lets like look looking looks made make makes making many may me might mine more most much must
    my need needed needs no nor not nothing now of off often on once one only onto or other our ours
    out over own per please rather really right same see seen shall she should show shown so some
    somebody someone something still such sure take takes tell than that the their them then there
    these they thing things this those though through to too toward under until up upon us use used
    uses using very want wants was way ways we well were what whatever when where whether which
    while who whole whom whose why will with within would yes yet you your yours
    across along already always back come comes deal deals exactly exist exists happen happens
    keep kept live lives work works working
    explain explained describe describes explore exploring exploration investigate investigation
    understand understanding find finding findings locate identify determine figure trying try
    summarise summarize summary walk thorough thoroughly thoroughness quick quickly medium concise
    brief briefly deep deeply detail details detailed relevant related important main specifically
    everything codebase whats wheres hows thats theres whos src ts tsx js jsx py eg ie ll re ve
    """)

_LIGHT_WORDS: Final = words(
    """
    app application area aspect behaviour behavior call called case check class code component
    compute computed calculate calculated concept create created data declare declared define
    defined describe directory do end entry example feature file files flow folder function
    functionality handle handled handling handler implement implemented implementation interface key
    lib library list load loaded logic manage managed management map mapped mechanism method module
    object overview package page paragraph part path place point process processed processing
    project provide read render repo report respond return role run search service set setup
    snippet stack step store stored structure system task team technology test tool type value
    web website write written
    """
)

# Two words for what is one: "log in", "sign-up", "end to end".
_JOINED: Final = re.compile(
    r"\b(?:(?:log|logs|logged|logging|sign|signs|signed|signing)[ -](in|on|out|off|up)"
    r"|(e)nd[ -]to[ -]end|(e)[ -]mails?)\b",
    re.IGNORECASE,
)
# Short forms that programmers use for one thing, by stem. Each pair is in the labelled set or is
# common in file names; of two that can mean different things (authorization, customer and custom,
# register) none is here.
_SAME: Final = {
    "authentic": "auth",
    "authn": "auth",
    "authz": "authoriz",
    "databas": "db",
    "configur": "config",
    "cfg": "config",
    "conf": "config",
    "environ": "env",
    "repositor": "repo",
    "document": "doc",
    "dependenc": "dep",
    "parameter": "param",
    "basket": "cart",
    "mail": "email",
    "logon": "login",
    "signin": "login",
    "signon": "login",
    "signout": "logout",
    "logoff": "logout",
    "logger": "log",
    "parser": "pars",
    "router": "rout",
    "handler": "handl",
    "scheduler": "schedul",
    "serializer": "serializ",
    "validator": "valid",
    "importer": "import",
    "exporter": "export",
    "postgresql": "postgr",
    "postgre": "postgr",
    "kubernet": "k8s",
    "internationaliz": "i18n",
    "internationalis": "i18n",
    "javascript": "js",
    "typescript": "ts",
    "picture": "imag",
    "photo": "imag",
    "administr": "admin",
    "asynchron": "async",
    "synchron": "sync",
}


@dataclass(frozen=True, slots=True)
class Word:
    """`shown`: as it was written, in small letters. `weight`: 1, less where agents say it of
    everything. `parts`: of a name like `OpenTelemetry`, which others write in small letters."""

    stem: str
    shown: str
    weight: float
    parts: tuple["Word", ...] = ()


class Stems:
    """Tokens → their words. Remembers those that came lately: texts repeat themselves."""

    # Most of the tokens of a few thousand entries, at 300 bytes each, until `forget`.
    REMEMBERED_MAX: Final = 8_192

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[str, tuple[Word, ...]] = {}

    def of(self, token: str) -> tuple[Word, ...]:
        """None for stop words, one for most; several for `s3_client` of which `_` is no part."""
        found = self._of.get(token)
        if found is None:
            if len(self._of) >= self.REMEMBERED_MAX:
                self._of.clear()
            found = self._of[token] = tuple(_words_in(token))
        return found

    def of_text(self, text: str) -> Iterator[str]:
        """The stems of all words and of their parts, in order, as often as they come."""
        for token in TOKEN.findall(joined(text[:TEXT_CHARS_MAX])):
            for word in self.of(token):
                yield word.stem
                for part in word.parts:
                    yield part.stem

    def forget(self) -> None:
        self._of.clear()


def _words_in(token: str) -> Iterator[Word]:
    is_plain = token.islower() or token.isupper() or not token.isascii() or _is_plural(token)
    if is_plain and token.isalpha():
        yield from _word(token)
        return
    parts = [word for part in _parts(token) for word in _word(part)]
    if len(parts) > 1 and not is_plain:
        yield from (replace(whole, parts=tuple(parts)) for whole in _word(token))
    else:
        yield from parts


def _is_plural(token: str) -> bool:
    """Of what is written in capitals: `URLs`."""
    return token[-1] == "s" and token[:-1].isupper()


def _word(text: str) -> Iterator[Word]:
    shown = text.casefold()
    # One letter: initials, numbers of lists.
    if shown in _STOP or len(shown) > WORD_CHARS_MAX or (len(shown) == 1 and shown.isascii()):
        return
    found = stem(shown)
    yield Word(found, shown, LIGHT if found in LIGHT_STEMS else 1.0)


def _parts(token: str) -> Iterator[str]:
    """`S3Client2` → S3, Client; `oauth2` → oauth; `k8s`, `sha256`, `404` as they are."""
    if token[-1:].isdigit() and (match := _WORD_AND_NUMBER.fullmatch(token)):
        token = match[1]
    if token.islower() or token.isupper() or token.isdigit():
        yield token
        return
    for part in _CASED.findall(token):
        if not (part.isdigit() and len(part) < 3):
            yield part


_VOWEL: Final = re.compile(r"[aeiouy]")


def stem(word: str) -> str:
    """What `word` has in common with its plural, its other tenses and the noun of it.

    English, light: it rather leaves two words apart than make them one (`custom`, `customer`).
    """
    found = _SAME.get(word)
    if found is not None:
        return found
    if word.isascii() and word.isalpha():
        word = _without_noun(_without_tense(_singular(word)))
    return _SAME.get(word, word)


def _singular(word: str) -> str:
    if len(word) < 4 or word[-1] != "s" or word.endswith(("ss", "us", "is", "ias", "vas")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    return word[:-1]


def _without_tense(word: str) -> str:
    if len(word) > 5 and word.endswith("ied"):
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) >= 3 and _VOWEL.search(rest):
            if rest[-1] == rest[-2] and rest[-1] not in "lsz":
                return rest[:-1]
            return rest
    return word


def _without_noun(word: str) -> str:
    if len(word) >= 8 and word.endswith("ment"):
        word = word[:-4]
    elif len(word) >= 7 and word.endswith("ion"):
        word = word[:-3]
    word = word.removesuffix("e") if len(word) > 3 else word
    if len(word) >= 7 and word.endswith("at"):
        word = word[:-2]
    if len(word) >= 5 and word.endswith("ific"):
        return word[:-2]
    if len(word) >= 4 and word.endswith(("ify", "ifi")):
        return word[:-1]
    return word.removesuffix("y") if len(word) > 4 else word


LIGHT_STEMS: Final = frozenset(stem(word) for word in _LIGHT_WORDS)


def joined(text: str) -> str:
    return _JOINED.sub(_as_one, text) if _JOINED.search(text) else text


def _as_one(match: re.Match[str]) -> str:
    if match[2]:
        return "e2e"
    if match[3]:
        return "email"
    first = "log" if match[0][0] in "lL" else "sign"
    return first + match[1].lower()
