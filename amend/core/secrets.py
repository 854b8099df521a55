"""Whether a text holds a secret that must not be written down: the name of the rule it trips.

Rules are of two kinds: tokens that say by their form what they are, and values that a secret-like
name is given. A value is judged by its look, so that references, placeholders, names of files and
ordinary words pass. It is a net for accidents, not a proof: a password that is an ordinary word
passes. Every pattern is anchored on literal text and bounded, so the cost is linear in the text.

Source: research/landscape.md, failure 35 (live keys were found in memories); the forms are those
that the issuers publish.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

PASSWORD: Final = "password assignment"
ASSIGNED: Final = "high-entropy value assigned to a secret-like name"

# Random characters of 16 or more are what keys have; shorter ones cannot be told from names.
RANDOM_CHARS_MIN: Final = 16

# How long runs of digits, capitals and small letters are on average in what was drawn at random.
# Of 5,000 keys drawn for each alphabet, these pass over one in a hundred or fewer (base 62: 3.0;
# hexadecimal and base 36, which know one case: 5.0); names with digits in them mostly have more.
_RUN_CHARS_MAX: Final = 3.0
_RUN_CHARS_MAX_ONE_CASE: Final = 5.0
# Without a single digit only the most restless half of the keys can be told from CamelCase.
_RUN_CHARS_MAX_LETTERS: Final = 2.2

# Fewer different characters than a hexadecimal key practically always has: "xxxx0000xxxx0000".
_DISTINCT_CHARS_MIN: Final = 8

_RUN: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_DIGEST: Final = re.compile(r"(?i)(?:sha|md)[0-9-]{1,5}[:=$]")
_PARTS: Final = re.compile(r"[^A-Za-z0-9]+")

# What stands where a secret would stand, by a part of it.
_PLACEHOLDER: Final = re.compile(
    r"(?i)your|example|change.?(?:me|it)|placeholder|dummy|sample|redacted|replace|insert"
    r"|todo|fixme|x{4}|\.\.\.|…|\*\*\*|___|1234567890abcdef"
)

# Values that refer to a secret and are none: a variable, a template, a path.
_REFERENCE: Final = re.compile(r"[$<%{\[(@&]|[~.]{0,2}/|\\|[A-Za-z]{1,10}://")

# Words that look like a password with a digit, and say how one is kept or sent.
_KEPT: Final = frozenset(
    {"argon2", "argon2d", "argon2i", "argon2id", "base64", "blake2", "blake2b", "ed25519"}
    | {"oauth2", "pbkdf2", "sha256", "sha384", "sha512", "x25519", "aes128", "aes256"}
)

# Words that code and schemas have in the place of a password.
_TYPES: Final = frozenset(
    {"false", "hidden", "invalid", "masked", "missing", "optional", "pass", "passphrase", "passwd"}
    | {"password", "pwd", "required", "secret", "secretstr", "string", "undefined", "wrong"}
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """`holds` judges the last group of a match, where the form alone does not say enough."""

    name: str
    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = lambda _: True


def find_secret(text: str) -> str | None:
    """The name of the first rule that `text` trips, None for none; never anything of the secret."""
    for rule in _RULES:
        for found in rule.pattern.finditer(text):
            if rule.holds(found[found.lastindex or 0]):
                return rule.name
    return _assigned(text)


# -- tokens by their form --------------------------------------------------------------------------


def _form(pattern: str) -> re.Pattern[str]:
    """Only where a word begins: each run of characters is tried once, which keeps it linear."""
    return re.compile(rf"(?<![A-Za-z0-9_-])(?:{pattern})")


def _is_no_example(value: str) -> bool:
    return _PLACEHOLDER.search(value) is None and len(set(value)) >= _DISTINCT_CHARS_MIN


def _is_random(value: str) -> bool:
    """Whether some stretch of the value has the look of generated characters."""
    if _UUID.fullmatch(value) or _DIGEST.match(value) or _PLACEHOLDER.search(value):
        return False
    return any(_is_random_part(part) for part in _PARTS.split(value))


def _is_random_part(part: str) -> bool:
    if len(part) < RANDOM_CHARS_MIN or len(set(part)) < _DISTINCT_CHARS_MIN:
        return False
    letters = sum(char.isalpha() for char in part)
    if letters < 3:  # a time: 20260410T123000Z
        return False
    if letters == len(part):
        run_chars_max = _RUN_CHARS_MAX_LETTERS
    elif part.islower() or part.isupper():
        run_chars_max = _RUN_CHARS_MAX_ONE_CASE
    else:
        run_chars_max = _RUN_CHARS_MAX
    return len(part) / len(_RUN.findall(part)) <= run_chars_max


def _is_password_of_url(value: str) -> bool:
    return not (_REFERENCE.match(value) or _PLACEHOLDER.search(value) or value.casefold() in _TYPES)


_RULES: Final = (
    _Rule(
        "private key",
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
            r"|PuTTY-User-Key-File-[0-9]:|AGE-SECRET-KEY-1[A-Z0-9]{40}"
        ),
    ),
    _Rule(
        "AWS access key",
        _form(r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
        _is_no_example,
    ),
    _Rule(
        "GitHub token",
        _form(r"gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22,200}"),
        _is_no_example,
    ),
    _Rule("GitLab token", _form(r"glpat-[A-Za-z0-9_-]{20,200}"), _is_no_example),
    _Rule(
        "Slack token",
        _form(r"xox[abeoprs]-[0-9][A-Za-z0-9-]{10,200}|xapp-[0-9]-[A-Za-z0-9-]{10,200}"),
        _is_no_example,
    ),
    _Rule(
        "Slack webhook",
        re.compile(r"hooks\.slack\.com/services/(T[A-Z0-9]{6,20}/B[A-Z0-9]{6,20}/[A-Za-z0-9]{20})"),
        _is_no_example,
    ),
    _Rule("Google API key", _form(r"AIza[A-Za-z0-9_-]{35}"), _is_no_example),
    _Rule(
        "Stripe key",
        _form(r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,200}|whsec_[A-Za-z0-9+/=]{24,200}"),
        _is_no_example,
    ),
    _Rule("model provider key", _form(r"sk-[A-Za-z0-9_-]{20,200}"), _is_random),
    _Rule("npm token", _form(r"npm_[A-Za-z0-9]{36}"), _is_no_example),
    _Rule("PyPI token", _form(r"pypi-AgE[A-Za-z0-9_-]{50}"), _is_no_example),
    _Rule("Hugging Face token", _form(r"hf_[A-Za-z0-9]{34}"), _is_no_example),
    _Rule("SendGrid key", _form(r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"), _is_no_example),
    _Rule(
        "JSON web token",
        _form(r"eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{16,4000}"),
        _is_no_example,
    ),
    _Rule(
        "password in a URL",
        re.compile(r"://[^\s/?#:@]{0,100}:([^\s/?#@]{1,200})@"),
        _is_password_of_url,
    ),
    _Rule(
        "bearer token",
        re.compile(r"(?i)(?<![a-z])(?:bearer|basic)[ \t]{1,4}([A-Za-z0-9+/._~-]{16,4000})"),
        _is_random,
    ),
)


# -- values of secret-like names -------------------------------------------------------------------

# name, what closes it, a separator or a flag's space, what opens the value, the value. The name
# ends where the separator begins, so `token_hash` and `api_key_id` are other names.
_ASSIGNMENT: Final = re.compile(
    r"""(?ix)
    (?P<flag>(?<![a-z0-9-])--[a-z0-9-]{0,40})?
    (?: (?P<password>passw(?:or)?d|passphrase|(?<![a-z])pwd|(?<![a-z])pass)
      | (?:secret|token|credentials?|(?:api|access|private|secret|signing|encryption|account|auth)
          [ _-]?key) )
    (?P<closed>[*"'`\]]{0,3})
    (?: [ \t]{0,4} (?P<sign>:=|=>|[:=]) [*]{0,2} [ \t]{0,4} | [ \t]{1,2}is[ \t]{1,2}
      | (?(flag)[ \t]{1,2}|(?!)) )
    (?P<quote>["'`]?)
    (?P<value>[^\s"'`,;<>()\[\]]{1,200})
    (?P<after>[(\[]?)
    """
)


def _assigned(text: str) -> str | None:
    for found in _ASSIGNMENT.finditer(text):
        value = found["value"].rstrip(".:!?*")
        if found["after"] or _REFERENCE.match(value) or _PLACEHOLDER.search(value):
            continue
        if found["password"] is None:
            if _is_random(value):
                return ASSIGNED
        elif _is_password(value, is_literal=_is_literal(found, text)):
            return PASSWORD
    return None


def _is_literal(found: re.Match[str], text: str) -> bool:
    """A whole quoted string that code or JSON gives to the name, unlike a remark in quotes."""
    quote = found["quote"]
    is_whole = bool(quote) and text.startswith(quote, found.end("value"))
    return is_whole and (found["sign"] in ("=", ":=") or found["closed"][:1] in ('"', "'"))


def _is_password(value: str, *, is_literal: bool) -> bool:
    """Letters with digits in one word, a sign in the midst of them, or only digits."""
    folded = value.casefold()
    if len(value) < 6 or folded in _TYPES or _UUID.fullmatch(value) or _DIGEST.match(value):
        return False
    if value.isdigit() or (is_literal and "-" not in value and "_" not in value):
        return True
    if re.search(r"[A-Za-z0-9][!#$%^&*?+~|@][A-Za-z0-9]", value) and not value.isalpha():
        return True
    return any(
        part.casefold() not in _KEPT and re.search(r"[0-9]", part) and re.search(r"[A-Za-z]", part)
        for part in re.split(r"[-_./:=+@]+", value)
        if len(part) >= 6
    )
