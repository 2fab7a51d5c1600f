"""What holds against a hostile or broken provider and a hostile caller, each with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "HOSTILE-1": "A native block joins a body only as one JSON value, so that no caller writes other fields with it.",
    "HOSTILE-2": "No value at any place of an answer makes a parser raise, or gives an item that cannot be stored.",
    "HOSTILE-3": "The time that an answer takes to read grows with its length, whatever its pieces are.",
    "HOSTILE-4": "The parts and the bytes of one answer are bounded; beyond the bound the call fails as a broken one.",
    "HOSTILE-5": "Adapting a schema takes bounded time, whatever its references and unions lead to.",
    "HOSTILE-6": "Counts and prices beyond all measure are no count, or the highest amount as a lower bound.",
    "HOSTILE-7": "A provider's word is told only when it is a plain one, and names from it are cut.",
    "HOSTILE-8": "A model's name never leads out of its place in the URL.",
    "HOSTILE-9": "No other name of a limit among the provider options lifts it.",
    "HOSTILE-10": "Patterns of tool names are matched in time that grows with their lengths; callers' are bounded.",
    "HOSTILE-11": "A value of an enumeration that this version does not know is INVALID_ARGUMENT at any place.",
    "HOSTILE-12": "Whatever a hook raises or does not end, of events or of completion, ends no run and no service.",
    "HOSTILE-13": "Holding a value against a schema takes bounded time, whatever the schema leads to.",
    "HOSTILE-14": "Words about a failure lose what looks like a secret, in time that grows with their length.",
    "HOSTILE-15": "Caps by tool and labels of a listing are bounded; more are refused before they cost anything.",
    "HOSTILE-16": "A page's character set makes no fetch fail, and none takes time beyond its length.",
    "HOSTILE-17": "A server's list of tools costs bounded time and is told in bounded words, whatever it holds.",
    "HOSTILE-18": "A tool whose name or description no request could carry is left out, whatever source it is of.",
    "HOSTILE-19": "What was approved before a restart is run as that tool, never as another that has its name now.",
    "HOSTILE-20": "What a caller may not have is told in no way: not by a search, nor by what is wrong with it.",
    "HOSTILE-21": "Connections on which no request comes to its end do not keep others out of the HTTP server.",
    "HOSTILE-30": "An app's list of tools costs bounded time and memory and is told in bounded words, whatever it is.",
    "HOSTILE-31": "The parts of a tool's result are bounded in number, however small they are, and it says so.",
    "HOSTILE-32": "What one tenant's app lists changes no name and no tool of another tenant, under any policy.",
    "HOSTILE-33": "An id is of one source only, also of sources that came while the service runs.",
    "HOSTILE-34": "A credential that a server repeats stands in no failure, no log and no words about a failure.",
    "HOSTILE-35": "A result that is nested without end is a failed call, at once, that says what may have been done.",
    "HOSTILE-36": "A time that is no time is refused by its field, at any RPC of tool sources.",
}
