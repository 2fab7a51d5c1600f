"""Faults of what the model sees of a conversation, for scripts/mutants.py: what, module, old, new."""

from __future__ import annotations

CONTEXT_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    # --- history that does not fit
    ("history: a cut is not told", "machine", "out.emit(fact.change)", "pass"),
    ("history: what is too long is sent again", "machine", "shorten=next_step.shorten)", "shorten=False)"),
    ("history: shortened for ever", "machine", "            self._shortened |= next_step.shorten\n", ""),
    (
        "history: shortened after output",
        "retry",
        "not attempt.shortened and not attempt.produced",
        "not attempt.shortened",
    ),
    (
        "history: shortened whatever the policy says",
        "retry",
        " and bounds.history_overflow is HistoryOverflowMode.TRUNCATE",
        "",
    ),
    (
        "history: shortening is no attempt",
        "retry",
        "attempt.number < bounds.max_attempts\n        return Again(0, shorten",
        "True\n        return Again(0, shorten",
    ),
    ("history: never shortened", "retry", "Again(0, shorten=True) if may else", "Again(0, shorten=True) if False else"),
    # --- files that come with, during or after
    ("files: nothing is waited for", "attachments", "return bool(self.pending)", "return False"),
    ("files: waits for those that are there", "attachments", "return bool(self.pending)", "return bool(self.known)"),
    ("files: no end of the wait", "attachments", "out.do(AwaitAttachments(limit))", "pass"),
    ("files: a file comes twice", "attachments", "known.state is AttachmentState.READY:", "False:"),
    ("files: what comes is not logged", "attachments", "out.emit(InputAppended((message,)))", "pass"),
    ("files: what comes is not shown", "attachments", "                transcript.hold((message,))\n", ""),
    (
        "files: the model is not told",
        "attachments",
        "transcript.hold((missing(late, self._ids, self._run_id),))",
        "pass",
    ),
    (
        "files: what is missing stays awaited",
        "attachments",
        "failed = AttachmentState.FAILED",
        "failed = AttachmentState.PENDING",
    ),
    (
        "files: the first that comes ends the wait",
        "machine",
        "TurnState.AWAITING_ATTACHMENTS and not self.attachments.pending",
        "TurnState.AWAITING_ATTACHMENTS",
    ),
    ("files: one that did not come ends no run", "attachments", "self.failure = late[0].failure", "pass"),
    ("files: one of the wrong kind ends no run", "attachments", "self.failure = self.failure or", "_ ="),
    ("files: one that did not come ends any run", "attachments", "if ends:", "if True:"),
    ("files: taken when nothing follows", "machine", "if not self.takes_input or not self.att", "if not self.att"),
    (
        "files: taken at the last step",
        "machine",
        "and not stuck and self.iteration < self.setup",
        "and not stuck and self.iteration <= self.setup",
    ),
    ("files: taken beyond the bound on calls", "machine", "return lasts and not stuck and", "return lasts and"),
    ("files: an answer ends the run that was added to", "machine", "elif self._transcript.holds and", "elif False and"),
    ("files: forgotten at the end", "machine", "        self._transcript.end()\n", ""),
    (
        "files: in a turn that was paused",
        "history",
        "        if not self._paused:\n            self._put_held()",
        "        self._put_held()",
    ),
    ("files: recovery forgets what came", "recovery", "self._held.messages += messages", "pass"),
    ("files: recovery forgets what did not", "recovery", "self._held.missing.append(attachment)", "pass"),
    ("files: recovery forgets what nobody read", "recovery", "        self._held.put(transcript, ids, run_id)\n", ""),
)
