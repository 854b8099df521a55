"""The configuration's bytes → frozen values with defaults (DESIGN section 10).

All errors are found at once; each names the file, the key, the value and the rule. An unknown key
is an error, because a misspelt setting that is silently ignored is worse than none. Reads no disk:
whether a root exists is the daemon's to find out.
"""

import posixpath
import re
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, Final, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StrictBool,
    ValidationError,
    ValidationInfo,
)

from amend.core.policy import OnStale
from amend.errors import ConfigInvalid

# A hundred repositories with ten siblings each are 100 KB; more is not a configuration.
CONFIG_BYTES_MAX: Final = 1 << 20

# Enough of a value to recognise the line; the rest is in the file.
VALUE_CHARS_MAX: Final = 60

# Each error is a line that somebody reads; the rest comes after the first are mended.
ERRORS_MAX: Final = 20

_SIBLING_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
# What `git check-ref-format` forbids in a ref's name, and what git would take for an option.
_NO_REF: Final = re.compile(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|[/.]$|\.lock(/|$)")
_TOML_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    AUTO = "auto"  # console when stderr is a terminal
    JSON = "json"
    CONSOLE = "console"


class LogTo(StrEnum):
    """Whether the log is also kept in a file, `log/amend.log` in the state directory."""

    AUTO = "auto"  # when stderr is neither a terminal nor the journal's
    ALWAYS = "always"
    NEVER = "never"


class EvidenceRule(StrEnum):
    LENIENT = "lenient"  # drift keeps an entry fresh
    STRICT = "strict"  # any byte counts


class Explore(StrEnum):
    """What a hook says when an agent is about to explore."""

    ANSWER = "answer"
    HEAD_START = "head-start"
    INFORM = "inform"
    OFF = "off"


# The subagents that only look around: Claude Code's two, amend's plugin's, and Codex's.
EXPLORERS: Final = ("Explore", "Plan", "scout", "amend:scout", "explorer")


def _expanded(text: str, home: str) -> str:
    return home + text[1:] if text == "~" or text.startswith("~/") else text


def _home(info: ValidationInfo) -> str:
    return str((info.context or {}).get("home", "~"))


def _no_nul(text: str) -> None:
    if "\0" in text:
        raise ValueError("must hold no NUL")
    if not text:
        raise ValueError("must name a path")


def _root(text: str, info: ValidationInfo) -> str:
    """`~` expanded against the context's home, without a trailing slash."""
    _no_nul(text)
    path = _expanded(text, _home(info))
    if not path.startswith("/"):
        raise ValueError("must be absolute or begin with ~/")
    return path.rstrip("/") or "/"


def _sibling_path(text: str, info: ValidationInfo) -> str:
    _no_nul(text)
    path = _expanded(text, _home(info))
    if path.startswith("~"):
        raise ValueError("must be absolute, begin with ~/, or be relative to the repository")
    return path


def _inside(text: str) -> str:
    """A path or pattern beneath the root, without a trailing slash."""
    _no_nul(text)
    if text.startswith(("/", "~")) or ".." in text.split("/"):
        raise ValueError("must stay inside the repository: relative, without ..")
    return text.rstrip("/")


def _sibling_name(text: str) -> str:
    if not _SIBLING_NAME.fullmatch(text):
        raise ValueError("must be letters, digits, - and _, as in `name:path`")
    return text


def _track(text: str) -> str:
    if text in ("worktree", "head"):
        return text
    if not text.startswith("ref:"):
        raise ValueError("must be one of worktree, head, ref:<name>")
    if not text[4:] or _NO_REF.search(text[4:]):
        raise ValueError("must name a ref of git after `ref:`, as ref:origin/main does")
    return text


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Daemon(_Table):
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.AUTO
    log_file: LogTo = LogTo.AUTO


class Policy(_Table):
    on_stale: OnStale = OnStale.MARK
    evidence: EvidenceRule = EvidenceRule.LENIENT
    write_tracked: StrictBool = False


class Hooks(_Table):
    explore: Explore = Explore.ANSWER
    explorers: tuple[str, ...] = EXPLORERS


class Sibling(_Table):
    """Another repository that entries cite as `name:path`."""

    name: Annotated[str, AfterValidator(_sibling_name)]
    path: Annotated[str, AfterValidator(_sibling_path)]
    track: Annotated[str, AfterValidator(_track)] = "worktree"

    @property
    def ref(self) -> str | None:
        """The ref that is "now", or None when the worktree or HEAD is."""
        return self.track[4:] if self.track.startswith("ref:") else None


class Repo(_Table):
    root: Annotated[str, AfterValidator(_root)]
    memory: tuple[Annotated[str, AfterValidator(_inside)], ...] = ("memory",)
    contracts: tuple[Annotated[str, AfterValidator(_inside)], ...] = (".agent-cache.d/**/*.json",)
    sibling: tuple[Sibling, ...] = ()

    def sibling_root(self, sibling: Sibling) -> str:
        """Where the sibling lies, absolute; a relative path starts at this root."""
        return posixpath.join(self.root, sibling.path)


class Config(_Table):
    """What the file says; `Config()` is what no file says."""

    daemon: Daemon = Daemon()
    policy: Policy = Policy()
    hooks: Hooks = Hooks()
    repo: tuple[Repo, ...] = ()


def parse(data: bytes, path: str, home: str) -> Config:
    """The configuration in `data`, read from `path`. Raises `ConfigInvalid`, one line an error."""
    document = _document(data, path)
    found: list[str] = []
    config = Config()
    try:
        config = Config.model_validate(document, context={"home": home})
    except ValidationError as error:
        found += [_line(each) for each in error.errors(include_url=False)]
    found += _duplicates(document, home)
    if found:
        lines = [f"{path}: {line}" for line in found[:ERRORS_MAX]]
        if len(found) > ERRORS_MAX:
            lines.append(f"{path}: and {len(found) - ERRORS_MAX} more")
        raise ConfigInvalid("\n".join(lines), hint="remove a line to use its default")
    return config


def _document(data: bytes, path: str) -> dict[str, Any]:
    if len(data) > CONFIG_BYTES_MAX:
        raise ConfigInvalid(
            f"{path}: is {len(data)} bytes, must be at most {CONFIG_BYTES_MAX}",
            hint="is this really the configuration?",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigInvalid(
            f"{path}: line {line}: byte 0x{data[error.start]:02x} is no UTF-8, TOML must be",
            hint="save the file as UTF-8",
        ) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(path, text, str(error)) from None
    except RecursionError:
        raise ConfigInvalid(
            f"{path}: is nested too deeply", hint="no setting is a list of lists"
        ) from None


def _syntax(path: str, text: str, said: str) -> ConfigInvalid:
    rule = said
    line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
    if match := _TOML_PLACE.search(said):
        rule = said[: match.start()]
        if match[1]:
            line, column = int(match[1]), int(match[2])
    return ConfigInvalid(
        f"{path}: line {line}, column {column}: {rule[:1].lower()}{rule[1:]}",
        hint="the file must be TOML: text in quotes, lists in [ ], one setting a line",
    )


def _line(error: Any) -> str:
    """One error as `key is value, must …`."""
    location: tuple[str | int, ...] = error["loc"]
    kind = error["type"]
    if kind == "missing":
        return f"{_dotted(location)} is missing, must be given"
    if kind == "extra_forbidden":
        known = sorted(_model_at(location[:-1]).model_fields)
        rule = f"must be one of the settings {', '.join(known)}"
        rule += _did_you_mean(location[-1], known)
    elif kind == "enum":
        known = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        rule = f"must be one of {', '.join(known)}{_did_you_mean(error['input'], known)}"
    else:
        rule = _rule(kind, location, str(error["msg"]))
    return f"{_dotted(location)} is {_shown(error['input'])}, {rule}"


def _did_you_mean(word: object, known: list[str]) -> str:
    near = get_close_matches(str(word).lower(), known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _rule(kind: str, location: tuple[str | int, ...], said: str) -> str:
    if kind == "value_error":
        return said.removeprefix("Value error, ")
    name = ".".join(part for part in location if isinstance(part, str))
    tables = f"[[{name}]]"
    is_listed = isinstance(location[-1], int)
    return {
        "string_type": "must be a text in quotes",
        "bool_type": "must be true or false",
        "model_type": f"must be a table ({tables if is_listed else f'[{name}]'})",
        "tuple_type": f"must be a list of tables ({tables})"
        if location[-1] in ("repo", "sibling")
        else "must be a list of texts",
    }.get(kind, f"breaks a rule: {said.lower()}")


def _dotted(location: tuple[str | int, ...]) -> str:
    key = ""
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        else:
            name = part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else _shown(part)
            key += f".{name}" if key else name
    return key


def _shown(value: object) -> str:
    """A value as the file has it, short and on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"


def _model_at(location: tuple[str | int, ...]) -> type[BaseModel]:
    """The table that a location leads to."""
    model: type[BaseModel] = Config
    for part in location:
        if isinstance(part, str):
            annotation = model.model_fields[part].annotation
            found = (*get_args(annotation), annotation)[0]
            assert isinstance(found, type)
            model = found
    return model


def _duplicates(document: dict[str, Any], home: str) -> Iterator[str]:
    """Roots and sibling names that stand twice, also where other errors are."""
    roots: dict[str, int] = {}
    for number, repo in enumerate(_tables(document.get("repo"))):
        root = repo.get("root")
        if isinstance(root, str):
            place = posixpath.normpath(_expanded(root, home))
            if (first := roots.setdefault(place, number)) != number:
                yield f"repo[{number}].root is {_shown(root)}, must differ from repo[{first}].root"
        names: dict[str, int] = {}
        for index, sibling in enumerate(_tables(repo.get("sibling"))):
            name = sibling.get("name")
            if isinstance(name, str) and (first := names.setdefault(name, index)) != index:
                yield (
                    f"repo[{number}].sibling[{index}].name is {_shown(name)}, "
                    f"must differ from repo[{number}].sibling[{first}].name"
                )


def _tables(value: object) -> list[dict[str, Any]]:
    """Where the value is no list of tables, that error is already told."""
    rows = value if isinstance(value, list) else []
    return [row if isinstance(row, dict) else {} for row in rows]
