"""The configuration: what is taken, and how every error is told."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.policy import OnStale
from amend.errors import ConfigInvalid
from amend.formats.config import (
    CONFIG_BYTES_MAX,
    ERRORS_MAX,
    Config,
    EvidenceRule,
    Explore,
    LogFormat,
    LogLevel,
    LogTo,
    parse,
)

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"


def read(text: str) -> Config:
    return parse(text.encode(), "c.toml", "/home/ada")


def errors(text: str) -> list[str]:
    with pytest.raises(ConfigInvalid) as caught:
        read(text)
    assert caught.value.hint
    return caught.value.message.splitlines()


def test_no_line_at_all_gives_the_defaults() -> None:
    config = read("")

    assert config == Config()
    assert config.daemon.log_level is LogLevel.INFO
    assert config.policy.on_stale is OnStale.MARK
    assert config.policy.write_tracked is False


def test_every_setting_is_taken() -> None:
    config = read(
        """
        [daemon]
        log_level = "debug"
        log_format = "console"
        log_file = "never"
        [policy]
        on_stale = "evict"
        evidence = "strict"
        write_tracked = true
        [hooks]
        explore = "head-start"
        [[repo]]
        root = "~/src/shop/"
        memory = ["notes/", "docs/memory"]
        contracts = []
        [[repo.sibling]]
        name = "backend"
        path = "../backend"
        track = "ref:origin/main"
        [[repo.sibling]]
        name = "web"
        path = "~/web"
        """
    )

    assert config.daemon.log_level is LogLevel.DEBUG
    assert config.daemon.log_format is LogFormat.CONSOLE
    assert config.daemon.log_file is LogTo.NEVER
    assert config.policy.on_stale is OnStale.EVICT
    assert config.policy.evidence is EvidenceRule.STRICT
    assert config.policy.write_tracked is True
    assert config.hooks.explore is Explore.HEAD_START
    (repo,) = config.repo
    assert (repo.root, repo.memory, repo.contracts) == (
        "/home/ada/src/shop",
        ("notes", "docs/memory"),
        (),
    )
    backend, web = repo.sibling
    assert repo.sibling_root(backend) == "/home/ada/src/shop/../backend"
    assert (backend.ref, web.ref) == ("origin/main", None)
    assert repo.sibling_root(web) == "/home/ada/web"


def test_the_example_says_nothing_but_the_defaults() -> None:
    assert parse(EXAMPLE.read_bytes(), str(EXAMPLE), "/home/ada") == Config()


def test_the_examples_repository_parses_to_the_defaults_of_a_repository() -> None:
    text = re.sub(r"^# (?=\[|\w+ = )", "", EXAMPLE.read_text(), flags=re.MULTILINE)

    (repo,) = parse(text.encode(), str(EXAMPLE), "/home/ada").repo

    (minimal,) = read('[[repo]]\nroot = "~/src/shop"').repo
    assert repo.model_copy(update={"sibling": ()}) == minimal
    assert (repo.sibling[0].name, repo.sibling[0].track) == ("backend", "worktree")


def test_the_example_names_every_setting() -> None:
    words = set(re.findall(r"^(?:# )?(\w+) = ", EXAMPLE.read_text(), flags=re.MULTILINE))

    assert words == {
        *(
            "log_level",
            "log_format",
            "log_file",
            "on_stale",
            "evidence",
            "write_tracked",
            "explore",
            "explorers",
        ),
        *("root", "memory", "contracts", "name", "path", "track"),
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '[daemon]\nlog_level = "inof"',
            "daemon.log_level is 'inof', must be one of debug, info, warning, error; "
            "did you mean info?",
        ),
        ("[daemon]\nlog_level = 3", "daemon.log_level is 3, must be one of debug, info, warning, "),
        (
            '[daemon]\nlog_lvel = "info"',
            "daemon.log_lvel is 'info', must be one of the settings log_file, log_format, "
            "log_level; did you mean log_level?",
        ),
        (
            "[polcy]\nx = 1",
            "polcy is a table, must be one of the settings daemon, hooks, policy, repo; "
            "did you mean policy?",
        ),
        (
            "zzz = 1",
            "zzz is 1, must be one of the settings daemon, hooks, policy, repo",
        ),
        ("daemon = 1", "daemon is 1, must be a table ([daemon])"),
        (
            '[policy]\nwrite_tracked = "yes"',
            "policy.write_tracked is 'yes', must be true or false",
        ),
        ("[policy]\nwrite_tracked = 1", "policy.write_tracked is 1, must be true or false"),
        ("[[repo]]", "repo[0].root is missing, must be given"),
        (
            '[[repo]]\nroot = "src/shop"',
            "repo[0].root is 'src/shop', must be absolute or begin with ~/",
        ),
        (
            '[[repo]]\nroot = "~bob/shop"',
            "repo[0].root is '~bob/shop', must be absolute or begin with ~/",
        ),
        ('[[repo]]\nroot = ""', "repo[0].root is '', must name a path"),
        ('[[repo]]\nroot = "/a\\u0000b"', "repo[0].root is '/a\\x00b', must hold no NUL"),
        ("[[repo]]\nroot = 5", "repo[0].root is 5, must be a text in quotes"),
        ('[repo]\nroot = "/a"', "repo is a table, must be a list of tables ([[repo]])"),
        (
            '[[repo]]\nroot = "/a"\nmemory = "memory"',
            "repo[0].memory is 'memory', must be a list of texts",
        ),
        (
            '[[repo]]\nroot = "/a"\nmemory = ["ok", "../out"]',
            "repo[0].memory[1] is '../out', must stay inside the repository: relative, without ..",
        ),
        (
            '[[repo]]\nroot = "/a"\ncontracts = ["/etc/*.json"]',
            "repo[0].contracts[0] is '/etc/*.json', must stay inside the repository",
        ),
        (
            '[[repo]]\nroot = "/a"\n[[repo.sibling]]\nname = "b:c"\npath = "../b"',
            "repo[0].sibling[0].name is 'b:c', must be letters, digits, - and _",
        ),
        (
            '[[repo]]\nroot = "/a"\n[[repo.sibling]]\nname = "b"\npath = "../b"\ntrack = "main"',
            "repo[0].sibling[0].track is 'main', must be one of worktree, head, ref:<name>",
        ),
        (
            '[[repo]]\nroot = "/a"\n[[repo.sibling]]\nname = "b"\npath = "../b"\ntrack = "ref:-x"',
            "repo[0].sibling[0].track is 'ref:-x', must name a ref of git after `ref:`",
        ),
        (
            '[[repo]]\nroot = "~/a"\n[[repo]]\nroot = "/home/ada/x/../a/"',
            "repo[1].root is '/home/ada/x/../a/', must differ from repo[0].root",
        ),
        (
            '[[repo]]\nroot = "/a"\n[[repo.sibling]]\nname = "b"\npath = "../b"\n'
            '[[repo.sibling]]\nname = "b"\npath = "../c"',
            "repo[0].sibling[1].name is 'b', must differ from repo[0].sibling[0].name",
        ),
        ("[daemon", "line 1, column 8: expected ']' at the end of a table declaration"),
        ("x = 1\ny = \n", "line 2, column 5: invalid value"),
        ('a = "x', "line 1, column 7: unterminated string"),
        ("[daemon]\n[daemon]", "line 2, column 8: cannot declare ('daemon',) twice"),
        ("x = " + "[" * 5000, "is nested too deeply"),
    ],
)
def test_an_error_names_the_file_the_key_the_value_and_the_rule(text: str, line: str) -> None:
    (told,) = errors(text)

    assert told.startswith(f"c.toml: {line}")


def test_all_errors_are_told_at_once() -> None:
    told = errors(
        """
        colour = "red"
        [daemon]
        log_format = "xml"
        [[repo]]
        root = "a"
        [[repo]]
        root = "/b"
        memry = []
        [[repo]]
        root = "/b"
        """
    )

    keys = [line.split()[1] for line in told]
    assert sorted(keys) == [
        "colour",
        "daemon.log_format",
        "repo[0].root",
        "repo[1].memry",
        "repo[2].root",
    ]


def test_a_file_full_of_errors_is_told_in_part() -> None:
    told = errors("".join(f"key{number} = 1\n" for number in range(30)))

    assert len(told) == ERRORS_MAX + 1
    assert told[-1] == "c.toml: and 10 more"


def test_a_long_value_is_cut_and_stays_on_its_line() -> None:
    (told,) = errors('[daemon]\nlog_level = """' + "line\n" * 200 + '"""')

    assert "…" in told
    assert len(told) < 200


def test_what_is_no_utf8_is_told_with_its_line() -> None:
    with pytest.raises(ConfigInvalid, match=r"line 2: byte 0xff is no UTF-8"):
        parse(b"# one\nx = '\xff'\n", "c.toml", "/h")


def test_a_byte_order_mark_and_windows_line_ends_are_taken() -> None:
    config = parse(b'\xef\xbb\xbf[daemon]\r\nlog_level = "error"\r\n', "c.toml", "/h")

    assert config.daemon.log_level is LogLevel.ERROR


def test_a_file_too_large_is_refused_unread() -> None:
    with pytest.raises(ConfigInvalid, match="must be at most"):
        parse(b"#" * (CONFIG_BYTES_MAX + 1), "c.toml", "/h")


def test_a_configuration_cannot_be_changed() -> None:
    config = Config()

    with pytest.raises(ValueError, match="frozen"):
        config.daemon = config.daemon  # type: ignore[misc]


TEXTS = st.text(alphabet='aZ~/.:"\\\n\x00\x7fé\u202e', max_size=8)
SETTINGS = st.recursive(
    st.one_of(st.booleans(), st.integers(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["daemon", "repo", "root", "sibling", "memory", "policy", "x y", "é"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


def as_toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        escaped = "".join(
            c if (c.isalnum() and c.isascii()) or c in " ~/" else f"\\U{ord(c):08x}" for c in value
        )
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{', '.join(as_toml(each) for each in value)}]"
    assert isinstance(value, dict)
    return "{" + ", ".join(f"{as_toml(k)} = {as_toml(v)}" for k, v in value.items()) + "}"


def outcome(data: bytes) -> Config | list[str]:
    try:
        return parse(data, "c.toml", "/h")
    except ConfigInvalid as error:
        return error.message.split("\n")


@given(
    st.dictionaries(
        st.sampled_from(["daemon", "repo", "policy", "hooks", "other"]), SETTINGS, max_size=4
    )
)
def test_any_toml_gives_a_configuration_or_told_errors(document: dict[str, object]) -> None:
    text = "".join(f"{key} = {as_toml(value)}\n" for key, value in document.items())

    told = outcome(text.encode())

    assert isinstance(told, Config) or all(
        line.startswith("c.toml: ") and line.isprintable() for line in told
    )


@given(st.binary(max_size=200))
def test_any_bytes_give_a_configuration_or_told_errors(data: bytes) -> None:
    told = outcome(data)

    assert isinstance(told, Config) or all(line.startswith("c.toml: ") for line in told)
