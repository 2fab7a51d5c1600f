"""Behaviours of keys, cloud sign-in and of the one retry after rejected credentials, each with an id."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CRED-1": "The first rejection of credentials in an iteration leads at once to one attempt with renewed ones.",
    "CRED-2": "A second rejection in an iteration, one after output and one on the last attempt end the run.",
    "CRED-3": "A wait that would outlast the run's or its caller's deadline is not begun, and the failure says so.",
    "CRED-4": "By default attempts are 8 and delays 2 s doubling to 30 s, spread by jitter at the cap too.",
    "CRED-5": "A key file is read again when it changes, also when a rename or a symbolic link replaces it.",
    "CRED-6": "A key appears in no event, log, span, stored row, failure or repr of calls that fail or succeed.",
    "CRED-7": "A token is kept until shortly before it expires, fetched once for all who wait, anew after a renewal.",
    "CRED-8": "A sign-in is bounded in time, and its failures are typed and say what to do without a secret.",
    "CRED-9": "A replacement that fails leaves a token in use that is still valid.",
    "CRED-10": "Azure: tokens of a service principal, a workload or a managed identity, for the profile's scope.",
    "CRED-11": "Google Cloud: tokens of a service account and of the machine, read from a file that may be replaced.",
    "CRED-12": "AWS: requests are signed with keys of the environment, files or roles, or carry a bearer key.",
    "CRED-13": "A missing library names the pip command, and nothing to sign in with names the variables.",
    "CRED-14": "URL, headers and signature are those that the providers' own SDKs would send.",
    "CRED-15": "Each cloud works end to end against a server that checks the credentials, also after a rejection.",
    "CRED-16": "Cloud libraries are imported by the first sign-in only, and none of them logs what it sends.",
    "CRED-17": "An option of a sign-in that is unknown, or a key beside a sign-in, is refused by its name.",
    "CRED-18": "An error inside a 200 is a failed attempt before any delta, and surfaces with the output after one.",
}
