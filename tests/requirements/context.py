"""What the model sees of a conversation: history that fits, attachments, and runs found by how they ended."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CTX-1": "A conversation within context.max_history_tokens is sent whole.",
    "CTX-2": "With TRUNCATE the oldest groups are left out, never a call without its results, from a user's word on.",
    "CTX-3": "System messages, the last message of the user and the open group stay, whatever is left out.",
    "CTX-4": "A cut goes far, and where one was made depends on the messages alone: prefixes hold from turn to turn.",
    "CTX-5": "A request that the provider finds too long is made once more, a quarter shorter, once in an iteration.",
    "CTX-6": "With FAIL a run over the bound ends ERRORED with CONTEXT_OVERFLOW before anything is sent.",
    "CTX-7": "HistoryTruncated is in the log before the request is made, and in the trace; the session keeps all.",
    "CTX-8": "Left to the provider nothing is counted; TRUNCATE then keeps within the window that the profile knows.",
    "CTX-9": "Each message is counted once, by the profile's tokenizer or by its size, over turns too.",
    "CTX-10": "What must stay and does not fit ends the run with CONTEXT_OVERFLOW, also with TRUNCATE.",
    "CTX-15": "Bytes that come with the request are the file, for the model, the session and every later turn.",
    "CTX-16": "Ids of attachments that are unknown, double, unused or used twice are refused by their path.",
    "CTX-17": "No URI is fetched: each scheme is refused and said to be; sizes, names, types and numbers are bounded.",
    "CTX-18": "A run waits for files that are to come, before its first model call, at most context.attachment_wait.",
    "CTX-19": "A file that does not come is FAILED with ATTACHMENT_NOT_READY; the model is told, and the run goes on.",
    "CTX-20": "A file that comes late enters the next iteration, never between a call and its result.",
    "CTX-21": "A file for a run that makes no further model call is refused, and so is one that is there already.",
    "CTX-22": "A file that the provider cannot take, or that is too large for an event, is refused and still awaited.",
    "CTX-23": "A wait for files ends with cancel and with the run's own time; nothing of it outlasts the run.",
    "CTX-24": "AttachmentUpdated and InputAppended are in log and trace; a crash at any point leaves the same history.",
    "CTX-25": "AppendInput brings files over gRPC: those that a run awaits and others, in a message or alone, once.",
    "CTX-30": "Runs are listed by how they ended, from an index where that is rare, also after a crash.",
    "CTX-31": "ListRuns takes outcome_kinds: any of them, each once, known ones only.",
    "CTX-11": "CountTokens counts the request that would be made.",
    "CTX-41": "context.missing_attachments FAIL: a file that did not come ends the run before the model is called.",
    "CTX-42": "A file of a kind that the model does not take is told to it, or ends the run, as the policy says.",
    "CTX-40": "Results of a conversation that a caller brings stand in the order of their calls, however they came.",
}
