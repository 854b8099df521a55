"""amend's hooks in a coding agent's settings: put in, found, and taken out again.

Claude Code's `settings.json` and Codex's `hooks.json` hold them alike: `hooks` → event → groups of
a matcher and its handlers. A handler is amend's where its command carries `SENTINEL`. The document
is a person's and other tools': it is edited in place (`json_tree`), foreign hooks, order, comments
and layout stay.

Guarantees: adding twice is adding once; `remove_hooks(add_hooks(data, …)) == data`, byte for byte;
a group that stays keeps its place, and new ones come last, so that a foreign group keeps its number
(Codex trusts hooks by their number). A document that is no JSON object, or whose hooks have another
shape, is `DocumentInvalid`, and nothing is returned.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from amend.errors import DocumentInvalid
from amend.formats.json_text import Splice, Style, decode, encode, splice
from amend.formats.json_tree import (
    Child,
    Layout,
    Node,
    Tree,
    insertions,
    is_blank,
    layout_inside,
    read_tree,
    removals,
)

# The end of every command of amend's, as a shell comment. It says to whoever reads the settings,
# or a trust screen, whose command it is.
SENTINEL: Final = "# amend hook"

# How an absent file begins.
_STYLE: Final = Style("\n", "  ")


@dataclass(frozen=True, slots=True)
class HookGroup:
    """One group with one handler: at `event`, where `matcher` matches (None: always), `command`
    runs, and is cut after `timeout_s`."""

    event: str
    matcher: str | None
    command: str
    timeout_s: float

    def document(self) -> dict[str, Any]:
        timeout = int(self.timeout_s) if self.timeout_s == int(self.timeout_s) else self.timeout_s
        handler = {"type": "command", "command": self.command, "timeout": timeout}
        return {
            **({} if self.matcher is None else {"matcher": self.matcher}),
            "hooks": [handler],
        }


@dataclass(frozen=True, slots=True)
class OwnHook:
    """A handler of amend's that is in a document. The numbers are how Codex names it."""

    event: str
    group: int
    handler: int
    matcher: str | None
    command: str
    timeout: float | None


@dataclass(frozen=True, slots=True)
class _Place:
    """A group that has a handler of amend's, and where it is."""

    hooks: Node
    event: Child
    group: Child
    index: int

    @property
    def is_whole(self) -> bool:
        """Whether all that the group does is amend's."""
        return _is_whole(self.group.value)


def is_own(command: object) -> bool:
    return isinstance(command, str) and command.rstrip().endswith(SENTINEL)


def add_hooks(data: bytes | None, wanted: Sequence[HookGroup]) -> bytes:
    """The document with exactly these hooks of amend's, one group an event; `None`: there is none.

    Returns `data` itself where they are what it has.
    """
    of_event = {group.event: group for group in wanted}
    assert len(of_event) == len(wanted)
    text = "" if data is None else decode(data)
    if is_blank(text):
        document = Layout(_STYLE, "").container("{", [_hooks_member(wanted, Layout(_STYLE, "  "))])
        return encode(f"{text}{document}\n")
    assert data is not None
    tree = read_tree(text)
    hooks = _hooks_of(tree)
    places = _places(tree)
    events = [place.event.key for place in places]
    in_order = len(set(events)) == len(events) and set(events) <= of_event.keys()
    if not in_order or not all(place.hooks is hooks and place.is_whole for place in places):
        return add_hooks(remove_hooks(data), wanted)
    splices: list[Splice] = []
    for place in places:
        group = of_event.pop(place.event.key or "")
        if place.group.value.plain() != group.document():
            layout = layout_inside(tree, place.event.value, place.group)
            splices.append((place.group.start, place.group.end, layout.value(group.document())))
    splices += _additions(tree, hooks, list(of_event.values()))
    return encode(splice(text, splices)) if splices else data


def _additions(tree: Tree, hooks: Node | None, missing: Sequence[HookGroup]) -> list[Splice]:
    if not missing:
        return []
    if hooks is None:
        layout = layout_inside(tree, tree.top)
        return insertions(tree, tree.top, [_hooks_member(missing, layout)], layout)
    splices: list[Splice] = []
    layout, members = layout_inside(tree, hooks), []
    for group in missing:
        groups = hooks.get(group.event)
        if groups is None:
            members.append(_event_member(group, layout))
            continue
        if not groups.is_array:
            _refuse(tree, groups, f"/hooks/{group.event}", "a list of groups")
        inside = layout_inside(tree, groups)
        splices += insertions(tree, groups, [inside.value(group.document())], inside)
    return splices + insertions(tree, hooks, members, layout)


def remove_hooks(data: bytes) -> bytes | None:
    """The document without any hook of amend's, and without what was made for them; `None`: all
    that it says was made for them. Returns `data` itself where there are none."""
    text = decode(data)
    if is_blank(text):
        return data
    tree = read_tree(text)
    gone: set[int] = set()
    splices: list[Splice] = []
    for index, child in enumerate(tree.top.children):
        if child.key == "hooks" and child.value.is_object:
            edits = _without_own(tree, child.value)
            if edits is None:
                gone.add(index)
            else:
                splices += edits
    if not gone and not splices:
        return data
    if len(gone) == len(tree.top.children) and _was_made(tree, tree.top):
        outside = text[: tree.top.start] + text[tree.top.end :]
        if is_blank(outside):
            return None
    return encode(splice(text, splices + removals(tree, tree.top, frozenset(gone))))


def own_hooks(data: bytes) -> tuple[OwnHook, ...]:
    """amend's handlers that are in force, in order."""
    text = decode(data)
    if is_blank(text):
        return ()
    tree = read_tree(text)
    hooks = _hooks_of(tree)
    return tuple(
        _own_hook(place, number)
        for place in _places(tree)
        if hooks is not None
        and place.hooks is hooks
        and place.event.value is hooks.get(place.event.key or "")
        for number in _own_handlers(place.group.value)
    )


def enabled_plugins(data: bytes, name: str) -> tuple[str, ...]:
    """Which plugins of that name the settings switch on, as `name@marketplace`."""
    plugins = _top(data).get("enabledPlugins")
    if not isinstance(plugins, Mapping):
        return ()
    return tuple(key for key, is_on in plugins.items() if is_on and key.split("@")[0] == name)


def are_hooks_disabled(data: bytes) -> bool:
    """Whether the settings switch all hooks off."""
    return _top(data).get("disableAllHooks") is True


def _top(data: bytes) -> Mapping[str, Any]:
    text = decode(data)
    if is_blank(text):
        return {}
    top: dict[str, Any] = read_tree(text).top.plain()
    return top


def _own_hook(place: _Place, number: int) -> OwnHook:
    group = place.group.value.plain()
    handler = group["hooks"][number]
    matcher, timeout = group.get("matcher"), handler.get("timeout")
    return OwnHook(
        place.event.key or "",
        place.index,
        number,
        matcher if isinstance(matcher, str) else None,
        handler["command"],
        timeout if isinstance(timeout, int | float) else None,
    )


def _hooks_of(tree: Tree) -> Node | None:
    """The hooks that count. Raises `DocumentInvalid` where they are of another shape."""
    hooks = tree.top.get("hooks")
    if hooks is not None and not hooks.is_object:
        _refuse(tree, hooks, "/hooks", "an object of events")
    return hooks


def _places(tree: Tree) -> list[_Place]:
    """Also below a key that is there twice, where they are not in force."""
    return [
        _Place(top.value, event, group, index)
        for top in tree.top.children
        if top.key == "hooks" and top.value.is_object
        for event in top.value.children
        if event.value.is_array
        for index, group in enumerate(event.value.children)
        if _own_handlers(group.value)
    ]


def _own_handlers(group: Node) -> list[int]:
    """The numbers of amend's handlers in a group."""
    handlers = group.get("hooks") if group.is_object else None
    if handlers is None or not handlers.is_array:
        return []
    return [
        number
        for number, handler in enumerate(handlers.children)
        if (command := handler.value.get("command")) is not None and is_own(command.scalar)
    ]


def _is_whole(group: Node) -> bool:
    """Whether all that a group does is amend's."""
    handlers = group.get("hooks") if group.is_object else None
    own = _own_handlers(group)
    return bool(own) and handlers is not None and len(own) == len(handlers.children)


def _without_handlers(tree: Tree, group: Node) -> list[Splice]:
    handlers = group.get("hooks") if group.is_object else None
    own = _own_handlers(group)
    return removals(tree, handlers, frozenset(own)) if handlers is not None and own else []


def _without_own(tree: Tree, hooks: Node) -> list[Splice] | None:
    """The splices that take amend's out of `hooks`; None: there is nothing else in it."""
    gone: set[int] = set()
    splices: list[Splice] = []
    for index, event in enumerate(hooks.children):
        groups = event.value
        whole = {i for i, child in enumerate(groups.children) if _is_whole(child.value)}
        if groups.is_array and whole:
            if len(whole) == len(groups.children) and _was_made(tree, groups):
                gone.add(index)
                continue
            splices += removals(tree, groups, frozenset(whole))
        for i, child in enumerate(groups.children if groups.is_array else ()):
            splices += [] if i in whole else _without_handlers(tree, child.value)
    if gone and len(gone) == len(hooks.children) and _was_made(tree, hooks):
        return None
    return splices + removals(tree, hooks, frozenset(gone))


def _was_made(tree: Tree, container: Node) -> bool:
    """Whether it was made for what is in it, and nobody has written between that."""
    if not container.is_opened:
        return False
    at = container.start
    for child in container.children:
        if tree.has_comment(at, child.start):
            return False
        at = child.end
    return not tree.has_comment(at, container.end)


def _hooks_member(groups: Sequence[HookGroup], layout: Layout) -> str:
    members = [_event_member(group, layout.deeper) for group in groups]
    return layout.member("hooks", layout.container("{", members))


def _event_member(group: HookGroup, layout: Layout) -> str:
    inside = layout.deeper.value(group.document())
    return layout.member(group.event, layout.container("[", [inside]))


def _refuse(tree: Tree, node: Node, pointer: str, rule: str) -> NoReturn:
    line = tree.text.count("\n", 0, node.start) + 1
    column = node.start - tree.text.rfind("\n", 0, node.start)
    found = {"{": "an object", "[": "a list"}.get(node.bracket, json.dumps(node.scalar))
    raise DocumentInvalid(
        f"line {line}, column {column}: {pointer} is {found}, must be {rule}",
        hint="mend it, or take it out; nothing was changed",
    )
