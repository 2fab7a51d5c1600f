"""Behaviours of operator tools: files, HTTP and the inspector, each with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "OPER-1": "Operator tools are off by default; a section of the configuration turns on its own, as source OPERATOR.",
    "OPER-2": "A path begins with the name of a root; one that could lead elsewhere is refused before anybody is asked.",
    "OPER-3": "No link is followed, wherever it stands in a path and wherever it leads, with openat2 and without.",
    "OPER-4": "A file or a directory that is exchanged for a link meanwhile leads nowhere, with openat2 and without.",
    "OPER-5": "A pipe, a socket, a device or a directory in the place of a file is refused at once.",
    "OPER-6": "read_file shows lines within bounds and says how to go on; what is no text comes as bytes.",
    "OPER-7": "tail_file shows the last lines within bounds.",
    "OPER-8": "list_dir tells names, kinds and sizes within bounds and says when that is not all.",
    "OPER-9": "grep_files finds lines in time linear to the text, within bounds, and says when it has not read all.",
    "OPER-10": "write_file replaces a file at once, keeps its mode, and leaves nothing behind when it fails.",
    "OPER-11": "apply_patch changes, creates, moves and deletes; a hunk goes where it says or to the one place it fits.",
    "OPER-12": "A patch of several files is applied as a whole or not at all.",
    "OPER-13": "A root is for reading unless it is writable; without a writable one there are no tools that write.",
    "OPER-14": "Sizes of what is read, written and patched are bounded.",
    "OPER-15": "What a root excludes is as if it was not there, for every tool.",
    "OPER-16": "A tool asks for the permission of its own name, about paths, hosts or processes.",
    "OPER-17": "Tools that change something need approval; those of always_ask are asked about whatever rules allow.",
    "OPER-18": "A failure of a file tool names no path.",
    "OPER-19": "A call that is cancelled ends its thread.",
    "OPER-20": "A configuration that cannot be meant is refused with the key and what to do.",
}
