"""How an operator tool says that it could not. Its words hold no path, address or text of the call.

Knows no tool. The model knows what it has asked for; logs and traces need not.
"""

from __future__ import annotations

import errno
from typing import Final

from turnwired.domain.errors import ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason

BLOCKED: Final = Reason.TOOL_DENIED
"""The reason of what the configuration does not let through; ``origin_code`` says which rule of it."""

_WORDS: Final = {
    errno.ENOENT: "there is no such file or directory",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.EISDIR: "it is a directory",
    errno.ELOOP: "a part of the path is a symbolic link, and links are not followed",
    errno.EXDEV: "the path leads out of its root",
    errno.EACCES: "this process may not open it",
    errno.EPERM: "this process may not do that",
    errno.EROFS: "the file system is read-only",
    errno.ENAMETOOLONG: "a name in the path is too long",
    errno.EEXIST: "there is something of that name already",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.ENOSPC: "no space is left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
    errno.ENXIO: "it is no regular file",
}


def failed(origin: str, words: str, code: str = "", reason: Reason = Reason.TOOL_FAILED) -> ToolError:
    """The failure of a call as an exception."""
    failure = Failure(FailurePhase.TOOL, reason, f"{origin}: {words}", origin=origin, origin_code=code)
    return ToolError(failure)


def blocked(origin: str, code: str, words: str) -> ToolError:
    """The configuration does not let this through; ``code`` is a stable word for why, such as ``blocked_address``."""
    return failed(origin, f"{code}: {words}", code, BLOCKED)


def words_of(error: OSError) -> str:
    """What an error of the operating system means, without the path that it names."""
    number = error.errno or 0
    return _WORDS.get(number, f"the operating system says {errno.errorcode.get(number, 'no')}")


def code_of(error: OSError) -> str:
    """The name of the error, such as ``ENOENT``."""
    return errno.errorcode.get(error.errno or 0, "")
