"""The contract over Connect and gRPC-Web, for browsers and curl."""

REQUIREMENTS = {
    "WEB-1": "Every RPC of the contract answers over Connect, in bytes and in JSON, and over gRPC-Web, as over gRPC.",
    "WEB-2": "A turn streams frame by frame as it happens, dense and to its end, also one of thousands of deltas.",
    "WEB-3": "A client that leaves cuts its stream: the run does what on_disconnect says, and nothing is left behind.",
    "WEB-4": "An error has the code, words and details that gRPC gives it, and a text of details for people.",
    "WEB-5": "Pages of the listed origins may call and read the answers; other origins and hosts are refused.",
    "WEB-6": "A caller shows its token before its request is read; tenants and roles hold as over gRPC.",
    "WEB-7": "Requests are bounded in size, packed or not, and in depth; what is no request is refused in clear words.",
    "WEB-8": "A call ends at its deadline, and the run of a stream with it.",
    "WEB-9": "A reader that is slow, or takes nothing, neither slows the run nor grows memory, and loses nothing.",
    "WEB-10": "Requests and answers may be packed with gzip.",
    "WEB-11": "In JSON integers of 64 bits are strings, text of any script is whole, unknown fields are passed over.",
    "WEB-12": "It is off by default and costs those nothing who do not use it; a mistake is refused with its key.",
    "WEB-13": "Telemetry sees the RPCs as those over gRPC, under the trace of the caller.",
    "WEB-14": "At the end of the service streams under way have the grace period, and nothing is left.",
    "WEB-15": "The page about browsers and the README show what curl prints.",
    "WEB-16": "Peers that are gone without a word are noticed.",
    "WEB-17": "An internal fault reaches neither the client nor the log with its words.",
}
