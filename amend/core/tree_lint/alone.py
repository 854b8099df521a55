"""Why amend leaves a file alone, as findings."""

from amend.core.aicontext import Document, LineKind
from amend.core.tree_lint.rules import Finding, Rule, shown


def left_alone(path: str, document: Document) -> list[Finding]:
    """What keeps amend from understanding the file; empty when nothing does."""
    findings = _conflicts(path, document) + _not_utf8(path, document)
    if not findings and document.problem is not None:
        message = f"amend leaves this file alone until this is mended: {document.problem}"
        findings.append(Finding(path, 1, Rule.LEFT_ALONE, message))
    return findings


def _conflicts(path: str, document: Document) -> list[Finding]:
    marked = [
        (number, line.raw)
        for number, line in enumerate(document.lines, 1)
        if line.kind is LineKind.CONFLICT
    ]
    # One finding for each conflict; a marker that somebody left behind is one as well.
    starts = [number for number, raw in marked if raw.startswith(b"<")]
    message = "a merge left two versions here: keep one and remove git's markers"
    return [
        Finding(path, number, Rule.CONFLICT_MARKERS, message)
        for number in starts or [number for number, _ in marked[:1]]
    ]


def _not_utf8(path: str, document: Document) -> list[Finding]:
    for number, line in enumerate(document.lines, 1):
        try:
            line.raw.decode()
        except UnicodeDecodeError as error:
            wrong = line.raw[error.start]
            message = f"byte {shown(f'0x{wrong:02x}')} is not UTF-8: save the file as UTF-8"
            return [Finding(path, number, Rule.NOT_UTF8, message)]
    return []
