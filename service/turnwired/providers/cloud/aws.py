"""AWS request signing (Signature Version 4) and Bedrock's bearer keys, by the ``botocore`` library.

Where credentials are found: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html.
``sign_in_options`` of the profile: ``service`` (the name that is signed), ``region`` and ``aws_profile``. Knows no wire
and no model; the whole request is signed as it goes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Reason
from turnwired.providers.cloud.surroundings import any_file, any_set, home, installed, made_by, options_of, quiet
from turnwired.providers.cloud.token import on_thread
from turnwired.providers.credentials import Authorization, Outgoing
from turnwired.providers.errors import provider_failure
from turnwired.providers.profiles import Profile

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials

SERVICE = "bedrock-mantle"
_BEARER = "AWS_BEARER_TOKEN_BEDROCK"
_KEY, _SECRET, _SESSION = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ELSEWHERE = (
    ("AWS_PROFILE",),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
)
_UNSIGNED = frozenset({"connection", "traceparent", "tracestate", "baggage"})
"""Headers that somebody on the way may change."""
_INSTALL = "signs in to AWS, for which a library is missing: pip install 'turnwired[cloud-aws]'"


class AwsCredentials:
    """Signs requests with keys from the environment or AWS's chain of sources, or sends Bedrock's bearer key."""

    def __init__(self, profile: Profile, environ: Mapping[str, str]) -> None:
        self._provider = profile.name
        self._options = options_of(profile, service=(), region=(), aws_profile=())
        self._environ = environ
        self._source: Any = None  # botocore's credentials, which refresh themselves and know their lock
        self._stamp: tuple[tuple[int, int] | None, ...] = ()

    @property
    def hint(self) -> str:
        """Where a person puts what is needed."""
        return f"the AWS sign-in ({_BEARER}, or {_KEY} and {_SECRET}, or an AWS profile or role)"

    @property
    def lack(self) -> str:
        """What is missing; empty when there is something to sign in with."""
        environ = self._environ
        if self._bearer():
            return ""
        if not installed("botocore"):
            return _INSTALL
        if not self._region():
            return f"has no AWS region to sign for: set {_REGIONS[0]}"
        found = (
            "aws_profile" in self._options
            or any_set(environ, (_KEY, _SECRET), *_ELSEWHERE)
            or any_file(*self._files())
            or made_by("Amazon")
        )
        if found:
            return ""
        return (
            f"finds nothing to sign in to AWS with: set {_BEARER}, or {_KEY} and {_SECRET}, or AWS_PROFILE, "
            "or run `aws configure`"
        )

    def ready(self) -> bool:
        """Whether there is something to sign in with, as far as that is known without asking AWS."""
        return not self.lack

    async def authorize(self, outgoing: Outgoing) -> Authorization:
        """The headers of the signature, or the bearer key's."""
        if bearer := self._bearer():
            return Authorization({"Authorization": f"Bearer {bearer}"}, bearer)
        if lack := self.lack:
            raise provider_failure(
                Reason.PROVIDER_NOT_CONFIGURED, f"Provider {self._provider} {lack}.", origin=self._provider
            )
        # Also because hashing a body of megabytes would hold up the loop.
        return await on_thread(lambda: self._signed(outgoing), self._provider)

    async def renew(self) -> None:
        """Look for credentials anew with the next request."""
        self._source = None

    async def aclose(self) -> None:
        """Forget the credentials."""
        self._source = None

    def _bearer(self) -> str:
        return "" if "aws_profile" in self._options else self._environ.get(_BEARER, "").strip()

    def _region(self) -> str:
        found = (self._options.get("region"), *(self._environ.get(name) for name in _REGIONS))
        return next((region.strip() for region in found if region and region.strip()), "")

    def _files(self) -> tuple[Path, Path]:
        directory = home(self._environ) / ".aws"
        named = (self._environ.get(name) for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"))
        credentials, config = named
        return Path(credentials or directory / "credentials"), Path(config or directory / "config")

    def _signed(self, outgoing: Outgoing) -> Authorization:
        quiet(("botocore", "urllib3"))
        try:
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError:
            raise provider_failure(
                Reason.PROVIDER_NOT_CONFIGURED, f"Provider {self._provider} {_INSTALL}.", origin=self._provider
            ) from None
        try:
            credentials = self._credentials()
        except (BotoCoreError, ClientError, ValueError, OSError) as error:
            raise self._failure(error) from None
        service = self._options.get("service") or SERVICE
        return Authorization(
            signed_headers(outgoing, credentials, service, self._region()),
            credentials.secret_key,
        )

    def _credentials(self) -> ReadOnlyCredentials:
        """The credentials now. Those of AWS's chain are kept, since they refresh themselves before they expire."""
        from botocore.credentials import ReadOnlyCredentials
        from botocore.exceptions import NoCredentialsError
        from botocore.session import Session

        environ = self._environ
        profile = self._options.get("aws_profile")
        key, secret = (environ.get(name, "").strip() for name in (_KEY, _SECRET))
        if key and secret and not profile:
            return ReadOnlyCredentials(key, secret, environ.get(_SESSION, "").strip() or None)
        stamp = tuple(_stamp(path) for path in self._files())
        source = self._source if stamp == self._stamp else None
        if source is None:
            source = Session(profile=profile or environ.get("AWS_PROFILE")).get_credentials()
            if source is None:
                raise NoCredentialsError
            self._source, self._stamp = source, stamp
        frozen: ReadOnlyCredentials = source.get_frozen_credentials()
        return frozen

    def _failure(self, error: Exception) -> ProviderError:
        from botocore.exceptions import (
            ConfigNotFound,
            HTTPClientError,
            NoCredentialsError,
            PartialCredentialsError,
            ProfileNotFound,
        )
        from botocore.exceptions import (
            ConnectionError as AwsConnectionError,
        )

        match error:
            case NoCredentialsError() | PartialCredentialsError() | ProfileNotFound() | ConfigNotFound() | ValueError():
                reason, retryable = Reason.PROVIDER_NOT_CONFIGURED, False
                words = f"Provider {self._provider} cannot sign in to AWS: nothing that works is in {self.hint}."
            case AwsConnectionError() | HTTPClientError() | OSError():
                reason, retryable = Reason.PROVIDER_NETWORK, True
                words = f"AWS cannot be reached to sign in for provider {self._provider}: check network and proxy."
            case _:
                reason, retryable = Reason.PROVIDER_AUTH_FAILED, False
                words = f"AWS rejects the sign-in of provider {self._provider}: check {self.hint}."
        return provider_failure(reason, words, retryable=retryable, origin=self._provider)


def signed_headers(
    outgoing: Outgoing, credentials: ReadOnlyCredentials, service: str, region: str
) -> Mapping[str, str]:
    """The headers that sign a request as it is, with the time now (Signature Version 4)."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    named = {name: value for name, value in outgoing.headers.items() if name.lower() not in _UNSIGNED}
    request = AWSRequest(method=outgoing.method, url=outgoing.url, data=outgoing.body, headers=named)
    SigV4Auth(credentials, service, region).add_auth(request)
    return {name: value for name, value in request.headers.items() if name not in named}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
