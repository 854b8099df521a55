"""Settings as other tools and people leave them: what amend's hooks must come into and go from."""

from typing import Final

# Each is left byte for byte by an install and an uninstall.
FOREIGN: Final[dict[str, bytes]] = {
    "empty object": b"{}",
    "empty object and a line end": b"{}\n",
    "empty object over two lines": b"{\n}\n",
    "empty object with a blank": b"{ }",
    "empty hooks": b'{\n  "hooks": {}\n}\n',
    "empty hooks over two lines": b'{\n  "hooks": {\n  }\n}\n',
    "empty hooks on one line": b'{"hooks":{}}',
    "an event without groups": b'{\n  "hooks": {\n    "PreToolUse": [],\n    "Stop": []\n  }\n}\n',
    "no hooks": b'{\n  "model": "opus",\n  "env": {"A": "1", "B": "{}[],:"}\n}\n',
    "minified": b'{"model":"opus","permissions":{"allow":["Bash(ls:*)"],"deny":[]}}',
    "spaced on one line": b'{ "model" : "opus", "hooks" : { "Stop" : [ ] } }',
    "another tool's hooks": b"""{
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Bash",
        "hooks": [
          {
            "type": "command",
            "command": "~/.guard/check.sh \\"$TOOL\\"",
            "timeout": 10
          }
        ]
      },
      {
        "matcher": "Agent|Task",
        "hooks": [
          {
            "type": "command",
            "command": "nc -N -U /run/other/hooks/claude.sock; exit 0"
          }
        ]
      }
    ],
    "UserPromptSubmit": [
      { "hooks": [ { "type": "command", "command": "echo hi" } ] }
    ]
  },
  "statusLine": {"type": "command", "command": "line.sh"}
}
""",
    "hooks last and first": b'{\n  "hooks": {\n    "Stop": [{"hooks": []}]\n  }\n}',
    "comments": b"""// my settings
{
  // which model
  "model": "opus", // the large one
  /* hooks of
     the guard */
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [] } // only Bash
      // more to come
    ]
    // and no others
  } // end of hooks
  // the end
}
// really
""",
    "a comment behind the last value": b'{\n  "model": "opus" // the large one\n}\n',
    "a comment in an empty object": b"{ // nothing yet\n}\n",
    "a comment in empty hooks": b'{\n  "hooks": { /* none */ }\n}\n',
    "a comment on one line": b'{"model": "opus" /* the large one */}',
    "what looks like comments": b'{\n  "a": "// no /* comment",\n  "b": "http://x/*y*/"\n}\n',
    "trailing commas": (
        b'{\n  "hooks": {\n    "PreToolUse": [\n      {"hooks": [],},\n    ],\n  },\n}\n'
    ),
    "trailing commas and comments": b"""{
  "model": "opus", // one
  "hooks": {
    "SessionStart": [
      {"hooks": []}, // two
    ], /* three */
  }, // four
}
""",
    "a trailing comma on one line": b'{"model": "opus",}',
    "tabs": (
        b'{\n\t"model": "opus",\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{\n'
        b'\t\t\t\t"hooks": []\n\t\t\t}\n\t\t]\n\t}\n}\n'
    ),
    "four blanks": (
        b'{\n    "model": "opus",\n    "hooks": {\n        "SubagentStop": [\n        ]\n    }\n}\n'
    ),
    "no indent": b'{\n"model": "opus",\n"hooks": {\n"PreToolUse": [\n{"hooks": []}\n]\n}\n}\n',
    "windows line ends": (
        b'{\r\n  "model": "opus",\r\n  "hooks": {\r\n    "PreToolUse": [\r\n      {}\r\n'
        b"    ]\r\n  }\r\n}\r\n"
    ),
    "an empty object with windows line ends": b"{\r\n}\r\n",
    "mixed line ends": b'{\r\n  "model": "opus",\n  "env": {}\r\n}\n',
    "no final line end": b'{\n  "model": "opus"\n}',
    "blanks around": b'\n\n  {\n    "model": "opus"\n  }\n\n\n',
    "byte order mark": b'\xef\xbb\xbf{\r\n  "model": "opus"\r\n}\r\n',
    "no UTF-8": b'{\n  "env": {"NAME": "caf\xe9"}\n}\n',
    "other scripts": '{\n  "language": "日本語",\n  "b": "\\u65e5\\ud83d\\ude00"\n}\n'.encode(),
    "a key twice": (
        b'{\n  "hooks": {"Stop": []},\n  "model": "a",\n  "hooks": {"PreToolUse": []},\n'
        b'  "model": "b"\n}\n'
    ),
    "an event twice": b'{"hooks": {"PreToolUse": [1], "PreToolUse": [{"hooks": []}]}}',
    "deep": b'{\n  "env": ' + b'{"a": [' * 20 + b"1" + b"]}" * 20 + b"\n}\n",
    "groups of another shape": (
        b'{"hooks": {"PreToolUse": ["x", 1, null, {"hooks": {}}, {"hooks": [1, {"command": 2}]}]}}'
    ),
    "numbers": b'{"a": 1e999, "b": -0.0, "c": 123456789012345678901234567890, "d": 1.10}',
    "our words in another place": (
        b'{"note": "# amend hook", "hooks": {"Stop": [{"hooks": [{"type": "command", "comm'
        b'and": "echo # amend hook? no"}]}]}}'
    ),
}

# Each is refused and left alone, with a word of why.
REFUSED: Final[dict[str, tuple[bytes, str]]] = {
    "cut off": (b'{\n  "model": "opus",\n  "hooks": {', "line 3"),
    "no comma": (b'{\n  "a": 1\n  "b": 2\n}\n', "line 3, column 3"),
    "two commas": (b'{"a": 1,, "b": 2}', "line 1, column 9"),
    "single quotes": (b"{'a': 1}", "line 1, column 2"),
    "a comment that never ends": (b'{"a": 1 /* why\n}', "line 1, column 9"),
    "a comment of another kind": (b'{"a": 1 # why\n}', "line 1, column 9"),
    "only comments": (b"// nothing\n", "an object"),
    "a list": (b"[]\n", "line 1, column 1"),
    "a word": (b"null", "line 1, column 1"),
    "two documents": (b"{}{}", "line 1, column 3"),
    "a merge conflict": (b'{\n<<<<<<< HEAD\n  "a": 1\n', "line 2, column 1"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "UTF-16"),
    "too deep": (b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", "levels of nesting"),
    "hooks that are null": (b'{\n  "hooks": null\n}', "/hooks is null, must be an object"),
    "hooks that are a list": (b'{"hooks": []}', "/hooks is a list, must be an object"),
    "an event that is an object": (
        b'{"hooks": {"PreToolUse": {"hooks": []}}}',
        "/hooks/PreToolUse is an object, must be a list",
    ),
    "an event that is null": (b'{"hooks": {"PreToolUse": null}}', "/hooks/PreToolUse is null"),
}
