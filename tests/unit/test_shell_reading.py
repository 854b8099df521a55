"""Command lines as agents write them → the files and lines that they look into."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.explored import Read
from amend.core.shell_line import COMMAND_CHARS_MAX, READS_MAX, joined
from amend.core.shell_reading import HITS_MAX, Hit, files_read, hits_in, reads_in

AT = datetime(2026, 11, 30, tzinfo=UTC)


def looks(command: str, cwd: str = "/r") -> list[str]:
    """`path`, or `path:start-end`, with a `*` in front of a pattern."""
    return [shown(read) for read in files_read(command, cwd)]


def shown(read: Read) -> str:
    lines = "" if read.start is None else f":{read.start}-{read.end or ''}"
    return f"{'*' * read.is_glob}{read.path}{lines}"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.py", ["/r/a.py"]),
        ("cat a.py b.py", ["/r/a.py", "/r/b.py"]),
        ("cat -n /abs/a.py", ["/abs/a.py"]),
        ("/bin/cat a.py", ["/r/a.py"]),
        ("cat ./x//y ../up.py", ["/r/x/y", "/up.py"]),
        ("less +G a.py", ["/r/a.py"]),
        ("bat --language py a.py", ["/r/a.py"]),
        ("wc -l a.py", ["/r/a.py"]),
        ("wc -l < a.py", ["/r/a.py"]),
        ("xxd -l 16 a.bin | head", ["/r/a.bin"]),
        ("diff -U 3 a.py b.py", ["/r/a.py", "/r/b.py"]),
        ("diff a.py <(sort b.py)", ["/r/b.py", "/r/a.py"]),
        ("sort -k 2 -t , a.csv", ["/r/a.csv"]),
        ("python3 -m json.tool a.json", ["/r/a.json"]),
        ("jq --arg a v '.x[]' a.json", ["/r/a.json"]),
        ("jq -r .x a.json", ["/r/a.json"]),
        ("awk -F: '{print $1}' a.txt", ["/r/a.txt"]),
        ("awk -v n=1 '{print}' k=2 a.txt", ["/r/a.txt"]),
        ("grep -n 'def login' a.py", ["/r/a.py"]),
        ("grep -A 3 -n login a.py", ["/r/a.py"]),
        ("grep -e one -e two a.py", ["/r/a.py"]),
        ("grep --include '*.py' -rn login .", []),
        ("egrep 'a|b' a.py b.py", ["/r/a.py", "/r/b.py"]),
        ("rg -n -g '*.py' login lib/a.py", ["/r/lib/a.py"]),
        ("sed 's/a/b/' a.py", ["/r/a.py"]),
        ("base64 -d a.b64", ["/r/a.b64"]),
    ],
)
def test_a_reading_command_looks_into_the_files_it_is_given(
    command: str, expected: list[str]
) -> None:
    assert looks(command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("sed -n '10,40p' f", ["/r/f:10-40"]),
        ("sed -n 10,40p f", ["/r/f:10-40"]),
        ("sed -n '5p' f", ["/r/f:5-5"]),
        ("sed -n '10,+5p' f", ["/r/f:10-15"]),
        ("sed -n '10,$p' f", ["/r/f:10-"]),
        ("sed -n '10,20p;20q' f", ["/r/f:10-20"]),
        ("sed -n -e '1,3p' -e '7,9p' f", ["/r/f:1-3", "/r/f:7-9"]),
        ("sed -ne '1,3p' f", ["/r/f:1-3"]),
        ("sed 20q f", ["/r/f:1-20"]),
        ("sed -n '/def/,/return/p' f", ["/r/f"]),
        ("sed -n '1,3p' f g", ["/r/f", "/r/g"]),  # it counts on into g
        ("head f", ["/r/f:1-10"]),
        ("head -n 20 f", ["/r/f:1-20"]),
        ("head -20 f g", ["/r/f:1-20", "/r/g:1-20"]),
        ("head --lines=20 f", ["/r/f:1-20"]),
        ("head -c 100 f", ["/r/f"]),
        ("head -n -5 f", ["/r/f"]),
        ("tail -n +20 f", ["/r/f:20-"]),
        ("tail -20 f", ["/r/f"]),
        ("bat -r 10:20 f", ["/r/f:10-20"]),
        ("awk 'NR>=10 && NR<=20' f", ["/r/f:10-20"]),
        ("awk 'NR==3,NR==5 {print NR\": \"$0}' f", ["/r/f:3-5"]),
        ("cat f | head -5", ["/r/f:1-5"]),
        ("nl -ba f | sed -n '1,4p'", ["/r/f:1-4"]),
        ("cat -n f |\n sed -n '30,40p'", ["/r/f:30-40"]),
        ("tail -n +20 f | head -n 10", ["/r/f:20-29"]),
        ("sed -n '10,$p' f | head -50", ["/r/f:10-59"]),
        ("sed -n '10,12p' f | head -50", ["/r/f:10-12"]),
        ("sed -n '10,12p' f | sed -n '50,60p'", ["/r/f:10-12"]),
        ("cat f | grep login | head -5", ["/r/f"]),
        ("cat f g | head -5", ["/r/f", "/r/g"]),
    ],
)
def test_a_command_that_shows_lines_looks_at_those_lines(command: str, expected: list[str]) -> None:
    assert looks(command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd src && cat a.py", ["/r/src/a.py"]),
        ("cd src; cat a.py; cd ..; cat b.py", ["/r/src/a.py", "/r/b.py"]),
        ("cd /abs/x && cat a.py; cd - && cat b.py", ["/abs/x/a.py", "/r/b.py"]),
        ("(cd src && cat a.py); cat b.py", ["/r/src/a.py", "/r/b.py"]),
        ("cd $SOMEWHERE && cat a.py /abs/b.py", ["/abs/b.py"]),
        ("cd && cat a.py", []),
        ("cd $X; cd /abs; cat g", ["/abs/g"]),
        ("cat $PWD/a.py", ["/r/a.py"]),
    ],
)
def test_paths_are_as_seen_from_the_directory_of_the_moment(
    command: str, expected: list[str]
) -> None:
    assert looks(command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat 'a b.py' \"c d.py\" e\\ f.py", ["/r/a b.py", "/r/c d.py", "/r/e f.py"]),
        ("cat a.py # and b.py", ["/r/a.py"]),
        ("cat a.py 2>/dev/null || true", ["/r/a.py"]),
        ("cat a.py>b.py", ["/r/a.py"]),
        ("cat a.py &\ncat b.py", ["/r/a.py", "/r/b.py"]),
        ("if [ -f a.py ]; then cat a.py; else cat b.py; fi", ["/r/a.py", "/r/b.py"]),
        ("[[ a < b ]] && cat c.py", ["/r/c.py"]),
        ('for f in a b; do echo $f; cat "src/$f.py"; done', ["/r/src/a.py", "/r/src/b.py"]),
        ("D=src; cat $D/a.py ${D}/b.py", ["/r/src/a.py", "/r/src/b.py"]),
        ("cat src/{a,b}.py", ["/r/src/a.py", "/r/src/b.py"]),
        ("while read l; do echo $l; done < list.txt", ["/r/list.txt"]),
        ("echo $(cat a.py) `cat b.py`", ["/r/a.py", "/r/b.py"]),
        ('x="$(cd src && cat a.py)"; cat b.py', ["/r/src/a.py", "/r/b.py"]),
        ("bash -lc 'cd src && cat a.py'", ["/r/src/a.py"]),
        ("timeout 5 nice -n 3 cat a.py", ["/r/a.py"]),
        ("FOO=1 sudo -u me cat a.py", ["/r/a.py"]),
        ("env -i A=b cat a.py", ["/r/a.py"]),
        ("cat <<'EOF'\ncat no.py\nEOF\ncat a.py", ["/r/a.py"]),
        ("cat - < a.py", ["/r/a.py"]),
        ("cat a.py | xargs -n 1 echo", ["/r/a.py"]),
        ('cat "a.py', ["/r/a.py"]),
    ],
)
def test_a_line_is_taken_apart_as_a_shell_does(command: str, expected: list[str]) -> None:
    assert looks(command) == expected


@pytest.mark.parametrize(
    "command",
    [
        "echo hello > a.py",
        "echo hello | tee a.py",
        "cat > a.py <<EOF\nhello\nEOF",
        "sed -i 's/a/b/' a.py",
        "sed -i.bak -e 's/a/b/' a.py",
        "sed --in-place=.bak s/a/b/ a.py",
        "sort -o a.txt a.txt",
        "git show HEAD:a.py",
        "git diff a.py",
        "rm a.py; mv b.py c.py; touch d.py",
        "make a.o",
        "python3 run.py",
        "ls src; find src; tree",
        "rg --files src",
        "cat $FILE ~/x $(which python) $1",
        "cat /dev/null /proc/cpuinfo",
        "cat src/ .",
        "cat",
        "",
    ],
)
def test_what_is_written_listed_or_unknown_is_no_read(command: str) -> None:
    assert looks(command) == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat src/*.py", ["*/r/src/*.py"]),
        ("cat 'src/*.py'", ["/r/src/*.py"]),
        ("cat app/[id].tsx", ["/r/app/[id].tsx"]),
        ("for f in src/*.py; do head -3 $f; done", ["*/r/src/*.py:1-3"]),
        ("find src -name '*.py' -exec cat {} +", ["*/r/src/**/*.py"]),
        ("find src -name '*.py' -exec sed -n '1,9p' {} \\;", ["*/r/src/**/*.py:1-9"]),
        ("find . -type f -name '*.ts' | xargs grep -n foo", ["*/r/**/*.ts"]),
        ("find lib -maxdepth 1 -name '*.c' | xargs cat", ["*/r/lib/*.c"]),
        ("find . -name '*.ts' | head", []),
        ("find . -type f -exec cat {} +", []),  # all files: of no use
        ("find . -name '*.ts' -exec sed -i s/a/b/ {} +", []),
    ],
)
def test_a_pattern_comes_as_a_pattern(command: str, expected: list[str]) -> None:
    assert looks(command) == expected


def test_without_a_directory_paths_stay_relative() -> None:
    assert looks("cat src/./a.py ../b.py", cwd="") == ["src/a.py", "../b.py"]


def test_every_look_is_a_guess() -> None:
    (read,) = files_read("cat a.py", "/r")

    assert read.is_guess


def test_hits_are_the_lines_that_begin_with_path_and_line() -> None:
    output = "src/a.py:3:def login\n./b.py:7: x\n/abs/c.py:9:\nMakefile:2:all:\nno hit\n"

    hits = hits_in(output, "/r")

    assert hits == (
        Hit("/r/src/a.py", 3),
        Hit("/r/b.py", 7),
        Hit("/abs/c.py", 9),
        Hit("/r/Makefile", 2),
    )


@pytest.mark.parametrize(
    "line",
    [
        "C:3:x",
        "C:\\src\\a.py:3:x",
        "12:30:45: started",
        "2026-11-30T12:30:45: x",
        "10.0.0.1:8080:",
        "http://host:80:",
        "3:def login",
        "src/a.py-4-    tok",
        "src/a.py:0:x",
        "src/a.py:12",
        "at line 12:30: x",
        "\x1b[35msrc/a.py\x1b[m:3:x",
        " src/a.py:3:x",
        "src/a.py:99999999999:x",
        ":3:x",
    ],
)
def test_what_only_looks_like_a_hit_is_none(line: str) -> None:
    assert hits_in(line, "/r") == ()


def test_no_more_hits_than_are_worth_keeping() -> None:
    output = "".join(f"a.py:{line + 1}:x\n" for line in range(2 * HITS_MAX))

    assert len(hits_in(output, "/r")) == HITS_MAX


def test_a_searchs_hits_are_looks_at_one_line() -> None:
    output = "a.py:3:def login\nlib/b.py:9:login()\n"

    reads = reads_in("cd src && grep -rn login .", output, "/r", AT)

    assert [shown(read) for read in reads] == ["/r/src/a.py:3-3", "/r/src/lib/b.py:9-9"]
    assert all(read.at == AT and read.is_guess for read in reads)


def test_hits_are_seen_from_where_each_search_was() -> None:
    reads = reads_in("cd a && rg -n x; cd ../b && git grep -n x", "f.py:1:x\n", "/r", AT)

    assert [shown(read) for read in reads] == ["/r/a/f.py:1-1", "/r/b/f.py:1-1"]


def test_a_compilers_lines_are_hits_and_a_printed_files_lines_are_none() -> None:
    output = "src/a.py:3: error: no such name\n"

    compiled = reads_in("mypy src", output, "/r", AT)
    printed = reads_in("cat log.txt", output, "/r", AT)
    shown_diff = reads_in("git log -p", output, "/r", AT)

    assert [shown(read) for read in compiled] == ["/r/src/a.py:3-3"]
    assert [shown(read) for read in printed] == ["/r/log.txt"]
    assert shown_diff == ()


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cat no.py", "cat: no.py: No such file or directory"),
        ("head -3 no.py", "head: cannot open 'no.py' for reading: No such file or directory"),
        ("sed -n 1,3p no.py", "sed: can't read no.py: No such file or directory"),
        ("rg x no.py", "rg: no.py: IO error for operation on no.py: No such file or directory"),
        ("bat no.py", "[bat error]: 'no.py': No such file or directory (os error 2)"),
        ("wc < no.py", "bash: line 1: no.py: No such file or directory"),
    ],
)
def test_what_an_output_says_does_not_exist_is_a_failed_read(command: str, output: str) -> None:
    reads = reads_in(command, output, "/r", AT)

    assert reads == (Read("/r/no.py", at=AT, failed=True, is_guess=True),)


def test_only_the_path_that_is_named_is_absent() -> None:
    output = "line\ncat: sub/a.py: No such file or directory\n"

    reads = reads_in("cat a.py sub/a.py", output, "/r", AT)

    assert [(read.path, read.failed) for read in reads] == [
        ("/r/a.py", False),
        ("/r/sub/a.py", True),
    ]


def test_a_file_that_tells_of_absent_files_makes_none_absent() -> None:
    output = "notes.md:3: cat: notes.md: No such file or directory\n"

    reads = reads_in("grep -n cat notes.md", output, "/r", AT)

    assert not any(read.failed for read in reads)


def test_directories_and_closed_files_were_not_read() -> None:
    output = "cat: src: Is a directory\ncat: key.pem: Permission denied\ntext\n"

    reads = reads_in("cat src key.pem a.py", output, "/r", AT)

    assert [read.path for read in reads] == ["/r/a.py"]


def test_a_pattern_without_files_is_no_absent_path() -> None:
    output = "cat: src/*.zig: No such file or directory\n"

    assert reads_in("cat src/*.zig", output, "/r", AT) == ()


@pytest.mark.parametrize(
    ("cwd", "path", "expected"),
    [
        ("/r", "a/../b", "/r/b"),
        ("/r", "../../../b", "/b"),
        ("a", "../../b", "../b"),
        ("/r", "/", None),
        ("/r", "a\0b", None),
        ("/r", "x" * 5000, None),
    ],
)
def test_joined_paths_have_no_detours(cwd: str, path: str, expected: str | None) -> None:
    assert joined(cwd, path) == expected


PIECES = st.sampled_from(
    [
        *" \t\n'\"\\$`(){}<>|&;#*?[]=~!:/.-,",
        *("cat ", "cd ", "sed -n ", "1,2p", "for f in ", "$(", "<<", "head -n", "find . -name "),
        *("-exec ", "xargs ", "bash -c ", "a.py", "$f", "x=", "; do ", "EOF", "2>&1", "awk NR==1"),
    ]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=60).map("".join), st.text(max_size=9))
def test_no_command_line_raises(command: str, cwd: str) -> None:
    reads = files_read(command, cwd)

    assert len(reads) <= READS_MAX
    assert all(read.path and "\0" not in read.path for read in reads)


@given(st.lists(PIECES | st.text(max_size=9), max_size=40).map("".join), st.text(max_size=200))
def test_no_output_raises(command: str, output: str) -> None:
    reads_in(command, output, "/r", None)
    hits_in(output, "")


@pytest.mark.parametrize(
    "piece",
    [
        "$(", "`", "(", "{a,", "{a,b}", "$a", "'", '"', "<<E\n", "${", "x=$x$x;", "\\", "cat f|",
        "cat {a,b}{c,d}{e,f}{g,h} ", "for f in a b c d; do cat $f$f$f; ", "bash -c '", "}", "<(",
        "find . -name a -exec cat ", "$((", "[bat error", "a;", "cd a;",
    ],
)  # fmt: skip
def test_time_stays_linear_in_a_hostile_line(piece: str) -> None:
    command = piece * (COMMAND_CHARS_MAX // len(piece))
    begun = time.process_time()

    files_read(command, "/r")

    # Some 10 to 500 ms on a slow core; what is quadratic here takes minutes.
    assert time.process_time() - begun < 5
