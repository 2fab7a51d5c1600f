"""The tools of a deployment as an MCP server."""

REQUIREMENTS = {
    "MCPOUT-1": "A client of either era finds the tools of its caller under their routed names, and calls them.",
    "MCPOUT-2": "Without the section http nothing listens and nothing of it is imported.",
    "MCPOUT-3": "A caller shows its token; none, a wrong one, a foreign host and a foreign origin are refused.",
    "MCPOUT-4": "Operator tools, agents and tools that access rules deny are neither listed nor called, whoever asks.",
    "MCPOUT-5": "The policy of the deployment rules; what a person would have to approve is refused with that reason.",
    "MCPOUT-6": "Text, structure, images, audio, resources, links and errors arrive as what they are.",
    "MCPOUT-7": "A result that is cut, or lacks the structure that was promised, says so as an error.",
    "MCPOUT-8": "Long lists come in pages; a list says how long it is fresh and that it is this caller's alone.",
    "MCPOUT-9": "Progress reaches a client that asks for it; a client that leaves ends its call.",
    "MCPOUT-10": "Requests are bounded in size and time, connections and calls in number.",
    "MCPOUT-11": "At the end calls under way have the grace period, and no task, socket or log line is left.",
    "MCPOUT-12": "A fault of a tool or of ours reaches neither the client nor the log with its words.",
    "MCPOUT-13": "A section http that cannot work is refused with its key.",
    "MCPOUT-14": "The page about the endpoint shows what it prints.",
    "MCPOUT-15": "With the section http MCP servers connect at the start of the service as they do without it.",
}
