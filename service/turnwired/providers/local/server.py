"""The child process: llama.cpp's HTTP server on a loopback port, for as long as its parent lives.

Run as ``python -m turnwired.providers.local.server``. Talks to its parent over the pipes: the first line on standard
input is the key that requests must carry (arguments and environments can be read by others), one line on standard
output says where it listens, and the end of standard input ends it, so that it never outlives a parent that was killed.
It imports nothing of the service.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, cast

READY = "listening on "
PROMPT_CACHE_MIB = 256
"""Most that prompts of earlier calls may take, which spare the next call of a conversation to read them again."""


def main() -> None:
    """Serves until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--name", required=True, help="what the model is called in answers")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context-tokens", type=int, required=True)
    parser.add_argument("--memory-mib", type=int, required=True, help="of data, the mapped weights not counted")
    arguments = parser.parse_args()
    key = sys.stdin.readline().strip()
    if not key:
        sys.exit("no key came on standard input; this program is started by turnwire")

    _bound_memory(arguments.memory_mib)

    import xllamacpp  # here, because the parsing above must not wait for it

    runtime = cast(Any, xllamacpp)  # an extension module without types
    params = runtime.CommonParams()
    params.model.path = arguments.weights
    params.model_alias = {arguments.name}
    params.n_ctx = arguments.context_tokens
    params.n_parallel = 1
    params.cpuparams.n_threads = arguments.threads
    params.cpuparams_batch.n_threads = arguments.threads
    params.n_threads_http = 4
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.ui = False
    params.endpoint_slots = False
    params.warmup = False
    params.cache_ram_mib = min(PROMPT_CACHE_MIB, arguments.memory_mib // 4)  # its default is to keep 8 GiB of prompts
    params.verbosity = 1
    server = runtime.Server(params)
    sys.stdout.write(f"{READY}{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # Its threads would have to be joined one by one, and nothing of theirs is worth keeping.
    os._exit(0)


def _bound_memory(mebibytes: int) -> None:
    """Let an allocation beyond the bound fail: then this process ends, not one that shares the machine.

    Linux counts private memory; other systems take the call and enforce less.
    """
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = mebibytes << 20
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


if __name__ == "__main__":
    main()
