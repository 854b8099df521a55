"""What can go wrong that is not amend's own bug.

    AmendError
    ├── ConfigInvalid      the configuration breaks a rule
    ├── DocumentInvalid    a file amend understands cannot be parsed
    ├── RequestInvalid     a question asks for something that cannot be
    ├── NotFound           no such worktree, entry or path
    ├── Conflict           somebody else changed it first, or two things claim one name
    │   └── StaleMatch     an If-Match names another version than the present one
    ├── Refused            amend will not do this, for safety
    └── Unavailable        the daemon, git or the store cannot answer now

A message is lower case and names the thing, the value and the rule; the hint says what to do.
Anything else that is raised is a bug and is shown as one.
"""


class AmendError(Exception):
    """Broken input or a broken world, with what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigInvalid(AmendError):
    pass


class DocumentInvalid(AmendError):
    pass


class RequestInvalid(AmendError):
    pass


class NotFound(AmendError):
    pass


class Conflict(AmendError):
    pass


class StaleMatch(Conflict):
    pass


class Refused(AmendError):
    pass


class Unavailable(AmendError):
    pass


def reason_of(error: AmendError | OSError) -> str:
    """What went wrong, in amend's words or in those of the system."""
    if isinstance(error, AmendError):
        return error.message
    return (error.strerror or str(error)).lower()
