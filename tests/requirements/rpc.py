"""The gRPC face."""

REQUIREMENTS = {
    "RPC-1": "A bad request is INVALID_ARGUMENT with BadRequest paths, and nothing was started.",
    "RPC-2": "An option that is not enforced is refused with OPTION_NOT_SUPPORTED and its path.",
    "RPC-3": "Unknown agents, sessions and runs are NOT_FOUND with ErrorInfo.",
    "RPC-4": "RPCs of the contract that are not built answer UNIMPLEMENTED with a sentence.",
    "RPC-5": "GetServerInfo says version, capabilities and providers, and no secret.",
    "RPC-6": "An error arrives with its reason and details, however long the words of the request are.",
    "RPC-7": "Checking a request takes time in proportion to its size, so that one request holds up nobody.",
    "RPC-8": "ListTools pages by name and says of each tool what the rules say.",
    "RPC-10": "RunTurn streams a dense log and ends with OK after RunFinished.",
    "RPC-11": "StartTurn returns ids at once; the run goes on without a stream; GetRun has message and trace.",
    "RPC-12": "A repeated request id attaches and replays; with other content it is refused.",
    "RPC-13": "A busy session refuses a second turn with the active run's id, and nothing of it is stored.",
    "RPC-14": "Watchers attached at different points see the same log, live and after the end.",
    "RPC-15": "Filtered streams leave out only what their detail says, and keep their cursor.",
    "RPC-16": "Cancel ends a retry wait at once, without another request, and is idempotent.",
    "RPC-17": "A cut stream ends a stateless run, and lets a run go on that has a session or may continue.",
    "RPC-18": "The call's deadline is a limit of the run of its own kind.",
    "RPC-19": "ListRuns pages, newest first, and filters by label.",
    "RPC-20": "gRPC health and reflection are served.",
    "RPC-21": "A stopping server refuses new runs and settles those in flight.",
}
