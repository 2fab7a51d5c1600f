"""Who calls, and what it may see and do."""

REQUIREMENTS = {
    "IDENT-1": "A call with a caller's token is that caller's; an unknown or malformed one is refused, and so is none.",
    "IDENT-2": "Without configured callers everybody is the anonymous caller, and nobody is asked.",
    "IDENT-3": "With a section anonymous a call without a token has its tenant and roles; a wrong token is refused.",
    "IDENT-4": "A refusal is typed, comes before the request is read, and health and reflection need no token.",
    "IDENT-5": "A token is in a variable or a file, which may be replaced while the server runs.",
    "IDENT-6": "Tokens that are missing, short, malformed or shared are refused at the start, and never told.",
    "IDENT-7": "Sessions, runs, approvals and stored agents of one tenant are not there for another.",
    "IDENT-8": "Changing agents, MCP servers and looking at the questions of all sessions is for operators.",
    "IDENT-9": "A run keeps the principal and roles of its caller, also when another process goes on with it.",
    "IDENT-10": "An agent's run_as is whose identity its tool calls carry, in the caller's tenant.",
    "IDENT-11": "A run_as that the configuration does not know, or of another tenant, is refused.",
    "IDENT-12": "The command line shows a token from a variable, and its private server lets in who started it.",
    "IDENT-13": "The client of an app passes its token with every call that it makes, also after a cut stream.",
    "IDENT-14": "Access rules say by role which tools are listed and called; what denies wins.",
    "IDENT-15": "Operator tools are for the role operator only, in every listing, also through an agent's run_as.",
    "IDENT-16": "What a caller may not have is not told: not by name, collision, suggestion or unmatched pattern.",
    "IDENT-17": "A rule that denies holds for calls of tools that were listed before, and none is asked about.",
    "IDENT-18": "Whatever a run selects, it has no tool that its caller or its agent does not have.",
    "IDENT-20": "The page about callers shows what it prints.",
    "IDENT-19": "gRPC services are told the roles of the caller; Python tools find them in their context.",
}
