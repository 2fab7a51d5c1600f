"""What the tooling, the embedded model and the JSON tool-calling mode must do."""

REQUIREMENTS = {
    "JSONTOOLS-1": "In tool-calling mode json_schema the model chooses between each offered tool and a final answer.",
    "JSONTOOLS-2": "A tool's schema keeps its meaning inside the schema of the turn, its references included.",
    "JSONTOOLS-3": "The tool choice narrows the schema: required, none, one tool by name.",
    "JSONTOOLS-4": "What the reader gives does not depend on how the text was cut.",
    "JSONTOOLS-5": "Answer text and arguments stream while they are written.",
    "JSONTOOLS-6": "A call that was cut short is never reported as complete.",
    "JSONTOOLS-7": "Text of a runtime that ignores the grammar is the answer, nothing of it lost.",
    "JSONTOOLS-8": "The embedded model calls the right tool and answers from its result.",
    "LOCAL-1": "Weights are used only when their size and hash are those of this release.",
    "LOCAL-2": "Missing weights or a missing runtime are reported in one sentence that says what to run.",
    "LOCAL-3": "The model server starts once, however many calls wait for it, and within a bounded time.",
    "LOCAL-4": "The model server ends with us, also when we are killed.",
    "LOCAL-6": "The model server's memory is bounded, its cache of prompts too: beyond it only that process ends.",
    "LOCAL-5": "A model server that dies is started again by the next call.",
    "TOOLING-1": "No tracked file names the host of a package registry or a path of somebody's machine.",
    "TOOLING-2": "Every dependency has its reason in docs/dependencies.md, and no reason is without its dependency.",
    "TOOLING-3": "The lock files pin every package with hashes and name no index.",
    "TOOLING-4": "The layers of the design are enforced: each contract is broken by an import that it forbids.",
    "TOOLING-5": "Files and functions stay within the house's lengths.",
}
