"""What a model puts out beside text: native parts, files, structured values; how it is asked to; what is counted."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "OUT-1": "A native item at the position of a part or call stands right behind it: live, in the trace, recovered.",
    "OUT-2": "Reasoning and native parts name their provider and go back as they came, in order, in later requests.",
    "OUT-3": "A file that the model made is output: shown, kept, and an answer by itself; one too large is a notice.",
    "OUT-4": "Tools that the provider executed are parts: nothing is dispatched, counted or waited for.",
    "OUT-5": "A paused turn goes back as it is until it ends, within loop.max_steps.",
    "OUT-6": "Usage that a provider does not report is said once in a run and estimated, and the estimate says so.",
    "OUT-7": "Usage reported before an answer broke off counts, and is no exact number of what was put out.",
    "OUT-8": "A stream that ends before it began is a failed attempt like any other; after output nothing is repeated.",
    "OUT-9": "Generation options out of range are refused with their path, in requests and in configuration.",
    "OUT-10": "Options that a request leaves open are the agent's with the agent's model, else the provider's.",
    "OUT-11": "What the provider has no place for is refused before a run exists, and says whose value it is.",
    "OUT-12": "A schema or name that cannot be used is refused before a run exists.",
    "OUT-13": "A final answer that matches the schema, alone or in one Markdown fence, is the run's structured output.",
    "OUT-14": "A wrong answer gets one more model call, without tools, that says what is wrong and shows no value.",
    "OUT-15": "A run without a matching answer ends ERRORED, with its text kept and the trace in it.",
    "OUT-16": "Tool calls come before the structured answer; a refusal and the output limit win over wrong JSON.",
    "OUT-17": "The correction is part of the conversation: in the session, and found again by recovery.",
    "OUT-18": "A null for what may be left out counts as left out.",
    "OUT-19": "Requests of a session, or of an agent without one, share a cache key that tells nothing.",
    "OUT-20": "Images, documents and audio reach the wire; what it cannot carry is refused with the part's path.",
    "OUT-21": "Options and the kind of output are attributes of the model call's span.",
    "OUT-22": "The command line asks for structured output by a schema file, and clients read the value.",
    "OUT-23": "A forced tool choice holds for the first model call of a run, which could never answer otherwise.",
}
